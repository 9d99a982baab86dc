"""Sums over the neighbours of a node."""

import jax
import jax.numpy as jnp
from jax.experimental import sparse

from hetjax.sampling.blocks import Adjacency


def degree(adjacency: Adjacency) -> jax.Array:
    """In-edges per target, int32 `[targets]`; parallel edges count each."""
    return jnp.diff(adjacency.indptr)


@jax.custom_vjp
def neighbour_sum(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """`out[v] = sum of x[u] over the edges u -> v`: zeros for a target without edges.

    Args:
      adjacency: `targets` rows of edges into `sources` rows of `x`; edges beyond the last pointer are never read.
      x: `[sources, width]`.

    Returns:
      `[targets, width]`, of the dtype of `x`. The gradient is the same sum over the edges turned around.
    """
    return _sum(adjacency.indptr, adjacency.indices, x)


def _forward(adjacency, x):
    return neighbour_sum(adjacency, x), (adjacency, jnp.zeros((x.shape[0], 0), x.dtype))


def _backward(residuals, gradient):
    adjacency, like = residuals
    if adjacency.reverse_indptr is not None:
        return None, _sum(adjacency.reverse_indptr, adjacency.reverse_indices, gradient)
    # No reverse edges were drawn because nobody asks for this gradient; it is right all the same, and XLA drops it unused.
    targets = _targets(adjacency.indptr, adjacency.indices)
    rows = gradient.at[targets].get(mode="fill", fill_value=0)
    return None, jnp.zeros((like.shape[0], gradient.shape[1]), gradient.dtype).at[adjacency.indices].add(
        rows, mode="drop"
    )


neighbour_sum.defvjp(_forward, _backward)


def _sum(indptr, indices, x):
    if not indices.shape[0] or not x.shape[0]:
        return jnp.zeros((indptr.shape[0] - 1, x.shape[1]), x.dtype)
    return jax.lax.platform_dependent(indptr, indices, x, cpu=_sum_by_rows, default=_sum_by_segments)


def _sum_by_rows(indptr, indices, x):
    """A sparse matrix of ones times `x`: on a CPU the fastest by far, a kernel that reads each row's edges in turn."""
    ones = jnp.ones(indices.shape, x.dtype)
    return sparse.BCSR((ones, indices, indptr), shape=(indptr.shape[0] - 1, x.shape[0])) @ x


def _sum_by_segments(indptr, indices, x):
    rows = x.at[indices].get(mode="fill", fill_value=0)
    return jax.ops.segment_sum(rows, _targets(indptr, indices), indptr.shape[0] - 1, indices_are_sorted=True)


def _targets(indptr, indices):
    """The target of every edge; of an edge beyond the last pointer a row past the end, which sums drop."""
    starts = jnp.zeros(indices.shape[0] + 1, jnp.int32).at[indptr[1:]].add(1)
    return jnp.cumsum(starts[:-1])
