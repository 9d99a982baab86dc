"""Label propagation over a heterogeneous graph: what its edges alone say of the labels.

As Zhou et al. (Learning with Local and Global Consistency, NeurIPS 2003) do: `F <- a S F + (1 - a) Y`, where `S` is the adjacency matrix
normalised on both sides. Here nodes of all types are one set of nodes, and the edges of the chosen relations are one set of edges, each
both ways. Of one relation alone the labels travel the metapath of two hops along it and back.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation

STEPS = 20
KEPT = 0.9  # `a`: the share that comes from the neighbours
ALL = "all relations"
MOST_WAYS = 8
AT_ONCE = 2**26  # numbers of all nodes that are held at a time


def ways(graph: HetGraph) -> dict[str, tuple[Relation, ...]]:
    """Sets of relations to propagate along, by name: all of them, and each alone that the target type is an end of.

    A relation and its reverse are one way. Of many, those with the most edges are taken.
    """
    target, found = graph.schema.target, dict[str, tuple[Relation, ...]]()
    touching = [r for r, csc in graph.relations.items() if target in (r.source, r.target) and csc.edges]
    for relation in sorted(touching, key=lambda r: -graph.relations[r].edges):
        if len(found) < MOST_WAYS and not any(_reverses(graph, relation, other) for (other,) in found.values()):
            found[str(relation)] = (relation,)
    return {ALL: tuple(graph.relations)} | (found if len(graph.relations) > 1 else {})


def _reverses(graph: HetGraph, relation: Relation, other: Relation) -> bool:
    """Whether two relations join the same types the other way around, with as many edges at every node."""
    if (relation.source, relation.target) != (other.target, other.source):
        return False
    one, two = graph.relations[relation], graph.relations[other]
    nodes = graph.schema.nodes[relation.source]
    return one.edges == two.edges and np.array_equal(np.bincount(one.indices, minlength=nodes), np.diff(two.indptr))


class Propagation:
    """Propagates numbers of the target nodes along some relations.

    Holds 5 to 8 bytes an edge, and two numbers per node and column, of `AT_ONCE` numbers together at most.

    Args:
      graph: whose edges are followed, each both ways; of weights, their absolute values.
      relations: which.
    """

    def __init__(self, graph: HetGraph, relations: Sequence[Relation]):
        self.target = graph.schema.target
        reached = {self.target, *(end for r in relations for end in (r.source, r.target))}
        self.nodes = {t: count for t, count in graph.schema.nodes.items() if t in reached}
        self.matrices = {r: _matrix(graph.relations[r], graph.schema.nodes[r.source]) for r in relations}
        degrees = {t: np.zeros(count, np.float32) for t, count in self.nodes.items()}
        for relation, matrix in self.matrices.items():
            degrees[relation.target] += matrix.sum(axis=1).A1
            degrees[relation.source] += matrix.sum(axis=0).A1
        self.scales = {t: np.where(d > 0, d, 1)[:, None] ** -0.5 * (d > 0)[:, None] for t, d in degrees.items()}

    def __call__(self, start: np.ndarray, steps: int = STEPS) -> np.ndarray:
        """`F` of the target nodes after so many steps, float32 `[nodes, columns]`.

        Args:
          start: `Y`, `[nodes of the target type, columns]`.
        """
        found = np.empty(start.shape, np.float32)
        for columns in self._groups(start.shape[1]):
            found[:, columns] = self._spread(start[:, columns].astype(np.float32), steps)
        return found

    def _groups(self, columns: int) -> Iterator[slice]:
        width = max(1, AT_ONCE // max(1, 2 * sum(self.nodes.values())))
        return (slice(start, start + width) for start in range(0, columns, width))

    def _spread(self, start: np.ndarray, steps: int) -> np.ndarray:
        x = {t: np.zeros((count, start.shape[1]), np.float32) for t, count in self.nodes.items()}
        x[self.target] = start
        for _ in range(steps):
            x = self._step({t: rows * self.scales[t] for t, rows in x.items()})
            x[self.target] += (1 - KEPT) * start
        return x[self.target]

    def _step(self, scaled: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        total = {t: np.zeros_like(rows) for t, rows in scaled.items()}
        for (source, _, target), matrix in self.matrices.items():
            total[target] += matrix @ scaled[source]
            total[source] += matrix.T @ scaled[target]
        return {t: KEPT * self.scales[t] * rows for t, rows in total.items()}


def _matrix(csc: CSC, sources: int) -> scipy.sparse.csr_matrix:
    """The edges as a matrix `[targets, sources]`; where there are several of the same ends, they add up."""
    weights = np.ones(csc.edges, np.float32) if csc.weights is None else np.abs(csc.weights)
    return scipy.sparse.csr_matrix(
        (weights, csc.indices.astype(np.int32), csc.indptr), shape=(len(csc.indptr) - 1, sources)
    )


def known(graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    """`Y` of the nodes `ids`, float32 `[nodes of the target type, classes]`, zeros of all others.

    Where a node may have several labels there are twice as many columns: of each label whether it has it, and then whether it has it not.
    """
    labels, classes = graph.labels[ids], graph.schema.classes
    rows = np.zeros((len(graph.labels), classes * (1 + graph.multilabel)), np.float32)
    if graph.multilabel:
        rows[ids] = np.concatenate([labels == 1, labels == 0], axis=1)
    else:
        rows[ids, labels] = 1
    return rows


def shares(spread: np.ndarray, prior: np.ndarray, multilabel: bool) -> np.ndarray:
    """Of what was propagated, the share of every class, `[nodes, classes]`; of a node that nothing reached, the prior.

    Args:
      prior: share of every class among the nodes whose labels were propagated.
    """
    classes = len(prior)
    yes = spread[:, :classes]
    total = yes + spread[:, classes:] if multilabel else yes.sum(axis=1, keepdims=True)
    reached = total > 0
    return np.where(reached, yes / np.where(reached, total, 1), prior[None]).astype(np.float32)
