"""Sums over the neighbours of every node, on the host and on all of its cores."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hetjax.graph.csc import CSC
from hetjax.system import runtime
from hetjax.system.compiled import compiled
from hetjax.system.prefetch import prefetch

AHEAD = 12  # edges between that whose row is asked for and that whose row is read
BLOCK = 2**18  # numbers, of edges and nodes times columns, that a thread adds up at a time
EACH = 8  # blocks of every thread, at most
NONE = np.zeros(0, np.float32)


def sum_neighbours(csc: CSC, x: np.ndarray, into: np.ndarray, factors: np.ndarray) -> None:
    """Compute `into[v] = factors[v] (sum over the edges u -> v of w_uv x[u])`; `w` is 1 for edges without weights.

    Args:
      csc: checked, not cut into pieces.
      x: float32 `[sources, width]`, C-contiguous.
      into: float32 `[targets, width]`, C-contiguous; what is there is overwritten.
      factors: float32 `[targets]`.
    """
    arrays = csc.indptr, csc.indices, NONE if csc.weights is None else csc.weights, x, into, factors
    cores, work = runtime.cores(), (csc.edges + len(into)) * x.shape[1]
    blocks = min(EACH * cores, 1 + work // BLOCK)
    if blocks == 1:
        return _sum(0, len(into), *arrays)
    done = csc.indptr[:-1] + np.arange(len(into))  # before each target, in edges and targets
    ends = [*np.searchsorted(done, np.linspace(0, csc.edges + len(into), blocks + 1)[:-1]).tolist(), len(into)]
    with ThreadPoolExecutor(cores) as threads:
        list(threads.map(lambda first, last: _sum(first, last, *arrays), ends[:-1], ends[1:]))


def total_weights(csc: CSC) -> np.ndarray:
    """Return the sum of the weights of the edges into every node, 1 each where they have no weights: float64 `[targets]`."""
    if csc.weights is None:
        return np.diff(csc.indptr).astype(np.float64)
    total = np.zeros(len(csc.indptr) - 1)
    _add_weights(csc.indptr, csc.weights, total)
    return total


@compiled
def _add_weights(indptr, weights, total):
    for v in range(len(total)):
        for e in range(indptr[v], indptr[v + 1]):
            total[v] += weights[e]


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
