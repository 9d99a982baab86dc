"""The homogeneous graph below a heterogeneous one: all relations as one, and the nodes of all types numbered consecutively."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike
from tqdm import tqdm

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Schema
from hetjax.system.compiled import compiled

PATIENCE = 2  # seconds before a bar is shown


def offsets(nodes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of each type's first node, if the nodes are numbered consecutively from type to type."""
    starts = np.cumsum([0, *nodes.values()])
    return {name: int(start) for name, start in zip(nodes, starts)}


def split(schema: Schema, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values of the homogeneous graph's nodes, per type."""
    return dict(zip(schema.nodes, np.split(values, np.cumsum(list(schema.nodes.values()))[:-1])))


def homogeneous(graph: HetGraph, dtype: DTypeLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the undirected simple graph below all relations, as METIS and Fennel see it; nodes are numbered
    consecutively in the schema's order of types.

    Returns:
      `(indptr [nodes + 1], neighbours)`: the neighbours of node `v` are `neighbours[indptr[v]:indptr[v + 1]]`, rising;
      each edge is there in both directions, once, and there are no self loops. Both are of `dtype`; None: of int32 where it holds them, otherwise int64.
    """
    start, nodes = offsets(graph.schema.nodes), sum(graph.schema.nodes.values())
    places = [(csc, start[r.source], start[r.target]) for r, csc in graph.relations.items()]
    edges = both_ways(places, nodes, dtype, loops=False)
    count = _sort_unique(edges.indptr, edges.indices)
    return edges.indptr, edges.indices[:count]


def both_ways(
    relations: Sequence[tuple[CSC, int, int]],
    nodes: int,
    dtype: DTypeLike | None = None,
    loops: bool = True,
    weighted: bool = False,
) -> CSC:
    """Return every edge of some relations in both directions, as one relation from so many nodes to themselves.

    A self loop is there twice, as any edge. While it is made, ids of one relation are held a second time.

    Args:
      relations: checked, each with the numbers of its first source and of its first target.
      dtype: of the result's pointers and ids; None: int32 where it holds them, otherwise int64.
      loops: whether self loops are taken.
      weighted: whether the result has weights: the relations', and 1 of an edge without one.
    """
    most = max(nodes, 2 * sum(csc.edges for csc, _, _ in relations))
    dtype = dtype or (np.int32 if most <= np.iinfo(np.int32).max else np.int64)
    indptr = np.zeros(nodes + 1, dtype)
    for csc, source, target in relations:
        _count_ends(csc.indptr, csc.indices.astype(np.uint32, copy=False), source, target, loops, indptr)
    np.cumsum(indptr, out=indptr)
    ids, weights = np.empty(indptr[-1], dtype), np.ones(indptr[-1] if weighted else 0, np.float32)
    free = indptr[:-1].copy()
    with tqdm(relations, "edges, both ways", leave=False, delay=PATIENCE, disable=None) as bar:
        for csc, source, target in bar:
            own = np.zeros(0, np.float32) if csc.weights is None or not weighted else csc.weights
            edges = csc.indptr, csc.indices.astype(np.uint32, copy=False), own
            _put_ends(*edges, source, target, loops, free, ids, weights)
    return CSC(indptr, ids, weights if weighted else None)


@compiled
def _count_ends(indptr, indices, source, target, loops, out):
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            u, w = np.int64(indices[edge]) + source, v + target
            if loops or u != w:
                out[u + 1] += 1
                out[w + 1] += 1


@compiled
def _put_ends(indptr, indices, weights, source, target, loops, free, out, out_weights):
    """Put every edge into the room of its ends: `free` is the next free place, and advances."""
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            u, w = np.int64(indices[edge]) + source, v + target
            if loops or u != w:
                for here, there in ((u, w), (w, u)):
                    out[free[here]] = there
                    if len(weights):
                        out_weights[free[here]] = weights[edge]
                    free[here] += 1


@compiled
def _sort_unique(indptr, neighbours):
    """Sort each row and drop duplicates, in place; return how many entries are left."""
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
