"""Multinomial logistic regression with an L2 penalty, fitted by L-BFGS; where nodes have several labels, one regression per class."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # which imports its parts when they are first used

PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # one over the factor of half the sum of squares
ITERATIONS = 50  # for each of these
FEW = 0.2  # share of features that are not zero, up to which the zeros are left out
NARROW = 8  # times as many features as nodes
AT_ONCE = 2**19  # numbers of features, which a cache holds
SCALINGS = {
    "raw": "as they are",
    "rows": "each row divided by its sum",
    "columns": "each column scaled to standard deviation 1",
}  # ways to scale features, in words


class Regression(NamedTuple):
    """A fitted regression: the logits of rows are `(rows - mean) kernel + bias`.

    Attributes:
      mean: `[width]`, zeros of features that are not centred.
      kernel: `[width, classes]`.
      bias: `[classes]`.
      by_rows: 1 if every row is divided by the sum of its absolute values first; otherwise 0.
    """

    mean: np.ndarray
    kernel: np.ndarray
    bias: np.ndarray
    by_rows: np.ndarray

    def logits(self, features: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return logits float32 `[ids, classes]`, computed for so many nodes at a time."""
        found = np.empty((len(ids), len(self.bias)), np.float32)
        rows = max(1, AT_ONCE // features.shape[1])
        for start in range(0, len(ids), rows):
            part = features[ids[start : start + rows]]
            part = divided(part) if self.by_rows else part
            found[start : start + rows] = (part - self.mean) @ self.kernel + self.bias
        return found


def divided(rows: np.ndarray) -> np.ndarray:
    """Return rows `[nodes, width]`, each divided by the sum of its absolute values; a row of zeros as it is."""
    wide = rows.astype(np.float64)
    sums = np.abs(wide).sum(axis=1, keepdims=True)
    return wide / np.where(sums > 0, sums, 1)


def same_scaling(rows: np.ndarray) -> bool:
    """Return whether division by the sums of rows would only multiply all of them by one number."""
    sums = np.abs(rows.astype(np.float64)).sum(axis=1)
    return bool(np.ptp(sums) <= 1e-6 * max(sums.max(initial=0), 1e-30)) if len(sums) else True


def regressions(rows: np.ndarray, y: np.ndarray, multilabel: bool, scaling: str = "columns") -> list[Regression]:
    """Return a regression for each of `PENALTIES`, each starting from the one before.

    Args:
      rows: features of the training nodes, `[nodes, width]`.
      y: whether nodes have each class, `[nodes, classes]`.
      scaling: one of `SCALINGS`.
    """
    sparse = bool(np.count_nonzero(rows) <= FEW * rows.size)
    used = divided(rows) if scaling == "rows" else rows
    mean, scale = _scale(used, scaling == "columns", sparse)
    x = scipy.sparse.csr_matrix(used).multiply(scale).tocsr() if sparse else (used - mean) * scale
    basis, by_rows = _basis(x), np.array(float(scaling == "rows"))
    inner = x if basis is None else x @ basis
    tried, weights = [], np.zeros((inner.shape[1] + 1, y.shape[1]))
    for penalty in PENALTIES:
        weights = _fit(inner, y, multilabel, penalty, weights)
        kernel = weights[:-1] if basis is None else basis @ weights[:-1]
        tried.append(Regression(mean, scale[:, None] * kernel, weights[-1], by_rows))
    return tried


def _basis(x: Any) -> np.ndarray | None:
    """Return orthonormal columns `[width, nodes]` that span the rows of far fewer nodes than features; None for more nodes, where that costs more.

    The penalty lets weights have no part outside that span, and L-BFGS takes the same steps in its coordinates, which are fewer.
    """
    if NARROW * x.shape[0] > x.shape[1]:
        return None
    dense = x.toarray() if scipy.sparse.issparse(x) else x
    return scipy.linalg.qr(dense.T, mode="economic")[0]


def _scale(rows: np.ndarray, columns: bool, sparse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets that are subtracted from features and the factors that then multiply them, `[width]` each: the squares of rows then add up to 1 on average.

    Args:
      columns: whether columns are brought to standard deviation 1 before, so that units do not matter, and to mean 0.
      sparse: whether most features are 0, and stay so: then nothing is subtracted.
    """
    wide = rows.astype(np.float64)
    spread = wide.std(axis=0) if columns else np.ones(rows.shape[1])
    mean = wide.mean(axis=0) if columns and not sparse else np.zeros(rows.shape[1])
    scale = 1 / np.where(spread > 0, spread, 1)
    return mean, scale / (np.sqrt(np.mean(np.sum(((wide - mean) * scale) ** 2, axis=1))) or 1)


def _fit(x: Any, y: np.ndarray, multilabel: bool, penalty: float, first: np.ndarray) -> np.ndarray:
    """Fit weights `[width + 1, classes]`, the last row of which is added to every node; `first` is their initial value."""
    shape = first.shape

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        value, off = loss_of(x @ weights[:-1] + weights[-1:], y, multilabel)
        gradient = np.concatenate([x.T @ off + weights[:-1] / penalty, off.sum(axis=0, keepdims=True)])
        return value + np.sum(weights[:-1] ** 2) / (2 * penalty), gradient.ravel()

    options = {"maxiter": ITERATIONS}
    done = scipy.optimize.minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    return done.x.reshape(shape)


def loss_of(
    scores: np.ndarray, y: np.ndarray, multilabel: bool, weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the sum of the cross-entropies of nodes, and its gradient by their scores `[nodes, classes]`.

    Args:
      weights: the weight of each node and class, `[nodes, classes]`, alike in a row where a node has one label; None: 1.
    """
    if multilabel:
        losses, off = np.logaddexp(0, scores) - y * scores, scipy.special.expit(scores) - y
    else:
        log = scipy.special.log_softmax(scores, axis=1)
        losses, off = -y * log, np.exp(log) - y
    if weights is None:
        return float(np.sum(losses)), off
    return float(np.sum(weights * losses)), weights * off


def best_of(scores: Sequence[float | None]) -> int:
    """Return the index of the highest score, of equal ones the first; None is the lowest."""
    return int(np.argmax([-1.0 if score is None else score for score in scores]))
