"""Sums over the neighbours of every node, in this process's memory and on all of its cores."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hetjax import runtime
from hetjax.compiled import compiled
from hetjax.graph.csc import CSC
from hetjax.prefetch import prefetch

AHEAD = 12  # edges between that whose row is asked for and that whose row is read
BLOCK = 2**18  # numbers of the rows that a thread fills at a time
NONE = np.zeros(0, np.float32)


def sum_neighbours(csc: CSC, x: np.ndarray, into: np.ndarray, factors: np.ndarray) -> None:
    """`into[v] = factors[v] (sum over the edges u -> v of w_uv x[u])`, where `w` is 1 of edges without weights.

    Args:
      csc: checked, all edges of a relation.
      x: float32 `[sources, width]`, C-contiguous.
      into: float32 `[targets, width]`, C-contiguous; what is there is overwritten.
      factors: float32 `[targets]`.
    """
    weights = NONE if csc.weights is None else csc.weights
    arrays = (
        csc.indptr.astype(np.int64, copy=False),
        csc.indices.astype(np.uint32, copy=False),
        weights,
        x,
        into,
        factors,
    )
    rows = max(1, BLOCK // max(1, x.shape[1]))
    with ThreadPoolExecutor(runtime.cores()) as threads:
        list(threads.map(lambda first: _sum(first, min(first + rows, len(into)), *arrays), range(0, len(into), rows)))


@compiled(fastmath={"contract"})
def _sum(first, last, indptr, indices, weights, x, into, factors):
    width, end = x.shape[1], len(indices) - 1
    for v in range(first, last):
        for k in range(width):
            into[v, k] = 0
        for e in range(indptr[v], indptr[v + 1]):
            prefetch(x, indices[min(e + AHEAD, end)])
            u = indices[e]
            weight = weights[e] if len(weights) else np.float32(1)
            for k in range(width):
                into[v, k] += weight * x[u, k]
        for k in range(width):
            into[v, k] *= factors[v]
