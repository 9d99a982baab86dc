"""Options of the task node_classification."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hetjax.options.check import SHOWN, require
from hetjax.system.errors import InputError, short

CLASS_WEIGHTS = "none, balanced, or numbers over 0, one per class, as [2,1] or [CLASS=2,CLASS=1]"


@dataclass(frozen=True)
class Options:
    """Node classification: the classes of nodes."""

    section: ClassVar[str] = "node_classification"
    metric: Literal["accuracy", "micro_f1", "macro_f1", "roc_auc", "average_precision", "loss"] = "micro_f1"
    """the metric on the validation nodes that chooses the best epoch; micro_f1: for one label a node the accuracy; roc_auc, average_precision: means over more than two classes; ties: the lowest loss"""
    threshold: Literal["half", "validation"] = "half"
    """where a node may have several labels, the probability above which one is predicted; half: 0.5; validation: the one, in steps of 0.01, that gives the highest micro-F1 on the validation nodes"""
    class_weights: Literal["none", "balanced"] | tuple[float, ...] | tuple[str, ...] = field(
        default="none", metadata={"expected": CLASS_WEIGHTS}
    )
    """weights of the classes in the training loss, of which the ratios count; balanced: one over the training nodes of the class; or a number per class, in their order or as CLASS=NUMBER"""
    label_smoothing: float = 0.0
    """share of every label that is spread evenly over the classes"""

    def __post_init__(self):
        require(0 <= self.label_smoothing < 1, f"{self.section}.label_smoothing", self.label_smoothing, "in [0, 1)")
        weights = self.class_weights
        if not isinstance(weights, str):
            named = named_weights(weights)
            numbers = named.values() if named else map(float, weights)
            fits = all(0 < weight < math.inf for weight in numbers)
            require(fits, f"{self.section}.class_weights", weights, CLASS_WEIGHTS)


def named_weights(weights: tuple) -> dict[str, float]:
    """Return `node_classification.class_weights` given as CLASS=NUMBER by class; empty where they are numbers alone.

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
        require(bool(name) and 0 < weight < math.inf, "node_classification.class_weights", list(weights), CLASS_WEIGHTS)
        if name in found:
            raise InputError(
                f"node_classification.class_weights is {short(str(list(weights)), SHOWN)}, and names {name!r} twice"
            )
        found[name] = weight
    return found
