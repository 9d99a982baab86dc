"""Cross-validation: folds of nodes, the score of outputs by a metric, and the standard error of a difference of two scores."""

from collections.abc import Callable, Sequence

import numpy as np

from hetjax.tasks.metrics import HALF, predicted_labels, quality
from hetjax.tasks.ranking import AREAS

FOLDS = 5
GROUPS = 20  # of the jackknife
ENOUGH = 100  # validation nodes that a choice is judged by; of fewer, the training nodes are judged by too, in folds
WORST = -1e30  # the score of nodes that leave the metric undefined

Score = Callable[[np.ndarray, np.ndarray, float], float]  # of logits, labels and a threshold; higher is better


def folds(nodes: int, parts: int = FOLDS) -> np.ndarray:
    """Return the fold of each of some nodes, int64 `[nodes]`: random, the same for the same number of nodes, and of equal sizes."""
    return np.random.default_rng(0).permutation(nodes) % max(1, min(parts, nodes))


def scored_by(metric: str, class_weights: Sequence[float] = ()) -> Score:
    """Return the function that scores logits by a metric of `metrics.quality`; the loss is negated.

    Args:
      class_weights: the weight of every class in the loss. The accuracy, the micro-F1 and the loss count a node or a label by that of
        its class, so that a choice does not cancel what training was weighted by; other metrics count each class alike already.
    """
    weights = np.array(class_weights, float)

    def score(logits: np.ndarray, labels: np.ndarray, threshold: float = HALF) -> float:
        if len(weights) and len(labels) and (labels.ndim == 1 or metric != "accuracy"):
            if metric in ("accuracy", "micro_f1"):
                return _weighted_f1(logits, labels, threshold, weights)
            if metric == "loss":
                return -_weighted_loss(logits, labels, weights)
        value = quality(logits, labels, metric in AREAS, threshold).get(metric)
        return WORST if value is None else -value if metric == "loss" else value

    return score


def _weighted_f1(logits: np.ndarray, labels: np.ndarray, threshold: float, weights: np.ndarray) -> float:
    """Return the share of nodes that are right, or the micro-F1 of several labels a node, where classes have weights."""
    if labels.ndim == 1:
        return float(np.average(logits.argmax(axis=1) == labels, weights=weights[labels]))
    predicted, true = predicted_labels(logits, threshold), labels != 0
    occurrences = (predicted.sum(axis=0) + true.sum(axis=0)) @ weights
    return float(2 * (predicted & true).sum(axis=0) @ weights / occurrences) if occurrences else 0.0


def _weighted_loss(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean cross-entropy where classes have weights."""
    wide = logits.astype(np.float64)
    if labels.ndim == 2:
        return float(np.mean(np.logaddexp(0, np.where(labels != 0, -wide, wide)) * weights[None]))
    log = wide - np.logaddexp.reduce(wide, axis=1, keepdims=True)
    return float(-np.average(log[np.arange(len(labels)), labels], weights=weights[labels]))


def standard_error(difference: Callable[[np.ndarray], float], nodes: int) -> float:
    """Return the standard error of a statistic of nodes by the jackknife that leaves out a group of nodes at a time.

    Args:
      difference: the statistic of the nodes whose numbers it is given.
      nodes: how many there are.
    """
    group = folds(nodes, GROUPS)
    count = int(group.max()) + 1
    values = np.array([difference(np.flatnonzero(group != number)) for number in range(count)])
    return float(np.sqrt((count - 1) / count * np.sum((values - values.mean()) ** 2)))
