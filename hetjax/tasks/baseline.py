"""A baseline: its logits, what it learned, and the score that it was chosen by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.tasks.metrics import Quality, quality
from hetjax.tasks.ranking import AREAS

SPLITS = ("validation", "test")
SMALLEST = 1e-12  # share of a class that has a logarithm


class Labelled(Protocol):
    """An object with labels and splits, as a `HetGraph`."""

    @property
    def labels(self) -> np.ndarray: ...
    @property
    def splits(self) -> Mapping[str, np.ndarray]: ...


@dataclass(frozen=True)
class Baseline:
    """A baseline of a graph.

    Attributes:
      logits: float32 `[nodes of the split, classes]`, for the validation and the test nodes, by the names of these splits.
      how: a description of what it read and what it chose.
      learned: arrays from which `baselines.again` computes the logits of any nodes.
      score: the metric that it was chosen by, higher being better, on nodes whose labels it did not read; None: undefined.
      seconds: the time that it took.
    """

    logits: Mapping[str, np.ndarray]
    how: str
    learned: Mapping[str, np.ndarray]
    score: float | None = None
    seconds: float = 0.0

    def quality(self, graph: Labelled, split: str, metric: str) -> Quality:
        """The quality of the baseline on a split, whose labels are read; `metric` says whether areas are measured."""
        return quality(self.logits[split], graph.labels[graph.splits[split]], ordered=metric in AREAS)


def of_splits(graph: HetGraph, logits: np.ndarray) -> dict[str, np.ndarray]:
    """Return the logits of the nodes of `SPLITS` by split, from those of all these nodes in one array, in this order."""
    sizes = [len(graph.splits[split]) for split in SPLITS]
    return dict(zip(SPLITS, np.split(logits, np.cumsum(sizes)[:-1])))


def ids_of(graph: HetGraph) -> np.ndarray:
    """Return the nodes of `SPLITS`, one split after the other."""
    return np.concatenate([graph.splits[split] for split in SPLITS])


def log_share(share: np.ndarray, multilabel: bool) -> np.ndarray:
    """Return the logits of shares of classes, of the same shape."""
    log = np.log(np.maximum(share, SMALLEST))
    return log - np.log(np.maximum(1 - share, SMALLEST)) if multilabel else log


def prior(graph: HetGraph, ids: np.ndarray | None = None) -> np.ndarray:
    """Return the share of nodes that have each class, `[classes]`; without nodes, the same for all.

    Args:
      ids: the nodes; None: the training nodes.
    """
    labels, classes = graph.labels[graph.splits["train"] if ids is None else ids], graph.schema.classes
    if not len(labels):
        return np.full(classes, 0.5 if graph.multilabel else 1 / classes)
    return labels.mean(axis=0) if graph.multilabel else np.bincount(labels, minlength=classes) / len(labels)
