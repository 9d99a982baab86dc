"""Metrics of numbers, in their unit: of several numbers the mean over those that have the metric; they know no nodes and no edges."""

from collections.abc import Sequence

import numpy as np

from hetjax.tasks.quality import Quality

POINTS = ("rmse", "mae", "r2", "spearman")
INTERVALS = ("pinball", "coverage")


def scores(predicted: np.ndarray, values: np.ndarray, weights: np.ndarray | None = None) -> Quality:
    """Return the mean over the numbers of each metric of `POINTS`.

    Args:
      predicted: float64 `[n, numbers]`.
      values: `[n, numbers]`, NaN where one is not known; such an entry does not count.
      weights: `[n, numbers]`, none below 0; None: all alike.

    Returns:
      A number whose metric is undefined is left out of the mean; None where it is undefined of all: without entries, and
      `r2` and `spearman` of values that are all alike, the latter of predictions too.
    """
    return mean_of([number_scores(*one) for one in by_number(predicted, values, weights)], POINTS)


def number_scores(predicted: np.ndarray, values: np.ndarray, weights: np.ndarray) -> Quality:
    """Return the metrics of `POINTS` of one number; arguments `[entries]`, the weights over 0."""
    if not len(values):
        return dict.fromkeys(POINTS)
    error = predicted - values
    square = float(np.average(error**2, weights=weights))
    spread = float(np.average((values - np.average(values, weights=weights)) ** 2, weights=weights))
    return {
        "rmse": square**0.5,
        "mae": float(np.average(np.abs(error), weights=weights)),
        "r2": 1 - square / spread if differ(values) and spread else None,
        "spearman": spearman(predicted, values),
    }


def spearman(predicted: np.ndarray, values: np.ndarray) -> float | None:
    """Return Spearman's rank correlation, of ties with the mean of their ranks; None where either is all alike.

    Args:
      predicted, values: `[entries]`.
    """
    if not differ(predicted) or not differ(values):
        return None
    one, other = (ranks(array) - (len(array) + 1) / 2 for array in (predicted, values))
    return float(np.sum(one * other) / np.sqrt(np.sum(one**2) * np.sum(other**2)))


def ranks(array: np.ndarray) -> np.ndarray:
    """Return the ranks of values from 1, of equal ones the mean of theirs; float64 `[entries]`."""
    _, group, sizes = np.unique(array, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]


def differ(array: np.ndarray) -> bool:
    """Return whether some values are not alike."""
    return bool(len(array)) and bool((array != array[0]).any())


def interval_scores(
    predicted: np.ndarray, values: np.ndarray, quantiles: Sequence[float], weights: np.ndarray | None = None
) -> Quality:
    """Return the mean over the numbers of each metric of `INTERVALS`: the pinball loss, the mean over the quantiles, and the
    share of the values between the lowest and the highest quantile.

    Args:
      predicted: float64 `[n, numbers, quantiles]`, rising in the last axis.
      values, weights: as of `scores`.
      quantiles: the levels, rising.

    Returns:
      As of `scores`.
    """

    def of_number(ordered: np.ndarray, known: np.ndarray, weight: np.ndarray) -> Quality:
        if not len(known):
            return dict.fromkeys(INTERVALS)
        inside = (ordered[:, 0] <= known) & (known <= ordered[:, -1])
        return {
            "pinball": float(np.average(pinball(ordered, known, quantiles).mean(axis=1), weights=weight)),
            "coverage": float(np.average(inside, weights=weight)),
        }

    return mean_of([of_number(*one) for one in by_number(predicted, values, weights)], INTERVALS)


def pinball(predicted: np.ndarray, values: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Return the pinball loss of each quantile, `[entries, quantiles]`, of predictions of that shape and values `[entries]`."""
    error, levels = values[:, None] - predicted, np.asarray(quantiles)
    return np.maximum(levels * error, (levels - 1) * error)


def mean_of(found: Sequence[Quality], names: Sequence[str]) -> Quality:
    """Return the mean of each metric over the numbers of which it is defined; None of none."""
    defined = {name: [value for one in found if (value := one[name]) is not None] for name in names}
    return {name: float(np.mean(values)) if values else None for name, values in defined.items()}


def by_number(
    predicted: np.ndarray, values: np.ndarray, weights: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return predictions, values and weights of each number, of the entries that are known and weigh something."""
    weights = np.ones(values.shape) if weights is None else weights
    counts = ~np.isnan(values) & (weights > 0)
    return [
        (predicted[rows, n], values[rows, n].astype(np.float64), weights[rows, n].astype(np.float64))
        for n, rows in enumerate(counts.T)
    ]
