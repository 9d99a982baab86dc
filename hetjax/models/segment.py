"""Sums over the edges into a node, and what attention needs beside them.

Edges are grouped by target (compressed rows), and by source too where a gradient flows back to the sources; so a gradient
is a sum of the same kind over the edges turned around. Edges beyond the last pointer are padding: nothing that they hold,
and nothing that is computed for them, reaches a target or a gradient.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import sparse

from hetjax.cache.tables import read
from hetjax.models.carriers import Attention, finite
from hetjax.sampling.blocks import Adjacency

EDGE_COST = 40  # multiplications in the time that a sum over edges takes to move one number; with 8 HGT's step took twice as long


class _Rows(NamedTuple):
    """One grouping of the edges: `indptr` `[rows + 1]`, and `indices` `[edges]`, the column of every edge."""

    indptr: jax.Array
    indices: jax.Array


def degree(adjacency: Adjacency) -> jax.Array:
    """In-edges per target, int32 `[targets]`; parallel edges count each."""
    return jnp.diff(adjacency.indptr)


def multiply_first(adjacency: Adjacency, sources: jax.Array, features: int, heads: int = 1) -> bool:
    """Whether multiplying every source row by a matrix costs less than summing first and multiplying every target row.

    The same mathematics either way; the shapes decide, when the program is traced.

    Args:
      sources: `[S, width]`.
      features: width of the product, over all heads.
      heads: sums of the width of the sources that summing first needs.
    """
    rows, width = sources.shape
    targets, edges = adjacency.indptr.shape[0] - 1, adjacency.indices.shape[0]
    first = rows * width * features + EDGE_COST * edges * features
    return first < targets * width * features + EDGE_COST * edges * width * heads


def by_edge(adjacency: Adjacency, sources: jax.Array) -> tuple[Adjacency, jax.Array]:
    """The same edges, each with a source row of its own, if there are fewer edges than sources, and nobody has grouped them
    by source: static features, which are mostly read in place.

    What attention does to every source row is then done to those alone that are read, and a gradient comes back to an
    edge's row without that.
    """
    edges = adjacency.indices.shape[0]
    if edges >= len(sources) or adjacency.reverse_indptr is not None:
        return adjacency, sources
    own, one_each = jnp.arange(edges, dtype=jnp.int32), jnp.arange(edges + 1, dtype=jnp.int32)
    reverse_indptr = jnp.minimum(one_each, adjacency.indptr[-1])
    apart = Adjacency(adjacency.indptr, own, reverse_indptr, _targets(adjacency), own)
    return apart, at_sources(adjacency, sources)


@jax.custom_vjp
def neighbour_sum(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """`out[v] = sum of x[u] over the edges u -> v`: zeros for a target without edges.

    Args:
      adjacency: `targets` rows of edges into `sources` rows of `x`.
      x: `[sources, width]`.

    Returns:
      `[targets, width]`, of the dtype of `x`.
    """
    return _sum(_Rows(adjacency.indptr, adjacency.indices), None, x)


def _neighbour_sum_forward(adjacency, x):
    return neighbour_sum(adjacency, x), (adjacency, _like(x))


def _neighbour_sum_backward(residuals, gradient):
    adjacency, like = residuals
    turned, _ = _turned(adjacency, like.shape[0])
    return None, _sum(turned, None, gradient)


neighbour_sum.defvjp(_neighbour_sum_forward, _neighbour_sum_backward)


@jax.custom_vjp
def neighbour_mean(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """The mean of the rows `x[u]` over the edges u -> v: `[targets, width]`, zeros for a target without edges.

    The weight of an edge is one over the degree of its target. So what comes back to the targets is read as it is by the sums
    of all relations; if each relation divided it first, XLA would compute it anew for each.
    """
    return _sum(_Rows(adjacency.indptr, adjacency.indices), _take(_shares(adjacency, x), _targets(adjacency)), x)


def _neighbour_mean_backward(residuals, gradient):
    adjacency, like = residuals
    turned, _ = _turned(adjacency, like.shape[0])
    return None, _sum(turned, _take(_shares(adjacency, gradient), turned.indices), gradient)


neighbour_mean.defvjp(
    lambda adjacency, x: (neighbour_mean(adjacency, x), (adjacency, _like(x))),
    _neighbour_mean_backward,
)


def _shares(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """One over the degree of every target that has edges, `[targets]` of the dtype of `x`."""
    return 1 / jnp.maximum(degree(adjacency), 1).astype(x.dtype)


@jax.custom_vjp
def weighted_sum(adjacency: Adjacency, weights: jax.Array, x: jax.Array) -> jax.Array:
    """`out[v, h] = sum of weights[e, h] x[u, h] over the edges e: u -> v`.

    Args:
      weights: `[edges, heads]`.
      x: `[sources, heads, width]`, or `[sources, 1, width]` where all heads read the same.

    Returns:
      `[targets, heads, width]`. The gradient with respect to the weights is an `edge_dot`.
    """
    return _weighted(_Rows(adjacency.indptr, adjacency.indices), weights, x)


def _weighted_sum_forward(adjacency, weights, x):
    return weighted_sum(adjacency, weights, x), (adjacency, weights, x)


def _weighted_sum_backward(residuals, gradient):
    adjacency, weights, x = residuals
    return None, edge_dot(adjacency, gradient, x), _to_sources(adjacency, weights, gradient, x)


weighted_sum.defvjp(_weighted_sum_forward, _weighted_sum_backward)


@jax.custom_vjp
def edge_dot(adjacency: Adjacency, y: jax.Array, x: jax.Array) -> jax.Array:
    """`out[e, h] = y[v, h] . x[u, h]` for every edge e: u -> v.

    Args:
      y: `[targets, heads, width]`.
      x: `[sources, heads, width]`, or `[sources, 1, width]` where all heads read the same.

    Returns:
      `[edges, heads]`. The gradients are weighted sums, the weights being the gradient of the result.
    """
    ours, theirs = _take(y, _targets(adjacency)), _take(x, adjacency.indices)
    return jnp.sum(ours * theirs, axis=-1)


def _edge_dot_forward(adjacency, y, x):
    return edge_dot(adjacency, y, x), (adjacency, y, x)


def _edge_dot_backward(residuals, gradient):
    adjacency, y, x = residuals
    return None, weighted_sum(adjacency, gradient, x), _to_sources(adjacency, gradient, y, x)


edge_dot.defvjp(_edge_dot_forward, _edge_dot_backward)


@jax.custom_vjp
def edge_sum(adjacency: Adjacency, values: jax.Array) -> jax.Array:
    """`out[v] = sum of values[e] over the edges e into v`: `[targets, width]` from `[edges, width]`."""
    return _sum(_Rows(adjacency.indptr, jnp.arange(len(values), dtype=jnp.int32)), None, values)


edge_sum.defvjp(
    lambda adjacency, values: (edge_sum(adjacency, values), adjacency),
    lambda adjacency, gradient: (None, at_targets(adjacency, gradient)),
)


@jax.custom_vjp
def at_targets(adjacency: Adjacency, y: jax.Array) -> jax.Array:
    """The row of every edge's target: `[edges, width]` from `[targets, width]`."""
    return _take(y, _targets(adjacency))


at_targets.defvjp(
    lambda adjacency, y: (at_targets(adjacency, y), adjacency),
    lambda adjacency, gradient: (None, edge_sum(adjacency, gradient)),
)


@jax.custom_vjp
def at_sources(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """The row of every edge's source: `[edges, width]` from `[sources, width]`."""
    return _take(x, adjacency.indices)


def _at_sources_backward(residuals, gradient):
    adjacency, like = residuals
    turned, edges = _turned(adjacency, like.shape[0])
    return None, _sum(turned._replace(indices=edges), None, gradient)


at_sources.defvjp(
    lambda adjacency, x: (at_sources(adjacency, x), (adjacency, _like(x))),
    _at_sources_backward,
)


def attend(adjacency: Adjacency, logits: jax.Array, total, keep: jax.Array | None = None) -> Attention:
    """Softmax attention over the edges into every target, as a carrier.

    Args:
      logits: `[edges, heads]`; padded edges may hold anything finite.
      total: sums the edges' values with weights `[edges, heads]` into `[targets, heads, width]`.
      keep: what dropout multiplies the weights with, `[edges, heads]`; the denominator is not dropped.
    """
    largest = jax.lax.stop_gradient(_largest(adjacency, logits))
    weights = jnp.exp(jnp.where(_real(adjacency)[:, None], logits - at_targets(adjacency, finite(largest)), 0))
    return Attention(largest, edge_sum(adjacency, weights), total(weights if keep is None else weights * keep))


def _largest(adjacency: Adjacency, logits: jax.Array) -> jax.Array:
    """The largest logit of every target, `[targets, heads]`; minus infinity without edges."""
    targets = len(adjacency.indptr) - 1
    return jax.ops.segment_max(logits, _targets(adjacency), targets, indices_are_sorted=True)


def _to_sources(adjacency, weights, gradient, x):
    """The gradient of `x` `[sources, heads or 1, width]`, from weights `[edges, heads]` and what is at the targets."""
    turned, edges = _turned(adjacency, len(x))
    back = _weighted(turned, _take(weights, edges), gradient)
    return back if x.shape[1] == back.shape[1] else jnp.sum(back, axis=1, keepdims=True)


def _turned(adjacency: Adjacency, sources: int) -> tuple[_Rows, jax.Array]:
    """The edges grouped by source, and the position of each among those grouped by target."""
    if adjacency.reverse_indptr is not None:
        return _Rows(adjacency.reverse_indptr, adjacency.reverse_indices), adjacency.reverse_edges
    # Not drawn, because nobody asks for this gradient; it is right all the same, and XLA drops it unused.
    columns = jnp.where(_real(adjacency), adjacency.indices, sources)
    edges = jnp.argsort(columns, stable=True).astype(jnp.int32)
    indptr = jnp.searchsorted(columns[edges], jnp.arange(sources + 1)).astype(jnp.int32)
    return _Rows(indptr, _targets(adjacency)[edges]), edges


def _targets(adjacency: Adjacency) -> jax.Array:
    """The target of every edge; of a padded edge a row past the end, which sums drop and reads fill with zeros."""
    starts = jnp.zeros(len(adjacency.indices) + 1, jnp.int32).at[adjacency.indptr[1:]].add(1)
    return jnp.cumsum(starts[:-1])


def _real(adjacency: Adjacency) -> jax.Array:
    """Which edges are not padding, `[edges]`."""
    return jnp.arange(len(adjacency.indices)) < adjacency.indptr[-1]


def _take(rows: jax.Array, ids: jax.Array) -> jax.Array:
    """Rows by id; zeros for an id past the end."""
    return read(rows, ids)


def _like(x: jax.Array) -> jax.Array:
    """Nothing but the number of rows and the dtype of `x`."""
    return jnp.zeros((len(x), 0), x.dtype)


def _weighted(rows: _Rows, weights: jax.Array, x: jax.Array) -> jax.Array:
    """`[rows, heads, width]` from weights `[edges, heads]` and `x` `[columns, heads or 1, width]`."""
    heads = weights.shape[1]
    return jnp.stack([_sum(rows, weights[:, h], x[:, h % x.shape[1]]) for h in range(heads)], axis=1)


def _sum(rows: _Rows, weights: jax.Array | None, x: jax.Array) -> jax.Array:
    """`out[i] = sum over the edges e of row i of weights[e] x[indices[e]]`; a weight is 1 where there are none."""
    if not rows.indices.shape[0] or not x.shape[0]:
        return jnp.zeros((rows.indptr.shape[0] - 1, x.shape[1]), x.dtype)
    return jax.lax.platform_dependent(rows, weights, x, cpu=_sum_by_rows, default=_sum_by_segments)


def _sum_by_rows(rows, weights, x):
    """A sparse matrix times `x`: on a CPU the fastest by far, a kernel that reads each row's edges in turn."""
    weights = jnp.ones(rows.indices.shape, x.dtype) if weights is None else weights
    return sparse.BCSR((weights, rows.indices, rows.indptr), shape=(rows.indptr.shape[0] - 1, x.shape[0])) @ x


def _sum_by_segments(rows, weights, x):
    read = _take(x, rows.indices) if weights is None else weights[:, None] * _take(x, rows.indices)
    row = _targets(Adjacency(rows.indptr, rows.indices))
    return jax.ops.segment_sum(read, row, rows.indptr.shape[0] - 1, indices_are_sorted=True)
