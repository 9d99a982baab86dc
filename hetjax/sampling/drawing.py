"""Sampling of the edges of all relations of a hop in one call of compiled code: where relations are many, a call for each takes longer than the sampling."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sampling import draw
from hetjax.sampling.blocks import MOST_EDGES, Whole
from hetjax.sampling.draw import AHEAD
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.system.pointers import address, array_at
from hetjax.system.prefetch import prefetch

INDPTR, INDICES, BYTES, EDGES, SOURCES, LOOPS, TARGETS, COUNT = range(8)  # columns of what is asked, a row per relation


class Request(NamedTuple):
    """One request: the relation whose edges are sampled, and the targets.

    Attributes:
      targets: ids.
      key: as of `draw.sample_neighbours`.
    """

    relation: Relation
    targets: np.ndarray
    key: np.uint64


class Edges(NamedTuple):
    """Sampled edges, grouped by target: int32 pointers and sources, float32 weights if they have any, and `whole` if they are of a piece."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: "np.ndarray | None" = None
    whole: "Whole | None" = None


class EdgeSampler:
    """Sampler of the edges of one graph."""

    def __init__(self, graph: HetGraph):
        self.graph = graph
        self._columns: dict[Relation, tuple[int, ...]] = {}
        self._arrays: list[np.ndarray] = []  # whose addresses `_columns` has
        self._lock = threading.Lock()  # of both, as several threads sample

    def sample(self, requests: Sequence[Request], fanout: int) -> list[Edges]:
        """Return the edges of every request, by source id; `indices` may be written to.

        Args:
          fanout: neighbours per target; below 0 all.

        Raises:
          InputError: a pointer or id of the graph that is out of range, or more edges than int32 counts.
        """
        requests = [one._replace(targets=np.ascontiguousarray(one.targets, np.int32)) for one in requests]
        pieces = [self.graph.relations[one.relation].piece for one in requests]
        others = iter(self._sample([one for one, piece in zip(requests, pieces) if not piece], fanout))
        sources = self.graph.schema.nodes
        return [
            sampled_of_piece(self.graph.relations[one.relation], one, sources[one.relation.source], fanout)
            if piece
            else next(others)
            for one, piece in zip(requests, pieces)
        ]

    def _sample(self, requests: Sequence[Request], fanout: int) -> list[Edges]:
        if not requests:
            return []
        places = {id(one.targets): address(one.targets) for one in requests}
        given = ((*self._of(one.relation), places[id(one.targets)], len(one.targets)) for one in requests)
        table = np.array(list(given), np.int64)
        keys, rows = np.array([one.key for one in requests], np.uint64), _starts(table[:, COUNT] + 1)
        indptr, sampled_counts = np.empty(rows[-1], np.int32), np.zeros(len(requests), np.int64)
        wrong, target = count_all(table, fanout, indptr, sampled_counts)
        if wrong >= 0 and sampled_counts[wrong] > MOST_EDGES:
            raise InputError(
                f"relation {requests[wrong].relation}: a batch has {sampled_counts[wrong]} edges, over {MOST_EDGES}; lower the batch size or the fanout"
            )
        if wrong >= 0:
            node = requests[wrong].targets[target]
            raise InputError(f"relation {requests[wrong].relation}: pointers fall after target {node}")
        starts = _starts(sampled_counts)
        indices = np.empty(starts[-1], np.int32)
        wrong, edge = sample_all(table, keys, indptr, starts, indices)
        if wrong >= 0:
            relation, csc = requests[wrong].relation, self.graph.relations[requests[wrong].relation]
            node = csc.indices[edge] if edge < csc.edges else "beyond the last"
            type_size = f"type {relation.source!r} has {self.graph.schema.nodes[relation.source]} nodes"
            raise InputError(f"relation {relation}: source of edge {edge} is node {node}, but {type_size}")
        ends = zip(rows.tolist(), rows[1:].tolist(), starts.tolist(), starts[1:].tolist())
        sampled = [Edges(indptr[a:b], indices[c:d]) for a, b, c, d in ends]
        return [self._weighted(one, edges) for one, edges in zip(requests, sampled)]

    def _weighted(self, request: Request, edges: Edges) -> Edges:
        csc = self.graph.relations[request.relation]
        if csc.weights is None:
            return edges
        weights = np.empty(len(edges.indices), np.float32)
        targets = request.targets.view()
        targets.flags.writeable = False  # always: numba compiles once more for arrays that may be written
        draw.sampled_weights(csc.indptr, csc.weights, targets, request.key, edges.indptr, weights, int(csc.loops))
        return edges._replace(weights=weights)

    def _of(self, relation: Relation) -> tuple[int, ...]:
        """Return the first six columns of a request's row."""
        with self._lock:
            return self._columns_of(relation)

    def _columns_of(self, relation: Relation) -> tuple[int, ...]:
        if relation not in self._columns:
            csc = self.graph.relations[relation]
            indptr, indices = np.ascontiguousarray(csc.indptr, np.int64), np.ascontiguousarray(csc.indices)
            if indices.dtype.kind != "u" and indices.itemsize < 4:  # of which a negative one would be read as another
                indices = indices.astype(np.int64)
            self._arrays += [indptr, indices]
            sizes = len(indices), self.graph.schema.nodes[relation.source], int(csc.loops)
            self._columns[relation] = (address(indptr), address(indices), indices.itemsize, *sizes)
        return self._columns[relation]


def sampled_of_piece(csc: CSC, request: Request, sources: int, fanout: int) -> Edges:
    """Return those of the edges sampled from the whole relation that a piece has, each with its place among its target's edges.

    Raises:
      InputError: a pointer or id out of range.
    """
    assert csc.piece
    relation, targets, key = request
    piece = csc.piece.number, csc.piece.of
    indptr, totals = np.zeros(len(targets) + 1, np.int32), np.zeros(len(targets), np.int32)
    none = np.empty(0, np.int32)
    count = draw.sample_piece(csc.indptr, csc.indices, piece, targets, fanout, key, indptr, totals, none, none)
    if count > MOST_EDGES:
        raise InputError(f"relation {relation}: a batch has {count} edges, over {MOST_EDGES}; cut it into more pieces")
    indices, places = np.empty(max(0, count), np.int32), np.empty(max(0, count), np.int32)
    if count > 0:
        draw.sample_piece(csc.indptr, csc.indices, piece, targets, fanout, key, indptr, totals, indices, places)
    if count < 0 or (len(indices) and not 0 <= indices.min() <= indices.max() < sources):
        raise InputError(f"relation {relation}: a pointer or a source out of range, of {sources} nodes")
    return Edges(indptr, indices, None, Whole(totals, places))


def _starts(counts: np.ndarray) -> np.ndarray:
    """Return where the items of each count begin, int64, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


@compiled
def count_all(table, fanout, indptr, sampled_counts):
    """Fill, for one relation after the other, the running number of edges per target, from 0, and `sampled_counts` with all of them.

    Returns:
      `(which relation is wrong, which of its targets)`: where pointers are not ordered, or, of target 0, where there are over
      `MOST_EDGES`; -1: none.
    """
    at = 0
    for relation in range(len(table)):
        targets = array_at(table[relation, TARGETS], table[relation, COUNT], types.int32)
        pointers = array_at(table[relation, INDPTR], 1, types.int64)
        most, total = (fanout + table[relation, LOOPS] if fanout >= 0 else -1), 0
        indptr[at] = 0
        for i in range(len(targets)):
            if i + AHEAD < len(targets):
                prefetch(pointers, targets[i + AHEAD])
            degree = pointers[targets[i] + 1] - pointers[targets[i]]
            if degree < 0:
                return relation, i
            total += degree if most < 0 else min(degree, most)
            indptr[at + i + 1] = total
        sampled_counts[relation] = total
        if total > MOST_EDGES:
            return relation, 0
        at += len(targets) + 1
    return -1, -1


@compiled
def sample_all(table, keys, indptr, starts, indices):
    """Sample the edges of one relation after the other, from where `starts` says.

    Returns:
      `(which relation is wrong, which of its edges)`, as of `draw.sample_neighbours`; -1: none.
    """
    at = 0
    for relation in range(len(table)):
        targets = array_at(table[relation, TARGETS], table[relation, COUNT], types.int32)
        pointers, given = array_at(table[relation, INDPTR], 1, types.int64), table[relation, INDICES]
        size, edges, nodes = table[relation, BYTES], table[relation, EDGES], table[relation, SOURCES]
        target_indptr, out = indptr[at : at + len(targets) + 1], indices[starts[relation] : starts[relation + 1]]
        source_ids = given, size, edges, nodes
        wrong = draw.sample_neighbours(
            pointers, source_ids, targets, keys[relation], target_indptr, out, table[relation, LOOPS]
        )
        if wrong >= 0:
            return relation, wrong
        at += len(targets) + 1
    return -1, -1
