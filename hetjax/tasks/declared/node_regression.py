"""Options of the task node_regression."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal

from hetjax.options.check import require
from hetjax.system.errors import InputError

MIDDLE = 0.5  # the quantile that is predicted
QUANTILES = "rising numbers between 0 and 1, with 0.5 among them, as [0.1,0.5,0.9]"


def _new(default: Any, **about: Any) -> Any:
    return field(default=default, metadata={"before": None, **about})


@dataclass(frozen=True)
class Options:
    """Node regression: a number of each node, or several."""

    section: ClassVar[str] = "node_regression"
    metric: Literal["rmse", "mae", "r2", "spearman", "pinball", "loss"] = _new("rmse")
    """the metric on the validation nodes that chooses the best epoch; pinball: of quantiles alone; ties: the lowest loss"""
    loss: Literal["mse", "mae", "huber", "log_cosh", "quantile"] = _new("mse")
    """the training loss, of standardised numbers; huber: squares up to huber_delta, linear beyond; quantile: the pinball loss of every one of quantiles"""
    huber_delta: float = _new(1.0)
    """the error from which the Huber loss is linear, in standard deviations of the training numbers"""
    quantiles: tuple[float, ...] = _new((0.1, MIDDLE, 0.9), expected=QUANTILES)
    """the quantiles that the loss quantile predicts of each number; the median, 0.5, is the prediction"""
    scale: Literal["linear", "robust", "log"] = _new("linear")
    """what is learned: numbers of mean 0, deviation 1; robust: by median and median distance; log: log(1 + number / 10 % quantile), of numbers from 0 on; predictions are in the unit of the labels"""
    unit: str = _new("")
    """the unit of the numbers, in lines and in the report"""

    def __post_init__(self):
        require(0 < self.huber_delta < math.inf, f"{self.section}.huber_delta", self.huber_delta, "over 0, and finite")
        levels = self.quantiles
        rising = all(one < other for one, other in pairwise(levels))
        fits = rising and MIDDLE in levels and len(levels) > 1 and all(0 < level < 1 for level in levels)
        require(fits, f"{self.section}.quantiles", list(levels), QUANTILES)
        if self.metric == "pinball" and self.loss != "quantile":
            raise InputError(
                f"{self.section}.metric is pinball, which is of {self.section}.loss quantile; that is {self.loss}"
            )
        require(
            len(self.unit) <= 40 and self.unit.isprintable(),
            f"{self.section}.unit",
            self.unit,
            "of at most 40 characters that can be printed",
        )
