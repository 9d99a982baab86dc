"""Options of the task node_classification."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hetjax.options.check import SHOWN, require
from hetjax.system.errors import InputError, short

OF_OPTIONS = {"distance": "ordinal", "cost": "costs"}  # metrics, by the options that define them
COSTS = "none, or numbers over 0, one per class, as [1,10] or [CLASS=1,CLASS=10]"
CLASS_WEIGHTS = "none, balanced, or numbers over 0, one per class, as [2,1] or [CLASS=2,CLASS=1]"


@dataclass(frozen=True)
class Options:
    """Node classification: the classes of nodes."""

    section: ClassVar[str] = "node_classification"
    metric: Literal["accuracy", "micro_f1", "macro_f1", "roc_auc", "average_precision", "loss", "distance", "cost"] = (
        "micro_f1"
    )
    """what chooses the best epoch on the validation nodes; micro_f1: of one label a node the accuracy; roc_auc, average_precision: class means; distance: of ordinal; cost: of costs; ties: the lowest loss"""
    threshold: Literal["half", "validation", "classes"] = "half"
    """of several labels a node, the probability above which one is predicted; half: 0.5; validation: of the highest micro-F1 on the validation nodes, in steps of 0.01; classes: one per class, by its F1"""
    class_weights: Literal["none", "balanced"] | tuple[float, ...] | tuple[str, ...] = field(
        default="none", metadata={"expected": CLASS_WEIGHTS}
    )
    """weights of the classes in the training loss, of which the ratios count; balanced: one over the training nodes of the class; or a number per class, in their order or as CLASS=NUMBER"""
    label_smoothing: float = 0.0
    """share of every label that is spread evenly over the classes"""
    focal: float = field(default=0.0, metadata={"before": None})
    """the power of the focal loss, which weighs down examples that are predicted well, as 2; 0: the cross-entropy"""
    ordinal: bool = field(default=False, metadata={"before": None})
    """the classes have an order, such as ratings: the head is a proportional-odds model, and the mean distance in classes is a metric"""
    costs: Literal["none"] | tuple[float, ...] | tuple[str, ...] = field(
        default="none", metadata={"before": None, "expected": COSTS}
    )
    """the cost of predicting another class than a node's, one per class, as class_weights; the class of the highest probability times cost is predicted; training is not changed"""

    def __post_init__(self):
        require(0 <= self.label_smoothing < 1, f"{self.section}.label_smoothing", self.label_smoothing, "in [0, 1)")
        require(0 <= self.focal <= 100, f"{self.section}.focal", self.focal, "in [0, 100]")
        if self.focal and self.label_smoothing:
            raise InputError(
                f"{self.section}.focal is {self.focal}, and label_smoothing {self.label_smoothing}: one of the two must be 0"
            )
        for option, expected in EXPECTED.items():
            weights = getattr(self, option)
            if not isinstance(weights, str):
                named = named_weights(weights, option)
                numbers = named.values() if named else map(float, weights)
                fits = all(0 < weight < math.inf for weight in numbers)
                require(fits, f"{self.section}.{option}", weights, expected)
        needed = OF_OPTIONS.get(self.metric)
        if needed and getattr(self, needed) in (False, "none"):
            value = str(getattr(self, needed)).lower()
            raise InputError(
                f"{self.section}.metric is {self.metric}, which is of {self.section}.{needed}, and that is {value}"
            )


EXPECTED = {"class_weights": CLASS_WEIGHTS, "costs": COSTS}


def named_weights(weights: tuple, option: str = "class_weights") -> dict[str, float]:
    """Return weights or costs given as CLASS=NUMBER by class; empty where they are numbers alone.

    Raises:
      InputError: a text is not of that form, or names a class a second time.
    """
    found: dict[str, float] = {}
    for text in weights if any(isinstance(weight, str) for weight in weights) else ():
        name, _, number = str(text).rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        fits = bool(name) and 0 < weight < math.inf
        require(fits, f"node_classification.{option}", list(weights), EXPECTED[option])
        if name in found:
            raise InputError(
                f"node_classification.{option} is {short(str(list(weights)), SHOWN)}, and names {name!r} twice"
            )
        found[name] = weight
    return found
