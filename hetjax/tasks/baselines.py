"""The baselines that a model has to beat: the larger class, logistic regression on the target's own features, label propagation.

Each is computed in seconds, label propagation on large graphs in some more (docs/strategies/single_results.md, Parts of a step). It learns from the training labels alone, and makes its
choices on the validation nodes; where those are few, by cross-validation over training and validation nodes.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.tasks import regressed, walked
from hetjax.tasks.baseline import Baseline, Labelled, ids_of, log_share, of_splits, prior
from hetjax.tasks.folds import ENOUGH, scored_by
from hetjax.tasks.metrics import HALF
from hetjax.tasks.regressed import logistic
from hetjax.tasks.walked import walk

NAMES = ("larger class", "logistic regression", "label propagation")

Found = Mapping[str, Baseline | str]  # by name; or why it was left out


def baselines(graph: HetGraph, metric: str) -> dict[str, Baseline | str]:
    """Return all baselines of a graph. No test node's label is read.

    A baseline that would take too long is left out, or reads some of the training nodes alone: then `how` says it.

    Args:
      graph: as it was read: without label inputs and metapaths, and with features that nothing was done to.
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
    ways = dict(zip(NAMES, (_same, regressed.again, walked.again)))
    return ways[name](learned, graph, ids)


def larger_class(graph: HetGraph, metric: str) -> Baseline:
    """Return the same for every node: the class that most training nodes have; where nodes have several labels, those that at least half of them have."""
    learned = {"prior": prior(graph)}
    logits, few = _same(learned, graph, ids_of(graph)), len(graph.splits["validation"]) < ENOUGH
    pool = np.sort(np.concatenate([graph.splits["validation"], graph.splits["train"][: None if few else 0]]))
    score = scored_by(metric)(_same(learned, graph, pool), graph.labels[pool], HALF) if len(pool) else None
    return Baseline(of_splits(graph, logits), "the class of most training nodes", learned, score)


def _same(learned: Mapping[str, np.ndarray], graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    logits = log_share(learned["prior"], graph.multilabel).astype(np.float32)
    return np.broadcast_to(logits, (len(ids), len(logits)))
