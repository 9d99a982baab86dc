"""Compressed sparse columns: the in-neighbours of every node of one relation, contiguous in memory."""

from typing import NamedTuple

import numpy as np

from hetjax.graph import grouping
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError

MANY = 2**20  # edges that are grouped by ranges of targets, as they are more than a cache holds


class Piece(NamedTuple):
    """A piece of a relation's edges: edge `e` belongs to piece `e mod of`, so pieces are even, and every target's share too.

    Attributes:
      number, of: which piece, of how many.
      relation: the key of the relation.
    """

    number: int
    of: int
    relation: str

    def edges(self, total: int) -> int:
        """Return how many of so many edges the piece has."""
        return (total - self.number + self.of - 1) // self.of


class CSC(NamedTuple):
    """One relation's edges, grouped by target.

    Attributes:
      indptr: int64 `[targets + 1]`; the in-edges of target `v` are `indices[indptr[v]:indptr[v + 1]]`.
      indices: source ids `[edges]`, of the smallest unsigned type that holds every source id.
      weights: float32 `[edges]`, finite; None: every edge counts alike.
      loops: whether the first edge of every target is a loop of its own, which every sample of neighbours contains.
      piece: None: these are all edges. Else `indptr` is of all edges, and `indices` has those of the piece, in their order.
    """

    indptr: np.ndarray
    indices: np.ndarray
    weights: "np.ndarray | None" = None
    loops: bool = False
    piece: "Piece | None" = None

    @property
    def edges(self) -> int:
        return len(self.indices)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that are present, by name."""
        named = {"indptr": self.indptr, "indices": self.indices, "weights": self.weights}
        return {name: array for name, array in named.items() if array is not None}


def index_dtype(count: int) -> np.dtype:
    """Return the smallest unsigned integer type that holds the ids `0..count - 1`."""
    return np.min_scalar_type(max(count - 1, 0))


def from_edges(
    source: np.ndarray, target: np.ndarray, sources: int, targets: int, weights: np.ndarray | None = None
) -> CSC:
    """Group edges by target; edges of one target keep the order in which they were given.

    Args:
      source, target: integer ids `[edges]`, already checked to lie in `0..sources - 1` and `0..targets - 1`.
      sources, targets: number of nodes on either side.
      weights: float32 `[edges]`, already checked to be finite; None: every edge counts alike.
    """
    indices = np.empty(len(source), index_dtype(sources))
    if len(target) >= MANY:
        if weights is None:
            return CSC(grouping.group(target, targets, [source], [indices]), indices)
        grouped = np.empty(len(source), np.float32)
        return CSC(grouping.group(target, targets, [source, weights], [indices, grouped]), indices, grouped)
    target = np.ascontiguousarray(target)
    indptr = np.zeros(targets + 1, np.int64)
    _count(target, indptr)
    _place(target, indptr, np.ascontiguousarray(source), indices)
    if weights is None:
        return CSC(indptr, indices)
    grouped = np.empty(len(source), np.float32)
    _place(target, indptr, np.ascontiguousarray(weights), grouped)
    return CSC(indptr, indices, grouped)


def as_weights(values: np.ndarray, edges: int, place: str) -> np.ndarray:
    """Return weights of edges as float32 `[edges]`. Errors begin with `place`."""
    values = np.asarray(values)
    if values.shape != (edges,) or values.dtype.kind not in "iuf":
        raise InputError(f"{place}: weights are {values.dtype} {values.shape}, and should be numbers ({edges},)")
    with np.errstate(over="ignore"):  # what does not fit is infinite, and refused
        weights = values.astype(np.float32, copy=False)
    check_weights(weights, place)
    return weights


def check_weights(weights: np.ndarray, place: str) -> None:
    """Raise an InputError naming the first weight that is not a finite number."""
    finite = np.isfinite(weights)
    if not finite.all():
        edge = int(np.argmin(finite))
        raise InputError(f"{place}: weight of edge {edge} is {weights[edge]}, not a finite number of 32 bits")


def edges_of(csc: CSC) -> tuple[np.ndarray, np.ndarray]:
    """Return the edge list `(source, target)` of a CSC, sorted by target."""
    target = np.repeat(np.arange(len(csc.indptr) - 1, dtype=index_dtype(len(csc.indptr) - 1)), np.diff(csc.indptr))
    return csc.indices, target


def cut(csc: CSC, piece: Piece) -> CSC:
    """Return a piece of a relation without weights, whose edges are copied; the pointers are not."""
    assert csc.weights is None and csc.piece is None
    return CSC(csc.indptr, np.ascontiguousarray(csc.indices[piece.number :: piece.of]), None, False, piece)


def reverse(csc: CSC, sources: int) -> CSC:
    """Return the same edges, each turned around with its weight; `sources` is the number of nodes on the source side of `csc`."""
    source, target = edges_of(csc)
    return from_edges(target, source, len(csc.indptr) - 1, sources, csc.weights)


@compiled
def _count(target, indptr):
    for edge in range(len(target)):
        indptr[target[edge] + 1] += 1
    for node in range(len(indptr) - 1):
        indptr[node + 1] += indptr[node]


@compiled
def _place(target, indptr, values, out):
    """Put the values of edges at the places of the edges of their targets."""
    cursor = indptr[:-1].copy()
    for edge in range(len(target)):
        node = target[edge]
        out[cursor[node]] = values[edge]
        cursor[node] += 1
