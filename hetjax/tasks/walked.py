"""Label propagation, along the relations and with the shift of classes that are best.

Labels are propagated along all relations or along one (`hetjax.graph.label_propagation`). The logarithms of shares may then be shifted:
by the shares of classes among the training nodes, so that a class that has more of them is not predicted more often, or by what fits the
validation nodes best. Ways and shifts are judged by the validation nodes, a fitted shift in folds. Where those are fewer than `ENOUGH`, they are
judged by cross-validation over the training and validation nodes together, and no shift is fitted.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hetjax.graph import label_propagation
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.tasks.baseline import Baseline, ids_of, log_share, of_splits, prior
from hetjax.tasks.folds import ENOUGH, FOLDS, folds, scored_by
from hetjax.tasks.logistic import best_of
from hetjax.tasks.metrics import HALF
from hetjax.tasks.weigh import fitted, log_probabilities

MOST_EDGE_CLASSES = 10**9  # edges times classes that labels are propagated along
CERTAIN = 5  # decimals of a share that rounding leaves alone: an even share is even on every computer

Shift = tuple[float, np.ndarray]  # what logarithms are multiplied by, and what is then added per class


def walk(graph: HetGraph, metric: str) -> Baseline | str:
    """Propagate labels; the reason, where that would take too long.

    Args:
      metric: of `metrics.quality`, by which choices are judged.
    """
    if graph.edges * graph.schema.classes > MOST_EDGE_CLASSES:
        return f"left out: {graph.edges:,} edges times {graph.schema.classes} classes > {MOST_EDGE_CLASSES:,}"
    train, validation = graph.splits["train"], graph.splits["validation"]
    pool = np.sort(np.concatenate([train, validation]))
    few = len(validation) < ENOUGH and len(pool) >= 2 * FOLDS
    few &= graph.edges * graph.schema.classes * FOLDS <= MOST_EDGE_CLASSES
    judged = f"cross-validation over {len(pool):,} nodes" if few else "validation"
    tried, scores = [], []
    for name, relations in label_propagation.ways(graph).items():
        propagation = label_propagation.Propagation(graph, relations)
        logits = _logits(graph, propagation, train, ids_of(graph))
        found = _in_folds(graph, metric, propagation, pool) if few else _validated(graph, metric, logits)
        for words, shift, score in found:
            tried.append((relations, f"along {name}{words}; chosen by {judged}", shift, logits))
            scores.append(score)
    best = best_of(scores)
    relations, how, shift, logits = tried[best]
    learned = {"relations": np.array(relations, str).reshape(-1, 3), "scale": np.array(shift[0]), "shift": shift[1]}
    return Baseline(of_splits(graph, _shifted(logits, shift, graph.multilabel)), how, learned, scores[best])


def again(learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    """Return the logits of nodes by the relations and the shift that were chosen, perhaps on another graph."""
    relations = [Relation(*map(str, names)) for names in learned["relations"]]
    propagation = label_propagation.Propagation(graph, relations)
    logits = _logits(graph, propagation, graph.splits["train"], ids)
    return _shifted(logits, (float(learned["scale"]), learned["shift"]), graph.multilabel)


def _logits(
    graph: HetGraph, propagation: label_propagation.Propagation, known: np.ndarray, ids: np.ndarray
) -> np.ndarray:
    """Return the logarithms of the shares of classes, `[ids, classes]`, where the labels of the nodes `known` are propagated."""
    spread = propagation(label_propagation.known(graph, known))[ids]
    share = label_propagation.shares(spread, prior(graph, known), graph.multilabel)
    return log_share(np.round(share, CERTAIN), graph.multilabel)


def _shifted(logits: np.ndarray, shift: Shift, multilabel: bool) -> np.ndarray:
    """Return logits float32 of the same shape; without a shift as they are."""
    scale, added = shift
    if not np.any(added):
        return logits.astype(np.float32)
    return (scale * log_probabilities(logits, multilabel) + added[None]).astype(np.float32)


def _shifts(graph: HetGraph, known: np.ndarray) -> Iterator[tuple[str, Shift]]:
    """Yield, in words and as numbers, the shifts that labels of nodes tell: none, and one by the shares of classes."""
    yield "", (1.0, np.zeros(graph.schema.classes))
    share = prior(graph, known)
    if np.ptp(share) > 10.0**-CERTAIN:
        even = -log_share(share, graph.multilabel)
        yield ", classes shifted by their shares", (1.0, np.where((share > 0) & (share < 1), even, 0.0))


def _validated(graph: HetGraph, metric: str, logits: np.ndarray) -> Iterator[tuple[str, Shift, float | None]]:
    """Yield shifts of logits of the nodes of `SPLITS`, in words and as numbers, with their scores on the validation nodes."""
    ids, several, score = graph.splits["validation"], graph.multilabel, scored_by(metric)
    labels, logits = graph.labels[ids], logits[: len(ids)]
    for words, shift in _shifts(graph, graph.splits["train"]):
        yield words, shift, score(_shifted(logits, shift, several), labels, HALF) if len(ids) else None
    if len(ids) < ENOUGH:
        return
    log, parts = log_probabilities(logits, several)[None], folds(len(ids))
    outputs = np.empty(logits.shape)
    for fold in range(FOLDS):
        (scale,), added = fitted(log[:, parts != fold], labels[parts != fold], True)
        outputs[parts == fold] = scale * log[0, parts == fold] + added
    (scale,), added = fitted(log, labels, True)
    yield ", classes shifted", (float(scale), added), score(outputs, labels, HALF)


def _in_folds(
    graph: HetGraph, metric: str, propagation: label_propagation.Propagation, pool: np.ndarray
) -> Sequence[tuple[str, Shift, float | None]]:
    """Return shifts as `_validated`, with their scores on the nodes of a pool, of which a fold at a time has its labels left out."""
    parts, score, labels = folds(len(pool)), scored_by(metric), graph.labels[pool]
    ways = list(_shifts(graph, graph.splits["train"]))
    outputs = np.empty((len(ways), len(pool), graph.schema.classes))
    for fold in range(parts.max() + 1):
        outside = pool[parts != fold]
        logits, own = _logits(graph, propagation, outside, pool[parts == fold]), dict(_shifts(graph, outside))
        for number, (words, _) in enumerate(ways):
            outputs[number, parts == fold] = _shifted(logits, own.get(words, own[""]), graph.multilabel)
    return [(*way, score(output, labels, HALF)) for way, output in zip(ways, outputs)]
