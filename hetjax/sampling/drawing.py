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


class Asked(NamedTuple):
    """One request: the relation whose edges are sampled, and the targets.

    Attributes:
      targets: ids.
      key: as of `draw.draw_neighbours`.
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


class Drawing:
    """Sampler of the edges of one graph."""

    def __init__(self, graph: HetGraph):
        self.graph = graph
        self._columns: dict[Relation, tuple[int, ...]] = {}
        self._held: list[np.ndarray] = []  # whose addresses are known
        self._lock = threading.Lock()  # of both, as several threads draw

    def draw(self, asked: Sequence[Asked], fanout: int) -> list[Edges]:
        """Return the edges of every request, by source id; `indices` may be written to.

        Args:
          fanout: neighbours per target; below 0 all.

        Raises:
          InputError: a pointer or id of the graph that is out of range, or more edges than int32 counts.
        """
        asked = [one._replace(targets=np.ascontiguousarray(one.targets, np.int32)) for one in asked]
        pieces = [self.graph.relations[one.relation].piece for one in asked]
        others = iter(self._draw([one for one, piece in zip(asked, pieces) if not piece], fanout))
        sources = self.graph.schema.nodes
        return [
            drawn_of_piece(self.graph.relations[one.relation], one, sources[one.relation.source], fanout)
            if piece
            else next(others)
            for one, piece in zip(asked, pieces)
        ]

    def _draw(self, asked: Sequence[Asked], fanout: int) -> list[Edges]:
        if not asked:
            return []
        places = {id(one.targets): address(one.targets) for one in asked}
        given = ((*self._of(one.relation), places[id(one.targets)], len(one.targets)) for one in asked)
        table = np.array(list(given), np.int64)
        keys, rows = np.array([one.key for one in asked], np.uint64), _starts(table[:, COUNT] + 1)
        indptr, drawn = np.empty(rows[-1], np.int32), np.zeros(len(asked), np.int64)
        wrong, target = count_all(table, fanout, indptr, drawn)
        if wrong >= 0 and drawn[wrong] > MOST_EDGES:
            raise InputError(
                f"relation {asked[wrong].relation}: a batch has {drawn[wrong]} edges, over {MOST_EDGES}; lower the batch size or the fanout"
            )
        if wrong >= 0:
            node = asked[wrong].targets[target]
            raise InputError(f"relation {asked[wrong].relation}: pointers fall after target {node}")
        starts = _starts(drawn)
        indices = np.empty(starts[-1], np.int32)
        wrong, edge = draw_all(table, keys, indptr, starts, indices)
        if wrong >= 0:
            relation, csc = asked[wrong].relation, self.graph.relations[asked[wrong].relation]
            node = csc.indices[edge] if edge < csc.edges else "beyond the last"
            there = f"type {relation.source!r} has {self.graph.schema.nodes[relation.source]} nodes"
            raise InputError(f"relation {relation}: source of edge {edge} is node {node}, but {there}")
        ends = zip(rows.tolist(), rows[1:].tolist(), starts.tolist(), starts[1:].tolist())
        made = [Edges(indptr[a:b], indices[c:d]) for a, b, c, d in ends]
        return [self._weighted(one, edges) for one, edges in zip(asked, made)]

    def _weighted(self, asked: Asked, edges: Edges) -> Edges:
        csc = self.graph.relations[asked.relation]
        if csc.weights is None:
            return edges
        weights = np.empty(len(edges.indices), np.float32)
        targets = asked.targets.view()
        targets.flags.writeable = False  # always: numba compiles once more for arrays that may be written
        draw.draw_weights(csc.indptr, csc.weights, targets, asked.key, edges.indptr, weights, int(csc.loops))
        return edges._replace(weights=weights)

    def _of(self, relation: Relation) -> tuple[int, ...]:
        """Return the first six columns of a request's row."""
        with self._lock:
            return self._known(relation)

    def _known(self, relation: Relation) -> tuple[int, ...]:
        if relation not in self._columns:
            csc = self.graph.relations[relation]
            indptr, indices = np.ascontiguousarray(csc.indptr, np.int64), np.ascontiguousarray(csc.indices)
            if indices.dtype.kind != "u" and indices.itemsize < 4:  # of which a negative one would be read as another
                indices = indices.astype(np.int64)
            self._held += [indptr, indices]
            about = len(indices), self.graph.schema.nodes[relation.source], int(csc.loops)
            self._columns[relation] = (address(indptr), address(indices), indices.itemsize, *about)
        return self._columns[relation]


def drawn_of_piece(csc: CSC, asked: Asked, sources: int, fanout: int) -> Edges:
    """Return those of the edges sampled from the whole relation that a piece has, each with its place among its target's edges.

    Raises:
      InputError: a pointer or id out of range.
    """
    assert csc.piece
    relation, targets, key = asked
    piece = csc.piece.number, csc.piece.of
    indptr, totals = np.zeros(len(targets) + 1, np.int32), np.zeros(len(targets), np.int32)
    none = np.empty(0, np.int32)
    count = draw.draw_piece(csc.indptr, csc.indices, piece, targets, fanout, key, indptr, totals, none, none)
    if count > MOST_EDGES:
        raise InputError(f"relation {relation}: a batch has {count} edges, over {MOST_EDGES}; cut it into more pieces")
    indices, places = np.empty(max(0, count), np.int32), np.empty(max(0, count), np.int32)
    if count > 0:
        draw.draw_piece(csc.indptr, csc.indices, piece, targets, fanout, key, indptr, totals, indices, places)
    if count < 0 or (len(indices) and not 0 <= indices.min() <= indices.max() < sources):
        raise InputError(f"relation {relation}: a pointer or a source out of range, of {sources} nodes")
    return Edges(indptr, indices, None, Whole(totals, places))


def _starts(counts: np.ndarray) -> np.ndarray:
    """Return where the items of each count begin, int64, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


@compiled
def count_all(table, fanout, indptr, drawn):
    """Fill, for one relation after the other, the running number of edges per target, from 0, and `drawn` with all of them.

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
        drawn[relation] = total
        if total > MOST_EDGES:
            return relation, 0
        at += len(targets) + 1
    return -1, -1


@compiled
def draw_all(table, keys, indptr, starts, indices):
    """Sample the edges of one relation after the other, from where `starts` says.

    Returns:
      `(which relation is wrong, which of its edges)`, as of `draw.draw_neighbours`; -1: none.
    """
    at = 0
    for relation in range(len(table)):
        targets = array_at(table[relation, TARGETS], table[relation, COUNT], types.int32)
        pointers, given = array_at(table[relation, INDPTR], 1, types.int64), table[relation, INDICES]
        size, edges, nodes = table[relation, BYTES], table[relation, EDGES], table[relation, SOURCES]
        own, out = indptr[at : at + len(targets) + 1], indices[starts[relation] : starts[relation + 1]]
        about = given, size, edges, nodes
        wrong = draw.draw_neighbours(pointers, about, targets, keys[relation], own, out, table[relation, LOOPS])
        if wrong >= 0:
            return relation, wrong
        at += len(targets) + 1
    return -1, -1
