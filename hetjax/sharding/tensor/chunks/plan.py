"""Chunks of contiguous targets with all their in-edges, and the order in which nodes are sent for them (NeutronTP, section 4.2).

Node `v` is on device `v mod N`, in row `v // N` there: so every device has as much of any chunk. The targets of a chunk stand
device by device, as an all-to-all brings them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import NO_NODE, Adjacency, pad, pad_adjacency
from hetjax.sampling.sampler import group

FEWEST = 2  # rows of a device: one row of queries is what `attend` is given where all targets have the same


class Edges(NamedTuple):
    """The part of a chunk that is the same in every layer and at every step.

    Attributes:
      adjacency: the edges per relation key.
      ids: the ids of its targets, `[parts * rows]`.
    """

    adjacency: Mapping[str, Adjacency]
    ids: Any


class Chunk(NamedTuple):
    """The targets of one type that are computed at a time.

    Attributes:
      node_type: their type.
      begin, end: the targets are the nodes `begin` to `end - 1`.
      ids: int32 `[parts * rows]`, the targets device by device, with `NO_NODE` up to as many rows of each.
      adjacency: the edges into them per relation key; sources are numbered by their place in `sources`.
      sources: ids int32 `[S]` per source type, with `NO_NODE` at the end.
    """

    node_type: str
    begin: int
    end: int
    ids: np.ndarray
    adjacency: Mapping[str, Adjacency]
    sources: Mapping[str, np.ndarray]

    @property
    def edges(self) -> Edges:
        """The part of the chunk that is the same in every layer, at every step, and on every device."""
        return Edges(dict(self.adjacency), self.ids)


class Sizes(NamedTuple):
    """The sizes of the largest chunk of a type, to which all are padded.

    Attributes:
      rows: the number of targets of each device.
      sources: the number of sources per source type.
      edges: the number of edges per relation key.
      chunks: the number of chunks.
    """

    rows: int
    sources: Mapping[str, int]
    edges: Mapping[str, int]
    chunks: int


def rows_between(parts: int, device: int, begin: int, end: int) -> slice:
    """Return the positions of the nodes `begin` to `end - 1` among the rows of a device."""
    return slice(*(max(0, -(-(node - device) // parts)) for node in (begin, end)))


def by_device(parts: int, begin: int, end: int, rows: int) -> np.ndarray:
    """Return the ids of a chunk's targets as in `Chunk.ids`."""
    own = (np.arange(begin, end, dtype=np.int32) for _ in range(parts))
    return np.concatenate([pad(ids[ids % parts == device], rows, NO_NODE) for device, ids in enumerate(own)])


def cut(edges: np.ndarray, most_targets: int, most_edges: int) -> list[tuple[int, int]]:
    """Return ranges of targets that have at most so many targets and in-edges each, and at least one target.

    Args:
      edges: int64 `[targets + 1]`, how many enter the targets before each.
    """
    found, begin, count = [], 0, len(edges) - 1
    while begin < count:
        fits = int(np.searchsorted(edges, edges[begin] + most_edges, "right")) - 1
        end = min(max(fits, begin + 1), begin + most_targets, count)
        found.append((begin, end))
        begin = end
    return found


class Plan:
    """The chunks of every type that layers make embeddings of.

    Args:
      graph: the graph whose edges are aggregated.
      types: the types.
      parts: the number of devices.
      share: the largest share of a type's targets and in-edges in a chunk; at least one target.
    """

    def __init__(self, graph: HetGraph, types: Sequence[str], parts: int, share: float):
        self.graph, self.parts, self.share = graph, parts, share
        self.into: dict[str, list[Relation]] = {t: [r for r in graph.relations if r.target == t] for t in types}
        self.ranges: dict[str, list[tuple[int, int]]] = {}
        self.sizes: dict[str, Sizes] = {}
        for t, relations in self.into.items():
            count = graph.schema.nodes[t]
            edges = sum((graph.relations[r].indptr.astype(np.int64) for r in relations), np.zeros(count + 1, np.int64))
            most = (max(1, int(np.ceil(share * total))) for total in (count, edges[-1]))
            self.ranges[t] = cut(edges, *most)
            self.sizes[t] = self._measured(t, relations)

    def _measured(self, t: str, relations: Sequence[Relation]) -> Sizes:
        sources: dict[str, int] = dict.fromkeys((r.source for r in relations), 1)
        edges = {r.key: 1 for r in relations}
        for begin, end in self.ranges[t]:
            for source, ids in self._sources(relations, begin, end).items():
                sources[source] = max(sources[source], len(ids))
            for r in relations:
                indptr = self.graph.relations[r].indptr
                edges[r.key] = max(edges[r.key], int(indptr[end] - indptr[begin]))
        rows = max((-(-(end - begin) // self.parts) for begin, end in self.ranges[t]), default=1)
        return Sizes(max(FEWEST, rows), sources, edges, len(self.ranges[t]))

    def _sources(self, relations: Sequence[Relation], begin: int, end: int) -> dict[str, np.ndarray]:
        """Return the distinct sources of a range of targets, rising."""
        read: dict[str, list[np.ndarray]] = {}
        for r in relations:
            csc = self.graph.relations[r]
            read.setdefault(r.source, []).append(np.asarray(csc.indices[csc.indptr[begin] : csc.indptr[end]]))
        return {t: _distinct(self.graph.schema.nodes[t], found) for t, found in read.items()}

    def chunks(self, t: str) -> Iterator[Chunk]:
        """Yield the chunks of a type, in the order in which every device computes them."""
        relations, sizes = self.into[t], self.sizes[t]
        for begin, end in self.ranges[t]:
            ids = by_device(self.parts, begin, end, sizes.rows)
            sources = self._sources(relations, begin, end)
            adjacency = {r.key: self._edges(r, ids, sources[r.source], sizes) for r in relations}
            padded = {
                s: np.asarray(pad(found.astype(np.int32), sizes.sources[s], NO_NODE)) for s, found in sources.items()
            }
            yield Chunk(t, begin, end, ids, adjacency, padded)

    def _edges(self, relation: Relation, ids: np.ndarray, sources: np.ndarray, sizes: Sizes) -> Adjacency:
        """Return a relation's edges into the nodes `ids`, in this order."""
        csc = self.graph.relations[relation]
        known = ids != NO_NODE
        rows = np.where(known, ids, 0)
        counts = np.where(known, csc.indptr[rows + 1] - csc.indptr[rows], 0).astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(csc.indptr[rows].astype(np.int64) - indptr[:-1], counts) + np.arange(indptr[-1])
        numbered = np.searchsorted(sources, csc.indices[at]).astype(np.int32)
        weights = None if csc.weights is None else csc.weights[at]
        edges = group(indptr.astype(np.int32), numbered, len(sources), weights)
        return pad_adjacency(edges, len(ids), sizes.sources[relation.source], sizes.edges[relation.key])


def _distinct(count: int, ids: Sequence[np.ndarray]) -> np.ndarray:
    """Return the distinct ids among some below `count`, rising."""
    seen = np.zeros(count, bool)
    for some in ids:
        seen[some] = True
    return np.flatnonzero(seen)


class Sending(NamedTuple):
    """The nodes of a type that are sent at once.

    Attributes:
      node_type: their type.
      rows: the rows to send of each device, int32 `[m]`.
      ids: the nodes of these rows, per device.
    """

    node_type: str
    rows: list[np.ndarray]
    ids: list[np.ndarray]


def sendings(
    nodes: Mapping[str, int], parts: int, chunks: Sequence[Chunk], asked: Mapping[str, bool]
) -> tuple[list[list[Sending]], dict[str, int]]:
    """Return the nodes that are sent before each chunk: those that it reads and that were not sent before (Figure 9 (d)).

    The first chunks of a dense graph read nearly all nodes, and the last ones nothing new. So nodes are sent in portions that are as
    large for every chunk, as many as it takes.

    Args:
      nodes: the number of nodes of every type.
      asked: whether targets are read too, per type.

    Returns:
      The portions of every chunk, and the number of rows of each device in one portion, per type.
    """
    sent = {t: np.zeros(count, bool) for t, count in nodes.items()}
    fresh: list[dict[str, list[np.ndarray]]] = []
    for chunk in chunks:
        need = {t: ids[ids != NO_NODE] for t, ids in chunk.sources.items()}
        if asked[chunk.node_type]:
            own = chunk.ids[chunk.ids != NO_NODE]
            need[chunk.node_type] = np.union1d(need.get(chunk.node_type, own), own)
        fresh.append({})
        for t, ids in need.items():
            new = ids[~sent[t][ids]]
            sent[t][new] = True
            fresh[-1][t] = [new[new % parts == device] for device in range(parts)]
    most = {}
    for t in nodes:
        counts = [max(map(len, of[t])) for of in fresh if t in of]
        if sum(counts):
            most[t] = max(FEWEST, -(-sum(counts) // len(counts)))
    return [[one for t, own in of.items() for one in _portions(t, own, parts, most)] for of in fresh], most


def _portions(t: str, own: Sequence[np.ndarray], parts: int, most: Mapping[str, int]) -> Iterator[Sending]:
    """Yield the nodes by device, some at a time."""
    for start in range(0, max(map(len, own)), most.get(t, 1)):
        some = [ids[start : start + most[t]] for ids in own]
        yield Sending(t, [ids // parts for ids in some], some)
