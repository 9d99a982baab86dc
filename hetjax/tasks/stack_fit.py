"""The fit of a stack on the validation nodes, and the choice by cross-validation whether it is kept.

Candidates are each baseline alone, the weights of all members, and the weights with a shift of each class. Each is fitted on four
fifths of the validation nodes and scored on the other fifth, five times, by the metric of the run. The best one is kept if its score
is above that of the model alone by more than `NOISE` standard errors of the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetjax.tasks import baselines
from hetjax.tasks.folds import Score, folds, scored_by, standard_error
from hetjax.tasks.metrics import HALF, best_threshold
from hetjax.tasks.stacking import MODEL, Stacked
from hetjax.tasks.weigh import fitted, log_probabilities

FEWEST = 10  # validation nodes that anything is learned of
MOST = 2**22  # numbers of all logits that it is learned of
NOISE = 1.0  # standard errors by which a stack is to be better than the model alone
CUT = ("accuracy", "micro_f1", "macro_f1")  # metrics that a threshold decides


class Candidate(NamedTuple):
    """A way to stack.

    Attributes:
      names: the members that have weights; of one alone the weight is 1.
      shift: whether each class has a shift.
      class_weights: the weight of every class in the loss; empty: all alike.
    """

    names: tuple[str, ...]
    shift: bool = False
    class_weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Tried:
    """The outcome of an attempt to stack a model.

    Attributes:
      stacked: the best stack, whether it is kept or not.
      kept: whether it is better than the model alone by more than noise.
      metric: the metric that says so.
      alone, score: the score of the model alone, and that of the stack on nodes that it was not fitted on; higher is better.
      error: the standard error of their difference.
      nodes: the number of validation nodes.
    """

    stacked: Stacked
    kept: bool
    metric: str
    alone: float
    score: float
    error: float
    nodes: int


@dataclass(frozen=True)
class Nodes:
    """The validation nodes.

    Attributes:
      members: logarithms of probabilities, float64 `[nodes, classes]`, of the model and of baselines by name.
      labels: as in `HetGraph`.
      cuts: whether a threshold is chosen.
    """

    members: Mapping[str, np.ndarray]
    labels: np.ndarray
    cuts: bool

    def fitted(self, how: Candidate, ids: np.ndarray) -> Stacked:
        """Return the stack of a candidate that is best on some of the nodes, without what baselines learned."""
        labels, parts = self.labels[ids], {name: self.members[name][ids] for name in how.names}
        weights, bias = np.ones(1), np.zeros(self.members[MODEL].shape[1])
        if len(parts) > 1 or how.shift:
            weights, bias = fitted(np.stack(list(parts.values())), labels, how.shift, how.class_weights)
        used = {name: float(a) for name, a in zip(parts, weights) if a > 0}
        stacked = Stacked(used, bias, {})
        threshold = best_threshold(stacked.weighed(parts), labels) if self.cuts else HALF
        return Stacked(used, bias, {}, threshold)

    def held_out(self, how: Candidate, parts: np.ndarray) -> np.ndarray:
        """Return outputs `[nodes, classes]`, each from a fit without the node's own fold; a threshold is subtracted, so that it is `HALF`."""
        found = np.empty(self.members[MODEL].shape)
        for number in range(parts.max() + 1):
            inside = np.flatnonzero(parts == number)
            stacked = self.fitted(how, np.flatnonzero(parts != number))
            found[inside] = stacked.weighed({name: x[inside] for name, x in self.members.items()})
            found[inside] -= np.log(stacked.threshold / (1 - stacked.threshold))
        return found


def tried(
    logits: np.ndarray,
    found: baselines.Found,
    labels: np.ndarray,
    metric: str,
    choose_threshold: bool = False,
    class_weights: Sequence[float] = (),
) -> Tried | None:
    """Fit the stack that is best on the validation nodes, and judge it; None if there are too few of them.

    Args:
      logits: the model's logits of the validation nodes.
      found: the baselines.
      labels: the labels of the validation nodes, as in `HetGraph`.
      metric: the metric of `metrics.quality` that the stack is chosen by.
      choose_threshold: whether a threshold is chosen where nodes have several labels.
      class_weights: the weight of every class in the loss, as in training; empty: all alike.
    """
    if len(labels) < FEWEST:
        return None
    several, others = labels.ndim == 2, baselines.said(found, "validation")
    some = slice(None, None, 1 + (1 + len(others)) * logits.size // MOST)
    members = {name: log_probabilities(x[some], several) for name, x in {MODEL: logits, **others}.items()}
    nodes = Nodes(members, labels[some], choose_threshold and several and metric in CUT)
    parts, score = folds(len(nodes.labels)), scored_by(metric, class_weights)
    ways = list(candidates(tuple(members), nodes.labels, metric, class_weights))
    outputs = [nodes.held_out(how, parts) for how in [Candidate((MODEL,)), *ways]]
    scores = [score(output, nodes.labels, HALF) for output in outputs]
    best = 1 + int(np.argmax(scores[1:]))
    error = standard_error(lambda ids: _gain(score, outputs[best], outputs[0], nodes.labels, ids), len(nodes.labels))
    stacked = nodes.fitted(ways[best - 1], np.arange(len(nodes.labels)))
    learned = {name: one.learned for name in stacked.weights if isinstance(one := found.get(name), baselines.Baseline)}
    stacked = Stacked(stacked.weights, stacked.bias, learned, stacked.threshold)
    kept = scores[best] - scores[0] > NOISE * error
    return Tried(stacked, bool(kept), metric, scores[0], scores[best], error, len(nodes.labels))


def candidates(
    names: tuple[str, ...], labels: np.ndarray, metric: str, class_weights: Sequence[float]
) -> Iterator[Candidate]:
    """Yield the ways to stack members. The macro-F1 counts classes alike, so for it the loss may do so as well."""
    yield from (Candidate((name,)) for name in names if name != MODEL)
    given = tuple(class_weights)
    losses = [given]
    if metric == "macro_f1" and not given:
        counts = labels.sum(axis=0) if labels.ndim == 2 else np.bincount(labels)
        losses.append(tuple(1 / np.maximum(counts, 1)))
    for weights in losses:
        for shift in (False, True):
            if shift or len(names) > 1:
                yield Candidate(names, shift, weights)


def _gain(score: Score, one: np.ndarray, other: np.ndarray, labels: np.ndarray, ids: np.ndarray) -> float:
    """Return by how much some outputs of the nodes `ids` score better than others."""
    return score(one[ids], labels[ids], HALF) - score(other[ids], labels[ids], HALF)
