"""Features that are mostly zeros, for example counts of words: only the other entries are stored and multiplied."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from hetjax.sampling.blocks import MOST_EDGES, Adjacency
from hetjax.sampling.sampler import group
from hetjax.system.arrays import Array
from hetjax.system.compiled import compiled

DENSEST = 0.1  # share of entries that are not zero, up to which the others are left out: a judgement
SAMPLE = 1024  # rows that are looked at first


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SparseRows:
    """A matrix `[rows, width]` that supports nothing but products with others (`models.linear.times`).

    Attributes:
      entries: those that are not zero, as the weights of a bipartite graph from columns to rows.
      picked: int32, which rows are meant; None: all, in order.
    """

    entries: Adjacency
    picked: "Array | None" = None

    @property
    def shape(self) -> tuple[int, int]:
        rows = self.entries.targets if self.picked is None else len(self.picked)
        assert self.entries.reverse_indptr is not None
        return rows, self.entries.reverse_indptr.shape[0] - 1

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def values(self) -> Array:
        """The values of the entries that are stored, row by row, `[entries]`."""
        assert self.entries.weights is not None
        return self.entries.weights

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self))

    def astype(self, dtype: DTypeLike) -> "SparseRows":
        return self.with_values(jnp.asarray(self.values, dtype))

    def with_values(self, values: jax.Array) -> "SparseRows":
        """Return the same entries with other values, `[entries]`."""
        return replace(self, entries=self.entries._replace(weights=values))

    def rows_at(self, ids: "Array | None") -> "SparseRows":
        """Return some rows, int32 ids; an id out of range is a row of zeros."""
        if ids is None:
            return self
        if self.picked is None:
            return replace(self, picked=ids)
        nowhere = self.entries.targets
        return replace(self, picked=jnp.asarray(self.picked).at[ids].get(mode="fill", fill_value=nowhere))


def density(matrix: np.ndarray) -> float:
    """Return the share of a feature matrix's entries that are not zero, from a sample of `SAMPLE` rows or so; infinite
    for what cannot be `SparseRows`."""
    sample = matrix[:: max(1, len(matrix) // SAMPLE)]
    if matrix.dtype != np.float32 or not sample.size:
        return np.inf
    return np.count_nonzero(sample) / sample.size


def compact(matrix: np.ndarray) -> "np.ndarray | SparseRows":
    """Return a feature matrix `[rows, width]` without its zeros, if at most `DENSEST` of its entries are others; else the matrix itself."""
    if density(matrix) > DENSEST:
        return matrix
    indptr = np.zeros(len(matrix) + 1, np.int64)
    matrix = np.asarray(matrix)  # of a map into memory too
    _count(matrix, indptr[1:])
    np.cumsum(indptr, out=indptr)
    if indptr[-1] > min(DENSEST * matrix.size, MOST_EDGES):
        return matrix
    columns, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    _fill(matrix, indptr, columns, values)
    return SparseRows(group(indptr.astype(np.int32), columns, matrix.shape[1], values))


@compiled
def _count(matrix, counts):
    for v in range(len(matrix)):
        for column in range(matrix.shape[1]):
            counts[v] += matrix[v, column] != 0


@compiled
def _fill(matrix, indptr, columns, values):
    for v in range(len(matrix)):
        e = indptr[v]
        for column in range(matrix.shape[1]):
            if matrix[v, column] != 0:
                columns[e], values[e] = column, matrix[v, column]
                e += 1
