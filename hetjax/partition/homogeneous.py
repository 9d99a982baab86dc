"""The graph made homogeneous, as METIS and Fennel see it: all types' nodes numbered on, every edge once in both directions."""

import numpy as np
from numpy.typing import DTypeLike
from tqdm import tqdm

from hetjax.compiled import compiled
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Schema


def offsets(schema: Schema) -> dict[str, int]:
    """The number that a type's first node has in the homogeneous graph."""
    starts = np.cumsum([0, *schema.nodes.values()])
    return {name: int(start) for name, start in zip(schema.nodes, starts)}


def split(schema: Schema, values: np.ndarray) -> dict[str, np.ndarray]:
    """What nodes of the homogeneous graph have, per type."""
    return dict(zip(schema.nodes, np.split(values, np.cumsum(list(schema.nodes.values()))[:-1])))


def homogeneous(graph: HetGraph, dtype: DTypeLike = np.int64) -> tuple[np.ndarray, np.ndarray]:
    """The undirected simple graph below all relations, types' nodes numbered on in the schema's order.

    Returns:
      `(indptr [nodes + 1], neighbours)`: the neighbours of node `v` are `neighbours[indptr[v]:indptr[v + 1]]`, rising;
      each edge is there in both directions, once, and there are no self loops.
    """
    start = offsets(graph.schema)
    places = [(start[r.source], start[r.target]) for r in graph.relations]
    indptr = np.zeros(sum(graph.schema.nodes.values()) + 1, dtype)
    for csc, (source, target) in zip(graph.relations.values(), places):
        _count_ends(csc.indptr, csc.indices, source, target, indptr)
    np.cumsum(indptr, out=indptr)
    neighbours, cursor = np.empty(indptr[-1], dtype), indptr[:-1].copy()
    with tqdm(list(zip(graph.relations.values(), places)), "edges, both ways", leave=False, disable=None) as bar:
        for csc, (source, target) in bar:
            _put_ends(csc.indptr, csc.indices, source, target, cursor, neighbours)
    count = _sort_unique(indptr, neighbours)
    return indptr, neighbours[:count]


@compiled
def _count_ends(indptr, indices, source, target, out):
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            u, w = np.int64(indices[edge]) + source, v + target
            if u != w:
                out[u + 1] += 1
                out[w + 1] += 1


@compiled
def _put_ends(indptr, indices, source, target, cursor, out):
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            u, w = np.int64(indices[edge]) + source, v + target
            if u != w:
                out[cursor[u]], out[cursor[w]] = w, u
                cursor[u] += 1
                cursor[w] += 1


@compiled
def _sort_unique(indptr, neighbours):
    """Sort each row and drop what stands there twice, in place; returns how many are left."""
    kept, start = 0, 0
    for v in range(len(indptr) - 1):
        stop, first = indptr[v + 1], kept
        neighbours[start:stop].sort()
        for place in range(start, stop):
            if kept == first or neighbours[place] != neighbours[kept - 1]:
                neighbours[kept] = neighbours[place]
                kept += 1
        start = stop
        indptr[v + 1] = kept
    return kept
