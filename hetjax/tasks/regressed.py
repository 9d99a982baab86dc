"""Logistic regression on the target's own features, on the scaling of features and with the penalty that are best.

They are judged by the validation nodes. Where those are fewer than `ENOUGH`, they are judged by cross-validation over the training and
validation nodes together. The regression itself learns from training nodes alone.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hetjax.graph import label_propagation
from hetjax.graph.hetgraph import HetGraph
from hetjax.tasks.baseline import Baseline, ids_of, of_splits
from hetjax.tasks.folds import ENOUGH, FOLDS, folds, scored_by
from hetjax.tasks.logistic import SCALINGS, Regression, best_of, regressions, same_scaling
from hetjax.tasks.metrics import HALF

MOST_VALUES = 10**8  # numbers of features read times classes, at every step of logistic regression
SCREENED = 4 * 10**6  # of those, as many as the scaling is chosen by


def logistic(graph: HetGraph, metric: str) -> Baseline | str:
    """Fit logistic regression; the reason, where there are no features.

    Args:
      graph: with features as they were read.
      metric: of `metrics.quality`, by which choices are judged.
    """
    features, train = graph.features.get(graph.schema.target), graph.splits["train"]
    if features is None:
        return "left out: the target type has no features"
    some = _some(graph, train, features.shape[1], MOST_VALUES)
    few = _some(graph, train, features.shape[1], SCREENED)
    pool = np.sort(np.concatenate([train, graph.splits["validation"]]))
    if len(graph.splits["validation"]) >= ENOUGH or len(pool) < 2 * FOLDS:
        scalings = _distinct(features[few])
        if len(few) < len(some) and len(scalings) > 1:
            scalings = [_validated(graph, metric, few, scalings)[0]]
        scaling, kept, score = _validated(graph, metric, some, scalings)
        judged = "validation"
    else:
        pool = _some(graph, pool, features.shape[1], SCREENED)
        scaling, number, score = _cross_validated(graph, metric, pool)
        kept = regressions(features[some], _y(graph, some), graph.multilabel, scaling)[number]
        judged = f"cross-validation over {len(pool):,} nodes"
    read = "" if len(some) == len(train) else f", on {len(some):,} of {len(train):,} training nodes"
    how = f"on the features of {graph.schema.target}, {SCALINGS[scaling]}{read}; chosen by {judged}"
    return Baseline(of_splits(graph, kept.logits(features, ids_of(graph))), how, kept._asdict(), score)


def again(learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    """Return the logits of nodes by the regression that was learned, perhaps on another graph."""
    return Regression(**learned).logits(graph.features[graph.schema.target], ids)


def _some(graph: HetGraph, ids: np.ndarray, width: int, most: int) -> np.ndarray:
    """Return so many of some nodes, at random but always the same, that their features times classes are at most `most`."""
    count = max(1, most // (width * graph.schema.classes))
    return np.sort(np.random.default_rng(0).permutation(ids)[:count])


def _y(graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    return label_propagation.known(graph, ids)[ids][:, : graph.schema.classes]


def _distinct(rows: np.ndarray) -> list[str]:
    """Return the scalings that differ on some features."""
    return [name for name in SCALINGS if not (name == "rows" and same_scaling(rows))]


def _validated(
    graph: HetGraph, metric: str, some: np.ndarray, scalings: Sequence[str]
) -> tuple[str, Regression, float | None]:
    """Return the scaling and the regression, learned from some training nodes, that score best on the validation nodes, and the score."""
    features, ids, score = graph.features[graph.schema.target], graph.splits["validation"], scored_by(metric)
    y, tried, scores = _y(graph, some), [], []
    for scaling in scalings:
        for one in regressions(features[some], y, graph.multilabel, scaling):
            tried.append((scaling, one))
            scores.append(score(one.logits(features, ids), graph.labels[ids], HALF) if len(ids) else None)
    best = best_of(scores)
    return *tried[best], scores[best]


def _cross_validated(graph: HetGraph, metric: str, pool: np.ndarray) -> tuple[str, int, float]:
    """Return the scaling, and the number of the penalty, that score best on the nodes of a pool, each from a fit without its fold, and the score."""
    features, score, parts = graph.features[graph.schema.target], scored_by(metric), folds(len(pool))
    outputs: dict[tuple[str, int], np.ndarray] = {}
    for fold in range(parts.max() + 1):
        inside, outside = pool[parts == fold], pool[parts != fold]
        for scaling in _distinct(features[pool]):
            for number, one in enumerate(regressions(features[outside], _y(graph, outside), graph.multilabel, scaling)):
                logits = one.logits(features, inside)
                outputs.setdefault((scaling, number), np.empty((len(pool), logits.shape[1])))[parts == fold] = logits
    scores = [score(x, graph.labels[pool], HALF) for x in outputs.values()]
    best = best_of(scores)
    return *list(outputs)[best], scores[best]
