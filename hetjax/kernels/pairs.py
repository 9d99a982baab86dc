"""Pairs of a relation and a node that has an edge of it, for some relations, in host memory."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import Adjacency
from hetjax.system.compiled import compiled


class Pairs(NamedTuple):
    """Edges of some relations, from pairs of a relation and a source to pairs of a relation and a target: one relation after the other.

    Attributes:
      sources, targets: int32 `[pairs]`, rows of the nodes that have an edge.
      degrees: int32, of every pair of a target its edges.
      places: int32 `[edges]`, of every edge which of its relation's pairs it comes from.
      counts: int64 `[relations, 3]`, of every relation its pairs of a source and of a target, and its edges.
    """

    sources: np.ndarray
    targets: np.ndarray
    degrees: np.ndarray
    places: np.ndarray
    counts: np.ndarray


def find_pairs(relations: Sequence[Relation], adjacency: Mapping[str, Adjacency]) -> Pairs:
    """Return the pairs of some relations' edges, sources in the order in which edges first meet them; padding is left out."""
    given = [adjacency[relation.key] for relation in relations]
    indptr = [np.asarray(edges.indptr) for edges in given]
    indices = [np.asarray(edges.indices)[: own[-1]] for edges, own in zip(given, indptr)]
    rows, edges = np.array([len(own) - 1 for own in indptr]), np.array([len(own) for own in indices])
    every, each = np.concatenate(indices), np.concatenate(indptr)
    sources, places = np.empty(len(every), np.int32), np.empty(len(every), np.int32)
    targets, degrees = np.empty(rows.sum(), np.int32), np.empty(rows.sum(), np.int32)
    seen = np.full(every.max(initial=-1) + 1, -1, np.int64)
    counts = np.zeros((len(given), 3), np.int64)
    _find_pairs(each, every, rows, edges, seen, sources, targets, degrees, places, counts)
    s, t, _ = counts.sum(axis=0)
    return Pairs(sources[:s], targets[:t], degrees[:t], places, counts)


@compiled
def _find_pairs(indptr, indices, rows, edges, seen, sources, targets, degrees, places, counts):
    at, edge, source, target = 0, 0, 0, 0
    for relation in range(len(rows)):
        first_source, first_target = source, target
        for row in range(rows[relation]):
            degree = indptr[at + row + 1] - indptr[at + row]
            if degree:
                targets[target], degrees[target] = row, degree
                target += 1
        for e in range(edge, edge + edges[relation]):
            row = indices[e]
            if seen[row] < first_source:  # by no edge of this relation
                seen[row], sources[source] = source, row
                source += 1
            places[e] = seen[row] - first_source
        counts[relation, 0], counts[relation, 1] = source - first_source, target - first_target
        counts[relation, 2] = edges[relation]
        at, edge = at + rows[relation] + 1, edge + edges[relation]
