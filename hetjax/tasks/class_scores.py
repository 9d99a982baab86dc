"""Scores of predictions, class by class, and the calibration of their probabilities."""

from typing import NamedTuple

import numpy as np

BINS = 10


class PerClass(NamedTuple):
    """The scores of every class, float64 or int64 `[classes]`; NaN where nothing was predicted, or no node has the class.

    Attributes:
      precision: the share of the predictions of the class that are right.
      recall: the share of its nodes that are found.
      f1: their harmonic mean.
      nodes: the number of nodes that have it.
    """

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    nodes: np.ndarray


def per_class(labels: np.ndarray, predicted: np.ndarray, classes: int) -> PerClass:
    """Return precision, recall and F1 of every class.

    Args:
      labels, predicted: class ids `[nodes]`; or bool `[nodes, classes]`, where a node may have several.
    """
    if labels.ndim == 2:
        hits, found, there = ((m != 0).sum(axis=0) for m in ((labels != 0) & (predicted != 0), predicted, labels))
    else:
        every = labels[labels == predicted], predicted, labels
        hits, found, there = (np.bincount(ids, minlength=classes) for ids in every)
    with np.errstate(invalid="ignore", divide="ignore"):
        return PerClass(hits / found, hits / there, 2 * hits / (found + there), there)


def confusion(labels: np.ndarray, predicted: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the number of nodes by class and predicted class, of the classes `some`, which are sorted: int64 `[some, some]`."""
    inside = np.isin(labels, some) & np.isin(predicted, some)
    rows, columns = (np.searchsorted(some, ids[inside]) for ids in (labels, predicted))
    return np.bincount(rows * len(some) + columns, minlength=len(some) ** 2).reshape(len(some), len(some))


def confused(labels: np.ndarray, predicted: np.ndarray, most: int) -> list[tuple[int, int, int]]:
    """Return at most `most` pairs of a class and another that was predicted of most of its nodes, and the number of nodes of each pair."""
    wrong = labels != predicted
    pairs, nodes = np.unique(np.stack([labels[wrong], predicted[wrong]], axis=1), axis=0, return_counts=True)
    order = np.argsort(-nodes, kind="stable")[:most]
    return [(int(a), int(b), int(count)) for (a, b), count in zip(pairs[order], nodes[order])]


class Calibration(NamedTuple):
    """The calibration of predictions, grouped by their probability into bins of equal width.

    Attributes:
      edges: the edges of the bins, `[bins + 1]`.
      numbers: the number of predictions in each bin, int64 `[bins]`.
      probability, right: the means in each bin, NaN in empty ones, float64 `[bins]`.
      error: the expected calibration error: the mean distance of the two, weighted by the bins' numbers of predictions (Naeini et al., 2015).
    """

    edges: np.ndarray
    numbers: np.ndarray
    probability: np.ndarray
    right: np.ndarray
    error: float


def calibration(probability: np.ndarray, right: np.ndarray, bins: int = BINS) -> Calibration:
    """Return the calibration of predictions: whether a share as large as their probability is right.

    Args:
      probability: the probabilities, in 0..1, `[predictions]`.
      right: bool `[predictions]`.
    """
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.ceil(probability.astype(np.float64) * bins).astype(np.int64) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    sums = [np.bincount(place, values.astype(np.float64), bins) for values in (probability, right)]
    error = float(np.abs(sums[0] - sums[1]).sum() / max(1, count.sum()))
    with np.errstate(invalid="ignore", divide="ignore"):
        return Calibration(edges, count, sums[0] / count, sums[1] / count, error)
