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


class Regression(NamedTuple):
    """A fitted regression: the logits of rows are `(rows - mean) kernel + bias`.

    Attributes:
      mean: `[width]`, zeros of features that are mostly 0.
      kernel: `[width, classes]`.
      bias: `[classes]`.
    """

    mean: np.ndarray
    kernel: np.ndarray
    bias: np.ndarray

    def logits(self, features: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return logits float32 `[ids, classes]`, computed for so many nodes at a time."""
        found = np.empty((len(ids), len(self.bias)), np.float32)
        rows = max(1, AT_ONCE // features.shape[1])
        for start in range(0, len(ids), rows):
            found[start : start + rows] = (features[ids[start : start + rows]] - self.mean) @ self.kernel + self.bias
        return found


def regressions(rows: np.ndarray, y: np.ndarray, multilabel: bool) -> list[Regression]:
    """Return a regression for each of `PENALTIES`, each starting from the one before.

    Args:
      rows: features of the training nodes, `[nodes, width]`.
      y: whether nodes have each class, `[nodes, classes]`.
    """
    mean, scale = _scale(rows)
    x = (rows - mean) * scale if mean.any() else scipy.sparse.csr_matrix(rows).multiply(scale).tocsr()
    basis = _basis(x)
    inner = x if basis is None else x @ basis
    tried, weights = [], np.zeros((inner.shape[1] + 1, y.shape[1]))
    for penalty in PENALTIES:
        weights = _fit(inner, y, multilabel, penalty, weights)
        kernel = weights[:-1] if basis is None else basis @ weights[:-1]
        tried.append(Regression(mean, scale[:, None] * kernel, weights[-1]))
    return tried


def _basis(x: Any) -> np.ndarray | None:
    """Return orthonormal columns `[width, nodes]` that span the rows of far fewer nodes than features; None for more nodes, where that costs more.

    The penalty lets weights have no part outside that span, and L-BFGS takes the same steps in its coordinates, which are fewer.
    """
    if NARROW * x.shape[0] > x.shape[1]:
        return None
    dense = x.toarray() if scipy.sparse.issparse(x) else x
    return scipy.linalg.qr(dense.T, mode="economic")[0]


def _scale(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets that are subtracted from features and the factors that then multiply them, `[width]` each: the squares of rows then add up to 1 on average.

    Columns with negative numbers or few zeros are brought to mean 0 and standard deviation 1 before, so that units do not matter.
    """
    plain = np.count_nonzero(rows) <= FEW * rows.size or (rows.min() >= 0 and rows.dtype.kind in "biu")
    wide = rows.astype(np.float64)
    spread = np.ones(rows.shape[1]) if plain else wide.std(axis=0)
    mean = np.zeros(rows.shape[1]) if plain else wide.mean(axis=0)
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
