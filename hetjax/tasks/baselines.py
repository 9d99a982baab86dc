"""The baselines that a model has to beat: the larger class, logistic regression on the target's own features, label propagation.

Each is computed in seconds, label propagation on large graphs in some more (docs/strategies/single_results.md, Parts of a step). It reads the training labels alone, and makes its
choices on the validation nodes.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from hetjax.graph import label_propagation
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.tasks.logistic import Regression, best_of, regressions
from hetjax.tasks.metrics import Quality, quality
from hetjax.tasks.ranking import AREAS

NAMES = ("larger class", "logistic regression", "label propagation")
MOST_EDGE_CLASSES = 10**9  # edges times classes that labels are propagated along
MOST_VALUES = 10**8  # numbers of features read times classes, at every step of logistic regression
SPLITS = ("validation", "test")
CERTAIN = 5  # decimals of a share that rounding leaves alone: an even share is even on every computer
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
      how: a description of what it read.
      learned: arrays from which `again` computes the logits of any nodes.
      seconds: the time that it took.
    """

    logits: Mapping[str, np.ndarray]
    how: str
    learned: Mapping[str, np.ndarray]
    seconds: float = 0.0

    def quality(self, graph: Labelled, split: str, metric: str) -> Quality:
        """The quality of the baseline on a split, whose labels are read; `metric` says whether areas are measured."""
        return quality(self.logits[split], graph.labels[graph.splits[split]], ordered=metric in AREAS)


Found = Mapping[str, Baseline | str]  # by name; or why it was left out


def baselines(graph: HetGraph, metric: str) -> dict[str, Baseline | str]:
    """Return all baselines of a graph. No test node's label is read.

    A baseline that would take too long is left out, or reads some of the training nodes alone: then `how` says it.

    Args:
      graph: without label inputs and metapaths.
      metric: the metric of `metrics.quality`, by which baselines choose.
    """
    found: dict[str, Baseline | str] = {}
    for name, make in zip(NAMES, (larger_class, logistic, walk)):
        started = time.perf_counter()
        made = make(graph, metric)
        seconds = round(time.perf_counter() - started, 2)
        found[name] = made if isinstance(made, str) else replace(made, seconds=seconds)
    return found


def said(found: Found, split: str, count: int | None = None) -> dict[str, np.ndarray]:
    """Return the logits of all baselines that were not left out, for the first nodes of a split, by name."""
    return {name: made.logits[split][:count] for name, made in found.items() if isinstance(made, Baseline)}


def measured(found: Found, graph: Labelled, metric: str) -> dict[str, dict[str, Any]]:
    """Return the quality of baselines on the test nodes by name, with `how`, the validation's (`validation_NAME`) and `seconds`."""
    rows: dict[str, dict[str, Any]] = {}
    for name, made in found.items():
        if isinstance(made, str):
            rows[name] = {"how": made}
            continue
        validation = made.quality(graph, "validation", metric)
        rows[name] = {"how": made.how, **made.quality(graph, "test", metric)}
        rows[name] |= {f"validation_{key}": value for key, value in validation.items()} | {"seconds": made.seconds}
    return rows


def again(name: str, learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    """Return a baseline's logits float32 `[ids, classes]` from its learned arrays, perhaps on another graph.

    Args:
      graph: a graph of the same relations, and features of the same width.
    """
    ways = {"larger class": _same, "logistic regression": _regressed, "label propagation": _walked}
    return ways[name](learned, graph, ids)


def prior(graph: HetGraph) -> np.ndarray:
    """Return the share of the training nodes that have each class, `[classes]`; without training nodes, the same for all."""
    labels, classes = graph.labels[graph.splits["train"]], graph.schema.classes
    if not len(labels):
        return np.full(classes, 0.5 if graph.multilabel else 1 / classes)
    return labels.mean(axis=0) if graph.multilabel else np.bincount(labels, minlength=classes) / len(labels)


def _logits(share: np.ndarray, multilabel: bool) -> np.ndarray:
    log = np.log(np.maximum(share, SMALLEST))
    return log - np.log(np.maximum(1 - share, SMALLEST)) if multilabel else log


def larger_class(graph: HetGraph, metric: str) -> Baseline:
    """Return the same for every node: the class that most training nodes have; where nodes have several labels, those that at least half of them have."""
    return _made(graph, "larger class", "the class of most training nodes", {"prior": prior(graph)})


def walk(graph: HetGraph, metric: str) -> Baseline | str:
    """Propagate labels along all relations or along one: the choice is the best on the validation nodes."""
    if graph.edges * graph.schema.classes > MOST_EDGE_CLASSES:
        return f"left out: {graph.edges:,} edges times {graph.schema.classes} classes > {MOST_EDGE_CLASSES:,}"
    ways = label_propagation.ways(graph)
    tried = [
        _made(graph, "label propagation", f"along {name}", {"relations": np.array(relations, str).reshape(-1, 3)})
        for name, relations in ways.items()
    ]
    return tried[best_of([made.quality(graph, "validation", metric).get(metric) for made in tried])]


def logistic(graph: HetGraph, metric: str) -> Baseline | str:
    """Fit logistic regression on the target's own features, with the penalty that is best on the validation nodes."""
    features = graph.features.get(graph.schema.target)
    if features is None:
        return "left out: the target type has no features"
    train = graph.splits["train"]
    most = max(1, MOST_VALUES // (features.shape[1] * graph.schema.classes))
    some = np.sort(np.random.default_rng(0).permutation(train)[:most])
    y = label_propagation.known(graph, some)[some][:, : graph.schema.classes]
    read = "" if len(some) == len(train) else f", on {len(some):,} of {len(train):,} training nodes"
    how = f"on the features of {graph.schema.target}{read}"
    found = [one._asdict() for one in regressions(features[some], y, graph.multilabel)]
    tried = [_made(graph, "logistic regression", how, learned, ("validation",)) for learned in found]
    best = best_of([made.quality(graph, "validation", metric).get(metric) for made in tried])
    return _made(graph, "logistic regression", how, found[best])


def _made(
    graph: HetGraph, name: str, how: str, learned: Mapping[str, np.ndarray], splits: Sequence[str] = SPLITS
) -> Baseline:
    ids = [graph.splits[split] for split in splits]
    parts = np.split(again(name, learned, graph, np.concatenate(ids)), np.cumsum([len(own) for own in ids])[:-1])
    return Baseline(dict(zip(splits, parts)), how, learned)


def _same(learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    logits = _logits(learned["prior"], graph.multilabel).astype(np.float32)
    return np.broadcast_to(logits, (len(ids), len(logits)))


def _regressed(learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    return Regression(**learned).logits(graph.features[graph.schema.target], ids)


def _walked(learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    relations = [Relation(*map(str, names)) for names in learned["relations"]]
    start = label_propagation.known(graph, graph.splits["train"])
    spread = label_propagation.Propagation(graph, relations)(start)[ids]
    share = label_propagation.shares(spread, prior(graph), graph.multilabel)
    return _logits(np.round(share, CERTAIN), graph.multilabel)
