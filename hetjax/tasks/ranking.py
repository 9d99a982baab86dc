"""The order of nodes by scores: areas under curves, for the nodes of a class against all others."""

import numpy as np

AREAS = "roc_auc", "average_precision"


def areas(logits: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """Return `roc_auc` and `average_precision`: with two classes that of class 1, with several the mean over the classes.

    The mean is over those classes that some of the nodes have and some have not. A node's score of a class is the logit where nodes may
    have several labels, with two classes the difference of the logits, and else the class's probability.

    Args:
      logits: `[nodes, classes]`.
      labels: class ids `[nodes]`, or 0 and 1 `[nodes, classes]`.

    Returns:
      None of each where there is no such class.
    """
    wide, classes = logits.astype(np.float64), logits.shape[1]
    if labels.ndim == 2:
        scores, positive = wide, labels != 0
    elif classes == 2:
        scores, positive = (wide[:, 1] - wide[:, 0])[:, None], (labels == 1)[:, None]
    else:
        powers = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
        scores, positive = powers / powers.sum(axis=1, keepdims=True), labels[:, None] == np.arange(classes)
    found = {}
    for name, area in zip(AREAS, (roc_auc, average_precision)):
        values = [area(scores[:, one], positive[:, one]) or 0.0 for one in ordered_classes(positive)]
        found[name] = float(np.mean(values)) if values else None
    return found


def ordered_classes(positive: np.ndarray) -> np.ndarray:
    """Return the classes that some of the nodes have and some have not, of bool `[nodes, classes]`."""
    return np.flatnonzero(positive.any(axis=0) & ~positive.all(axis=0))


def roc_auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the area under the ROC curve: the share of pairs of a positive and a negative node that the scores order rightly.

    It is computed by ranks (Mann and Whitney 1947) in integers, so it is exact; a tie counts half.

    Args:
      scores: `[nodes]`.
      positive: bool `[nodes]`.

    Returns:
      None where all nodes are positive, or none is.
    """
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    double_ranks = 2 * np.cumsum(sizes) - sizes + 1  # of equal scores, twice the mean of their ranks
    ones = int(positive.sum())
    zeros = len(positive) - ones
    if not ones or not zeros:
        return None
    double_wins = int(double_ranks[group[positive]].sum()) - ones * (ones + 1)
    return double_wins / (2 * ones * zeros)


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the mean, over the positive nodes, of the precision among the nodes that score at least as high.

    It is the area under the curve of precision by recall, as steps; equal scores are one step.

    Args:
      scores: `[nodes]`.
      positive: bool `[nodes]`.

    Returns:
      None where no node is positive.
    """
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    hits = np.bincount(group[positive], minlength=len(sizes))
    if not hits.sum():
        return None
    return float((hits * np.cumsum(hits) / np.cumsum(sizes)).sum() / hits.sum())
