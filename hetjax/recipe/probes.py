"""Linear probes: what logistic regression makes of a graph's features, as they are or scaled, of a node's own or of its neighbours' mean.

They take a second where a model takes several to be compiled, and decide which scalings and models are worth a race.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from hetjax.datasets.load import made
from hetjax.graph import label_propagation
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Data, Scaling
from hetjax.recipe.holdouts import HoldOut, HoldOuts
from hetjax.tasks.logistic import best_of, regressions
from hetjax.tasks.metrics import quality

MOST_VALUES = 10**8  # of all features, which are copied once a scaling
MOST_TRAINED = 2000  # nodes that a regression is fitted to
DIVISIONS = 3  # that are probed


class Probe(NamedTuple):
    """The micro-F1 on nodes that are held out, from 0 to 1.

    Attributes:
      own: of logistic regression on a node's own features.
      neighbours: of logistic regression on the mean of its neighbours' features.
    """

    own: float
    neighbours: float


class Probes(NamedTuple):
    """The probes of a graph.

    Attributes:
      by_scaling: the probe of each value of `data.normalize_features`.
      error: one standard error of the best of them.
    """

    by_scaling: Mapping[Scaling, Probe]
    error: float

    def scalings(self, most: int) -> list[Scaling]:
        """Return the scalings that are not worse than the best by more than one standard error, so many at most, the best first."""
        scores = {name: max(probe) for name, probe in self.by_scaling.items()}
        near = [name for name in scores if scores[name] >= max(scores.values()) - self.error]
        return sorted(near, key=lambda name: scores[name], reverse=True)[:most]

    @property
    def own_tell_more(self) -> bool:
        """Return whether a node's own features tell more than its neighbours' do, by more than one standard error."""
        own, neighbours = (max(scores) for scores in zip(*self.by_scaling.values()))
        return own > neighbours + self.error

    def words(self, names: Mapping[str, str]) -> str:
        """Return a line of all scores."""
        found = (f"{names[s]} {100 * p.own:.1f} and {100 * p.neighbours:.1f} %" for s, p in self.by_scaling.items())
        return f"logistic regression on a node's own features, and on its neighbours' mean: {'; '.join(found)}"


def error_of(share: float, count: int) -> float:
    """Return one standard error of a share of so many nodes; that of one node more or less where all are alike."""
    inside = min(max(share, 1 / (count + 2)), 1 - 1 / (count + 2))
    return float(np.sqrt(inside * (1 - inside) / count))


def probes(graph: HetGraph, held: HoldOuts, scalings: Sequence[Scaling]) -> Probes | None:
    """Return the probes of a graph of one node type and relation; None where its features are too many, or labels are numbers.

    Args:
      scalings: values of `data.normalize_features`; of those that give the same features the first.
    """
    features = graph.features.get(graph.schema.target)
    if features is None or features.size > MOST_VALUES or graph.numeric:
        return None
    (csc,) = graph.relations.values()
    ones = np.ones(len(csc.indices), np.float32)
    edges = scipy.sparse.csr_matrix((ones, csc.indices, csc.indptr), (len(features), len(features)))[held.pool]
    edges = scipy.sparse.diags(1 / np.maximum(edges.sum(axis=1).A1, 1)) @ edges
    found: dict[Scaling, Probe] = {}
    seen: list[np.ndarray] = []
    for scaling in scalings:
        matrix = made(graph, Data(normalize_features=scaling)).features[graph.schema.target]
        if any(np.array_equal(matrix, other) for other in seen):
            continue
        seen.append(matrix)
        sparse = scipy.sparse.csr_matrix(matrix, dtype=np.float32)
        rows = np.asarray(matrix[held.pool], np.float32), (edges @ sparse).toarray()
        found[scaling] = Probe(*(_score(graph, held, each) for each in rows))
    count = len({place for one in held.each for place in one.held})
    return Probes(found, error_of(max(max(probe) for probe in found.values()), count))


def _score(graph: HetGraph, held: HoldOuts, rows: np.ndarray) -> float:
    """Return the mean over divisions of the micro-F1 with the best penalty, from the features of the pool."""
    return float(np.mean([_fitted(graph, held.pool, rows, one) for one in held.each[:DIVISIONS]]))


def _fitted(graph: HetGraph, pool: np.ndarray, rows: np.ndarray, one: HoldOut) -> float:
    train = one.train[:: -(-len(one.train) // MOST_TRAINED)]
    y = label_propagation.known(graph, pool[train])[pool[train]][:, : graph.schema.classes]
    scores = [
        quality(regression.logits(rows, one.held), graph.labels[pool[one.held]])["micro_f1"] or 0.0
        for regression in regressions(rows[train], y, graph.multilabel)
    ]
    return scores[best_of(scores)]
