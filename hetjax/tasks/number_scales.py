"""Standardised numbers: from the unit of the labels to one in which training values have mean 0 and deviation 1, and back."""

from typing import NamedTuple

import numpy as np

SCALES = ("linear", "robust", "log")
ROBUST = 1.4826  # times the median absolute deviation: the standard deviation, of a normal distribution
SMALL = 0.1  # the quantile of the numbers over 0 that counts as 1 in a logarithm
LARGEST = 80.0  # exponent whose power is finite in 32 bits


class Scale(NamedTuple):
    """The way from numbers to standardised ones, `(f(number) - mean) / deviation`, float64 `[numbers]` each.

    `f` is the number itself, or `log(1 + number / unit)`, which keeps the order and shortens a long tail of large numbers.

    Attributes:
      mean, deviation: of `f` of the training values; or, robust, their median and 1.4826 times the median distance from it,
        which a few far values do not change. The deviation is 1 where the values are all alike.
      unit: the number that counts as 1 in the logarithm; 0: no logarithm.
    """

    mean: np.ndarray
    deviation: np.ndarray
    unit: np.ndarray

    def standardised(self, values: np.ndarray) -> np.ndarray:
        """Return values `[..., numbers]` standardised, float64; NaN stays, and with a logarithm a number of -`unit` or less becomes NaN."""
        return (self._curved(values.astype(np.float64)) - self.mean) / self.deviation

    def restored(self, outputs: np.ndarray) -> np.ndarray:
        """Return in the unit of the labels what `standardised` made, with a logarithm not below 0; float64 `[..., numbers]`."""
        plain = outputs.astype(np.float64) * self.deviation + self.mean
        if not self.unit.any():
            return plain
        powers = self.unit * np.expm1(np.clip(plain, 0, LARGEST))
        return np.where(self.unit > 0, powers, plain)

    def _curved(self, wide: np.ndarray) -> np.ndarray:
        if not self.unit.any():
            return wide
        with np.errstate(invalid="ignore", divide="ignore"):
            curved = np.log1p(wide / np.where(self.unit > 0, self.unit, 1))
        return np.where(self.unit > 0, np.where(np.isfinite(curved), curved, np.nan), wide)


def fitted(train: np.ndarray, scale: str = "linear") -> Scale:
    """Return the scale of training values.

    Args:
      train: `[n, numbers]`, NaN where one is not known.
      scale: one of `SCALES`; with `log`, the unit is the 10 % quantile of the values over 0. `robust` takes the standard
        deviation where at least half of the values are alike.
    """
    wide, count = train.astype(np.float64), train.shape[1]
    unit = np.zeros(count)
    if scale == "log":
        over = [column[column > 0] for column in wide.T]
        unit = np.array([np.quantile(column, SMALL) if len(column) else 1.0 for column in over])
    begun = Scale(np.zeros(count), np.ones(count), unit)
    columns = [column[~np.isnan(column)] for column in begun.standardised(wide).T]
    centre = np.median if scale == "robust" else np.mean
    mean = np.array([centre(column) if len(column) else 0.0 for column in columns])
    deviation = np.array([column.std() if len(column) else 0.0 for column in columns])
    if scale == "robust":
        robust = np.array([robust_deviation(column) if len(column) else 0.0 for column in columns])
        deviation = np.where(robust > 0, robust, deviation)
    return Scale(mean, np.where(deviation > 0, deviation, 1.0), unit)


def robust_deviation(values: np.ndarray) -> float:
    """Return 1.4826 times the median distance of values from their median; 0 where at least half are alike."""
    return float(ROBUST * np.median(np.abs(values - np.median(values))))
