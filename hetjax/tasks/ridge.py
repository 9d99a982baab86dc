"""Ridge regression in closed form, for every penalty from one decomposition."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # times the number of rows
AT_ONCE = 2**19  # values of features that are read at a time


class Ridge(NamedTuple):
    """A fitted regression: the prediction of rows is `(rows - mean) kernel + bias`.

    Attributes:
      mean, kernel: float64 `[width]`.
      bias: the mean of the targets.
    """

    mean: np.ndarray
    kernel: np.ndarray
    bias: float

    def __call__(self, features: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return predictions float64 `[ids]`, computed for so many rows at a time."""
        found = np.empty(len(ids))
        rows = max(1, AT_ONCE // features.shape[1])
        for start in range(0, len(ids), rows):
            part = features[ids[start : start + rows]].astype(np.float64)
            found[start : start + rows] = (part - self.mean) @ self.kernel + self.bias
        return found


def ridges(rows: np.ndarray, targets: np.ndarray, penalties: Sequence[float] = PENALTIES) -> list[Ridge]:
    """Return a regression for each penalty: the sum of squares plus `penalty * n * |kernel|^2` of features of deviation 1 is least.

    Args:
      rows: features `[n, width]`.
      targets: `[n]`.
    """
    wide = rows.astype(np.float64)
    mean, spread = wide.mean(axis=0), wide.std(axis=0)
    scale = 1 / np.where(spread > 0, spread, 1)
    x, y, bias = (wide - mean) * scale, targets.astype(np.float64), float(targets.mean(dtype=np.float64))
    tall = len(x) >= x.shape[1]
    values, vectors = np.linalg.eigh(x.T @ x if tall else x @ x.T)
    values = np.maximum(values, 0)
    turned = vectors.T @ (x.T @ (y - bias) if tall else y - bias)
    found = []
    for penalty in penalties:
        solved = vectors @ (turned / (values + penalty * len(x)))
        found.append(Ridge(mean, scale * (solved if tall else x.T @ solved), bias))
    return found
