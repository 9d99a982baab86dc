"""Options of the task several."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from hetjax.options.check import require

WEIGHTS = "equal, learned, or numbers from 0 on, one per target, as [1,0.5]"


def _new(default: Any, **about: Any) -> Any:
    return field(default=default, metadata={"before": None, **about})


@dataclass(frozen=True)
class Options:
    """Several targets: columns of labels that one run learns together, each with a task of its own."""

    section: ClassVar[str] = "several"
    targets: tuple[str, ...] = _new((), expected="names of columns of labels, as [paper.venue,author.age]")
    """the columns of labels that are learned together; each is classified, or regressed if it holds numbers; COLUMN=TASK chooses another task, MODULE:NAME too"""
    weights: Literal["equal", "learned"] | tuple[float, ...] = _new("equal", expected=WEIGHTS)
    """the weight of each target's mean loss; equal: 1 each; learned: by uncertainty (Kendall et al. 2018); or a number per target, in their order"""
    chosen_by: str = _new("")
    """the target whose metric chooses the best epoch; unset: the weighted loss of all"""

    def __post_init__(self):
        if not isinstance(self.weights, str):
            fits = all(0 <= weight < math.inf for weight in self.weights) and sum(self.weights) > 0
            require(fits, "several.weights", list(self.weights), WEIGHTS)

    @property
    def named(self) -> list[tuple[str, str]]:
        """The columns of labels as they are given, each with the name of its task; empty: by its labels."""
        parts = [text.partition("=") for text in self.targets]
        return [(column, task) for column, _, task in parts]
