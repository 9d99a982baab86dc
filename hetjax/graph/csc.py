"""Compressed sparse columns: the in-neighbours of every node of one relation, contiguous in memory."""

from typing import NamedTuple

import numpy as np

from hetjax.compiled import compiled


class CSC(NamedTuple):
    """One relation's edges, grouped by target.

    Attributes:
      indptr: int64 `[targets + 1]`; the in-edges of target `v` are `indices[indptr[v]:indptr[v + 1]]`.
      indices: source ids `[edges]`, of the smallest unsigned type that holds every source id.
      weights: float32 `[edges]`, finite; None: every edge counts alike.
      loops: whether the first edge of every target is a loop of its own, which every draw of neighbours takes.
    """

    indptr: np.ndarray
    indices: np.ndarray
    weights: "np.ndarray | None" = None
    loops: bool = False

    @property
    def edges(self) -> int:
        return len(self.indices)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Those that there are, by name."""
        named = {"indptr": self.indptr, "indices": self.indices, "weights": self.weights}
        return {name: array for name, array in named.items() if array is not None}


def index_dtype(count: int) -> np.dtype:
    """The smallest unsigned integer type that holds the ids `0..count - 1`."""
    return np.min_scalar_type(max(count - 1, 0))


def from_edges(source: np.ndarray, target: np.ndarray, sources: int, targets: int) -> CSC:
    """Group edges by target; edges of one target keep the order in which they were given.

    Args:
      source, target: integer ids `[edges]`, already checked to lie in `0..sources - 1` and `0..targets - 1`.
      sources, targets: number of nodes on either side.
    """
    indptr = np.zeros(targets + 1, np.int64)
    indices = np.empty(len(source), index_dtype(sources))
    _counting_sort(np.ascontiguousarray(source), np.ascontiguousarray(target), indptr, indices)
    return CSC(indptr, indices)


def edges_of(csc: CSC) -> tuple[np.ndarray, np.ndarray]:
    """The edge list `(source, target)` of a CSC, sorted by target."""
    target = np.repeat(np.arange(len(csc.indptr) - 1, dtype=index_dtype(len(csc.indptr) - 1)), np.diff(csc.indptr))
    return csc.indices, target


def reverse(csc: CSC, sources: int) -> CSC:
    """The same edges, each turned around; `sources` is the number of nodes on the source side of `csc`."""
    source, target = edges_of(csc)
    return from_edges(target, source, len(csc.indptr) - 1, sources)


@compiled
def _counting_sort(source, target, indptr, indices):
    for edge in range(len(target)):
        indptr[target[edge] + 1] += 1
    for node in range(len(indptr) - 1):
        indptr[node + 1] += indptr[node]
    cursor = indptr[:-1].copy()
    for edge in range(len(target)):
        node = target[edge]
        indices[cursor[node]] = source[edge]
        cursor[node] += 1
