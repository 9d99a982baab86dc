"""Edges as some models aggregate over them: with a loop at every node, and with weights that normalise."""

import numpy as np

from hetjax.graph.csc import CSC
from hetjax.system.compiled import compiled


def with_loops(csc: CSC) -> CSC:
    """Return the edges of a relation from a type to itself, and one loop at every node, before its other edges.

    An existing loop is not doubled. If edges have weights, it keeps its own, and of several loops the last one's is kept; a new
    one's is 1.

    Args:
      csc: checked, of as many sources as targets.
    """
    if csc.loops:
        return csc
    targets = len(csc.indptr) - 1
    indptr = np.zeros(targets + 1, np.int64)
    _count_with_loops(csc.indptr, csc.indices, indptr)
    indices = np.empty(indptr[-1], csc.indices.dtype)
    _fill_with_loops(csc.indptr, csc.indices, indptr, indices)
    if csc.weights is None:
        return CSC(indptr, indices, None, True)
    weights = np.empty(len(indices), np.float32)
    _fill_weights(csc.indptr, csc.indices, csc.weights, indptr, weights)
    return CSC(indptr, indices, weights, True)


def normalised(csc: CSC, sources: int) -> CSC:
    """Return the edges with weights `w_uv / sqrt(d_u d_v)`: the symmetric normalisation of Kipf and Welling (2017, equation 2).

    `d` is the sum of the weights of a node's in-edges, each 1 where there are none; of sources that are no targets, where
    the relation has no loops, that of the out-edges. A weight is 0 where `d_u` or `d_v` is not positive.

    Args:
      csc: checked; its own pointers and ids are kept.
      sources: number of source nodes.
    """
    targets = len(csc.indptr) - 1
    weights = np.ones(0, np.float32) if csc.weights is None else csc.weights
    into, out = np.zeros(targets), np.zeros(0 if csc.loops else sources)
    _degrees(csc.indptr, csc.indices, weights, into, out)
    made = np.empty(csc.edges, np.float32)
    _normalise(csc.indptr, csc.indices, weights, _root(into), _root(into if csc.loops else out), made)
    return csc._replace(weights=made)


def _root(degrees: np.ndarray) -> np.ndarray:
    """Return one over the square root of positive values; 0 for all others."""
    positive = degrees > 0
    return np.where(positive, 1 / np.sqrt(np.where(positive, degrees, 1)), 0)


@compiled
def _count_with_loops(indptr, indices, out_indptr):
    for v in range(len(indptr) - 1):
        count = 1
        for e in range(indptr[v], indptr[v + 1]):
            count += indices[e] != v
        out_indptr[v + 1] = out_indptr[v] + count


@compiled
def _fill_with_loops(indptr, indices, out_indptr, out):
    for v in range(len(indptr) - 1):
        place = out_indptr[v]
        out[place] = v
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] != v:
                place += 1
                out[place] = indices[e]


@compiled
def _fill_weights(indptr, indices, weights, out_indptr, out):
    for v in range(len(indptr) - 1):
        first = place = out_indptr[v]
        out[first] = 1
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] != v:
                place += 1
                out[place] = weights[e]
            else:
                out[first] = weights[e]


@compiled
def _degrees(indptr, indices, weights, into, out):
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            weight = np.float64(weights[e]) if len(weights) else 1.0
            into[v] += weight
            if len(out):
                out[indices[e]] += weight


@compiled
def _normalise(indptr, indices, weights, into, out, made):
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            weight = np.float64(weights[e]) if len(weights) else 1.0
            made[e] = weight * out[indices[e]] * into[v]
