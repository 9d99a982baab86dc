"""The quality of class predictions."""

import math
from collections.abc import Sequence

import numpy as np

from hetjax.tasks.quality import Quality
from hetjax.tasks.ranking import AREAS, areas

HALF, STEPS = 0.5, 100  # the probability above which a label is predicted; how fine another is chosen


def quality(
    logits: np.ndarray, labels: np.ndarray, ordered: bool = False, threshold: float | Sequence[float] = HALF
) -> Quality:
    """Return mean loss, accuracy and F1 of class predictions, and the areas that measure their order.

    Every node counts the same.

    Args:
      logits: `[nodes, classes]`.
      labels: class ids `[nodes]`, or 0 and 1 `[nodes, classes]` where a node may have several labels.
      threshold: the probability above which each of several labels is predicted; or one for each class.
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


def predicted_labels(logits: np.ndarray, threshold: float | Sequence[float] = HALF) -> np.ndarray:
    """Return the labels that a node is predicted to have, bool `[nodes, classes]`: those whose probability is above the threshold, or above that of the class."""
    if isinstance(threshold, float):
        return logits > math.log(threshold / (1 - threshold))
    return logits > np.array([math.log(one / (1 - one)) for one in threshold])


def best_thresholds(logits: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return of each class the threshold of its highest F1, as `best_threshold`."""
    return [best_threshold(logits[:, [n]], labels[:, [n]]) for n in range(logits.shape[1])]


def distance(predicted: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the mean distance in classes, of class ids `[nodes]` that have an order; None of no nodes."""
    return float(np.abs(predicted - labels).mean()) if len(labels) else None


def mean_cost(predicted: np.ndarray, labels: np.ndarray, costs: Sequence[float]) -> float | None:
    """Return the mean over the nodes of the cost of each whose class, an id `[nodes]`, is not predicted; None of no nodes."""
    return float(np.where(predicted == labels, 0, np.asarray(costs)[labels]).mean()) if len(labels) else None


def best_threshold(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the threshold of the highest micro-F1 among 0.01, 0.02 to 0.99, of equal ones the nearest to `HALF`.

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


def _multilabel_quality(logits: np.ndarray, labels: np.ndarray, threshold: float | Sequence[float]) -> Quality:
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
