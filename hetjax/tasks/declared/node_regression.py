"""Options of the task node_regression."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """Node regression: a number of each node."""

    metric: Literal["rmse", "mae", "r2", "loss"] = "rmse"
    """the metric on the validation nodes that chooses the best epoch; ties: the lowest loss"""
