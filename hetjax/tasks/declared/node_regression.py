"""Options of the task node_regression."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Options:
    """Node regression: a number of each node."""

    metric: Literal["rmse", "mae", "r2", "loss"] = field(default="rmse", metadata={"before": None})
    """the metric on the validation nodes that chooses the best epoch; ties: the lowest loss"""
