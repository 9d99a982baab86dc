"""What a run measures: the quality of predictions, the programs compiled, memory, and the record of an epoch."""

import math
import platform
import time
from collections import deque
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from hetjax import __version__
from hetjax.system.internals import COMPILED, READ_FROM_CACHE
from hetjax.tasks.ranking import AREAS, areas

Quality = dict[str, float | None]  # by name; None of no nodes

STEEP, LOUD = 20.0, 1.0  # a loss over `LOUD`, and so many times that of two steps before, is said


HALF, STEPS = 0.5, 100  # the probability above which a label is predicted; how fine another is chosen


def quality(logits: np.ndarray, labels: np.ndarray, ordered: bool = False, threshold: float = HALF) -> Quality:
    """Mean loss, accuracy and F1 of class predictions, and how well they are ordered.

    Every node counts the same.

    Args:
      logits: `[nodes, classes]`.
      labels: class ids `[nodes]`, or 0 and 1 `[nodes, classes]` where a node may have several labels.
      threshold: the probability above which each of several labels is predicted.
      ordered: measure `roc_auc` and `average_precision` of more than two classes too, which takes a sort for each.

    Returns:
      `loss`: mean softmax cross-entropy; with several labels, sigmoid cross-entropy, a node's being the mean over classes.
      `accuracy`: share of nodes whose label, or whole set of labels, is right. `micro_f1`: over all pairs of a node and a
      label; equal to the accuracy where a node has one class. `macro_f1`: mean over the classes that occur, among labels or
      predictions, of each one's F1. Both are 0 where no class occurs. `roc_auc` and `average_precision`, where there are two
      classes and one label a node, or they are asked for: as `ranking.areas`. None of each for no nodes.
    """
    ordered |= labels.ndim == 1 and logits.shape[1] == 2
    if not len(labels):
        return dict.fromkeys(("loss", "accuracy", "micro_f1", "macro_f1", *(AREAS if ordered else ())))
    measured = (
        _multilabel_quality(logits, labels != 0, threshold) if labels.ndim == 2 else _class_quality(logits, labels)
    )
    return measured | (areas(logits, labels) if ordered else {})


def _class_quality(logits: np.ndarray, labels: np.ndarray) -> Quality:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    predicted = logits.argmax(axis=1)
    classes = logits.shape[1]
    hits = np.bincount(labels[predicted == labels], minlength=classes)
    occurrences = np.bincount(predicted, minlength=classes) + np.bincount(labels, minlength=classes)
    accuracy = float(hits.sum() / len(labels))
    macro = float(np.mean(2 * hits[occurrences > 0] / occurrences[occurrences > 0]))
    return {"loss": float(losses.mean()), "accuracy": accuracy, "micro_f1": accuracy, "macro_f1": macro}


def predicted_labels(logits: np.ndarray, threshold: float = HALF) -> np.ndarray:
    """Which of several labels a node is said to have, bool `[nodes, classes]`: those whose probability is above the threshold."""
    return logits > math.log(threshold / (1 - threshold))


def best_threshold(logits: np.ndarray, labels: np.ndarray) -> float:
    """Of 0.01, 0.02 to 0.99 the threshold of the highest micro-F1, of equal ones the nearest to `HALF`.

    Args:
      logits: `[nodes, classes]`.
      labels: 0 and 1, `[nodes, classes]`.
    """
    with np.errstate(over="ignore"):
        probability = 1 / (1 + np.exp(-logits.astype(np.float64).ravel()))
    above = np.ceil(STEPS * probability).astype(np.int64).clip(1, STEPS) - 1  # the largest of the thresholds below it
    predicted = np.bincount(above, minlength=STEPS)[::-1].cumsum()[::-1]
    hits = np.bincount(above[labels.ravel() != 0], minlength=STEPS)[::-1].cumsum()[::-1]
    f1 = 2 * hits / np.maximum(1, predicted + hits[0])
    return min(range(1, STEPS), key=lambda step: (-f1[step], abs(step / STEPS - HALF))) / STEPS


def _multilabel_quality(logits: np.ndarray, labels: np.ndarray, threshold: float) -> Quality:
    wide = logits.astype(np.float64)
    losses = np.logaddexp(0, np.where(labels, -wide, wide))
    predicted = predicted_labels(logits, threshold)
    hits = (predicted & labels).sum(axis=0)
    occurrences = predicted.sum(axis=0) + labels.sum(axis=0)
    occur = occurrences > 0
    return {
        "loss": float(losses.mean()),
        "accuracy": float((predicted == labels).all(axis=1).mean()),
        "micro_f1": float(2 * hits.sum() / occurrences.sum()) if occur.any() else 0.0,
        "macro_f1": float(np.mean(2 * hits[occur] / occurrences[occur])) if occur.any() else 0.0,
    }


class ProgramCounter:
    """Counts the programs that are made while this process runs.

    Attributes:
      count: all of them.
      kept: those that were read from jax's cache rather than compiled.
    """

    def __init__(self):
        self.count = self.kept = 0
        import jax  # here, because help and errors of the command line need no more of this file than its words

        jax.monitoring.register_event_duration_secs_listener(self._made)
        jax.monitoring.register_event_listener(self._read)

    def _made(self, event: str, duration_secs: float, **_: str | int) -> None:
        self.count += event == COMPILED

    def _read(self, event: str, **_: str | int) -> None:
        self.kept += event == READ_FROM_CACHE


def versions() -> dict[str, str]:
    """Of Python and of the libraries that results depend on."""
    names = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "numba")
    here = {"python": platform.python_version(), "hetjax": __version__}
    return here | {name: version(name) for name in names}


class Rises:
    """Whether a loss rises steeply, which is said once.

    Args:
      before: the losses of the two steps before, of a run that is continued.
    """

    def __init__(self, before: Sequence[float] = ()):
        self.before: deque[float] = deque(before, maxlen=2)
        self.said = False

    def note(self, loss: float) -> str:
        """What to say of the loss of the next step: nothing, or what may help.

        It is steep where it is over 1 (a guess among three classes) and twenty times the lowest of the two steps before.
        """
        lowest = min(self.before, default=loss)
        self.before.append(loss)
        if self.said or loss < LOUD or loss < STEEP * lowest:
            return ""
        self.said = True
        return (
            f"the loss rose from {lowest:.3g} to {loss:.3g} within two steps; a lower --train.learning_rate may help, "
            "or --model.norm layer, --train.gradient_clip 1, or features that are scaled to about 1"
        )


class Clock:
    """Where the time of a step goes."""

    def __init__(self):
        self.laps: dict[str, list[float]] = {}

    def start(self) -> None:
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.note(name, now - self.last)
        self.last = now

    def note(self, name: str, seconds: float) -> None:
        self.laps.setdefault(name, []).append(seconds)

    def medians(self) -> dict[str, float]:
        """Median milliseconds of each part."""
        return {name: round(1000 * float(np.median(laps)), 2) for name, laps in self.laps.items()}
