"""Attention in two steps, for devices that sum logits in between: the logits of all edges, and then the weighted sums.

Operations of XLA alone, which make an array of a row per edge and head; where nothing is summed, `attention` and `additive` do
the same without it.
"""

import jax
import jax.numpy as jnp

from hetjax.kernels.partials import finite
from hetjax.kernels.segment import by_target, real, row_of
from hetjax.kernels.tables import read
from hetjax.sampling.blocks import Adjacency


def dot_logits(adjacency: Adjacency, queries: jax.Array, keys: jax.Array) -> jax.Array:
    """Return `queries[v, h] . keys[u, h]` of every edge from u to v, `[edges, heads]`.

    Args:
      queries: `[T, heads, size]`.
      keys: `[S, heads or 1, size]`.
    """
    rows = by_target(adjacency)
    return jnp.sum(read(queries, row_of(rows)) * read(keys, rows.indices), axis=-1)


def additive_logits(
    adjacency: Adjacency, queries: jax.Array, keys: jax.Array, vector: jax.Array, slope: float
) -> jax.Array:
    """Return `vector[h] . LeakyReLU(keys[u, h] + queries[v, h])` of every edge from u to v, `[edges, heads]`.

    Args:
      queries: `[T, heads, size]`.
      keys: `[S, heads, size]`.
      vector: `[heads, size]`.
    """
    rows = by_target(adjacency)
    met = read(keys, rows.indices) + read(queries, row_of(rows))
    return jnp.sum(vector[None] * jnp.where(met >= 0, met, slope * met), axis=-1)


def weigh(
    adjacency: Adjacency, logits: jax.Array, values: jax.Array, keep: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the four sums of `attention.Attended` from the logits.

    Args:
      logits: `[edges, heads]`.
      values: `[S, heads or 1, width]`.
      keep: as of `attention.attend`.
    """
    rows, targets = by_target(adjacency), adjacency.targets
    target, known = row_of(rows), real(rows)[:, None]

    def total(x: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(x, target, targets, indices_are_sorted=True)

    masked = jax.lax.stop_gradient(jnp.where(known, logits, -jnp.inf))
    largest = jax.ops.segment_max(masked, target, targets, indices_are_sorted=True)
    weights = jnp.where(known, jnp.exp(jnp.where(known, logits - read(finite(largest), target), 0)), 0)
    applied = weights if keep is None else weights * keep
    numerator = [
        total(applied[:, h, None] * read(values[:, h % values.shape[1]], rows.indices)) for h in range(weights.shape[1])
    ]
    return largest, total(weights), total(applied), jnp.stack(numerator, axis=1)
