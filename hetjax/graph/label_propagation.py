"""Label propagation over a heterogeneous graph: the information on the labels that its edges alone contain.

As Zhou et al. (Learning with Local and Global Consistency, NeurIPS 2003) do: `F <- a S F + (1 - a) Y`, where `S` is the adjacency matrix
normalised on both sides. Here nodes of all types are one set of nodes, and the edges of the chosen relations are one set of edges, each
both ways. Along one relation alone the labels travel the metapath of two hops along it and its reverse.
"""

from collections.abc import Sequence

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.homogeneous import both_ways, offsets
from hetjax.graph.neighbour_sums import sum_neighbours, total_weights
from hetjax.graph.schema import Relation

STEPS = 20
KEPT = 0.9  # `a`: the share that comes from the neighbours
ALL = "all relations"
MOST_WAYS = 8
AT_ONCE = 2**26  # numbers of all nodes that are held at a time


def ways(graph: HetGraph) -> dict[str, tuple[Relation, ...]]:
    """Return sets of relations to propagate along, by name: all of them, and each alone that the target type is an end of.

    A relation and its reverse are one way. If there are many, those with the most edges are taken.
    """
    target, found = graph.schema.target, dict[str, tuple[Relation, ...]]()
    touching = [r for r, csc in graph.relations.items() if target in (r.source, r.target) and csc.edges]
    for relation in sorted(touching, key=lambda r: -graph.relations[r].edges):
        if len(found) < MOST_WAYS and not any(_reverses(graph, relation, other) for (other,) in found.values()):
            found[str(relation)] = (relation,)
    return {ALL: tuple(graph.relations)} | (found if len(graph.relations) > 1 else {})


def _reverses(graph: HetGraph, relation: Relation, other: Relation) -> bool:
    """Return whether two relations join the same types in opposite directions, with as many edges at every node."""
    if (relation.source, relation.target) != (other.target, other.source):
        return False
    one, two = graph.relations[relation], graph.relations[other]
    nodes = graph.schema.nodes[relation.source]
    return one.edges == two.edges and np.array_equal(np.bincount(one.indices, minlength=nodes), np.diff(two.indptr))


class Propagation:
    """A propagation of values of the target nodes along some relations.

    Holds 8 bytes an edge, where relations have weights 16, and two values per node and column, of as many columns at a time as
    make `AT_ONCE` values.

    Args:
      graph: whose edges are followed, each both ways; of weights, their absolute values.
      relations: which.
    """

    def __init__(self, graph: HetGraph, relations: Sequence[Relation]):
        target, counts = graph.schema.target, graph.schema.nodes
        reached = {target, *(end for r in relations for end in (r.source, r.target))}
        counts = {t: count for t, count in counts.items() if t in reached}
        start, self.nodes = offsets(counts), sum(counts.values())
        self.target = slice(start[target], start[target] + counts[target])
        along = [(graph.relations[r], start[r.source], start[r.target]) for r in relations]
        self.edges = both_ways(along, self.nodes, weighted=any(csc.weights is not None for csc, _, _ in along))
        if self.edges.weights is not None:
            np.abs(self.edges.weights, out=self.edges.weights)
        self.degrees = total_weights(self.edges)[:, None]

    def __call__(self, start: np.ndarray, steps: int = STEPS) -> np.ndarray:
        """Return `F` of the target nodes after so many steps, at least one, float32 `[nodes, columns]`.

        Args:
          start: `Y`, `[nodes of the target type, columns]`.
        """
        found = np.empty(start.shape, np.float32)
        width = max(1, AT_ONCE // max(1, 2 * self.nodes))
        for first in range(0, start.shape[1], width):
            columns = slice(first, first + width)
            found[:, columns] = self._spread(start[:, columns].astype(np.float32), steps)
        return found

    def _spread(self, start: np.ndarray, steps: int) -> np.ndarray:
        """Propagate so many steps. With `D` the degrees and `A` the edges, `G = D^-1/2 F` becomes `a D^-1 A G + (1 - a)
        D^-1/2 Y`: unweighted sums over neighbours.

        A node whose edges weigh nothing, which has no `G`, keeps `(1 - a) Y`.
        """
        weighs = self.degrees > np.finfo(np.float32).tiny
        kept = np.divide(KEPT, self.degrees, out=np.zeros_like(self.degrees), where=weighs).astype(np.float32)
        own, root = weighs[self.target], np.sqrt(self.degrees[self.target]).astype(np.float32)
        begun = np.divide(start, root, out=np.zeros_like(start), where=own)
        x = np.zeros((self.nodes, start.shape[1]), np.float32)
        x[self.target], room = begun, np.empty_like(x)
        begun *= 1 - KEPT
        for _ in range(steps):
            sum_neighbours(self.edges, x, room, kept[:, 0])
            room[self.target] += begun
            x, room = room, x
        return np.where(own, root * x[self.target], (1 - KEPT) * start)


def known(graph: HetGraph, ids: np.ndarray) -> np.ndarray:
    """Return `Y` of the nodes `ids`, float32 `[nodes of the target type, classes]`, zeros for all others.

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
    """Return the share of every class in the propagated values, `[nodes, classes]`; the prior for a node that nothing reached.

    Args:
      prior: share of every class among the nodes whose labels were propagated.
    """
    classes = len(prior)
    yes = spread[:, :classes]
    total = yes + spread[:, classes:] if multilabel else yes.sum(axis=1, keepdims=True)
    reached = total > 0
    return np.where(reached, yes / np.where(reached, total, 1), prior[None]).astype(np.float32)
