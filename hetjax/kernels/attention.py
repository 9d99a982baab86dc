"""Softmax attention over the edges into a node.

On a CPU one kernel computes the forward pass over a relation's edges and one the backward pass (neighbour_sums.py);
elsewhere, and where these are not available, operations of XLA do the same.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hetjax.kernels import native, orders
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.heads import apart
from hetjax.kernels.linear import times
from hetjax.kernels.native import BLOCK
from hetjax.kernels.partials import Attention, finite
from hetjax.kernels.products import added
from hetjax.kernels.segment import (
    Rows,
    by_source,
    by_target,
    real,
    row_of,
    sum_edges,
    sum_over_heads,
    sum_rows,
    sum_weighted,
)
from hetjax.kernels.tables import read
from hetjax.sampling.blocks import Edges
from hetjax.system.arrays import Array


class Attended(NamedTuple):
    """The sums over every target's edges; `exp(-largest)` is a factor of all of them.

    Attributes:
      largest: `[T, heads]`, the largest logit; minus infinity without an edge.
      denominator: `[T, heads]`, the sum of the weights.
      kept: `[T, heads]`, the sum of those in the numerator: all, unless dropout leaves out some.
      numerator: `[T, heads, width]`, the sum of the weights times the values.
    """

    largest: jax.Array
    denominator: jax.Array
    kept: jax.Array
    numerator: jax.Array

    def partial(self, bias: jax.Array | None = None) -> Attention:
        """Return the partial aggregate that results if `bias` `[heads, width]` is added to every value."""
        sums = self.numerator
        return Attention(
            self.largest, self.denominator, sums if bias is None else sums + self.kept[..., None] * bias[None]
        )


@functools.singledispatch
def attend(
    adjacency: Edges,
    queries: jax.Array,
    offsets: jax.Array,
    keys: jax.Array,
    values: jax.Array | None = None,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    """Return the attention over the edges from `S` sources to `T` targets.

    The logit of an edge from u to v is `LeakyReLU(queries[v, h] . keys[u, h] + offsets[v, h])` per head h, its weight the
    exponential of that, and what it weighs `values[u, h]`. One row for all targets, or one head for all heads, will do.

    One row of queries for all targets makes a source's part of the logit the same in all of its edges: it is computed for
    every source or at every edge, whichever costs less (`orders`).

    Args:
      queries: `[T or 1, heads, size]`.
      offsets: `[T, heads]`.
      keys: `[S, heads or 1, size]`.
      values: `[S, heads or 1, width]`; the keys if there are none.
      slope: of the leaky ReLU below zero, positive; 1 leaves logits as they are.
      keep: what dropout multiplies the weights in the numerator with, `[edges, heads]`.

    All are taken as the dtype of the offsets. No gradient flows to `slope` and `keep`.
    """
    keep = jnp.zeros((0, offsets.shape[1])) if keep is None else keep
    arguments: tuple = (queries, offsets, keys, values, keep, jnp.asarray(slope))
    if len(queries) == 1 and scores_first(adjacency, keys, queries.shape[1]):
        known = scores(*(x.astype(offsets.dtype) for x in (keys, queries[0])))[..., None]
        arguments = (None, offsets, known, keys if values is None else values, *arguments[4:])
    return _attend(adjacency, *(None if x is None else x.astype(offsets.dtype) for x in arguments))


def scores_first(adjacency: Edges, keys: jax.Array, heads: int) -> bool:
    """Return whether computing `heads` scores of every source costs less than as many dot products at every edge.

    Args:
      keys: `[S, heads or 1, size]`.
    """
    (rows, own, size), edges = keys.shape, adjacency.indices.shape[0]
    grouped = adjacency.reverse is not None
    work = orders.Work(rows, adjacency.targets, edges, own * size, heads, heads, 1, orders.trained(), grouped)
    return orders.scores_first(work)


def scores(x: jax.Array, vectors: jax.Array) -> jax.Array:
    """Return `x[i, h] . vectors[h]`, `[rows, heads]`, of `[rows, heads or 1, size]` and `[heads, size]`, as one product with a matrix."""
    if x.shape[1] == 1:
        return times(x[:, 0], vectors.T)
    return times(jax.lax.collapse(x, 1), apart(vectors[..., None]))


@jax.custom_vjp
def _attend(adjacency, queries, offsets, keys, values, keep, slope) -> Attended:
    """Return the result of `attend`; without queries the keys are `[S, heads, 1]` and are the sources' part of the logits."""
    return _forward(adjacency, queries, offsets, keys, values, keep, slope)[0]


def _forward(adjacency, queries, offsets, keys, values, keep, slope):
    arguments = by_target(adjacency), queries, offsets, keys, keys if values is None else values, keep, slope
    *sums, logits, weights = native.choose(_attend_natively, attend_plainly, *arguments)
    return Attended(*sums), (adjacency, queries, keys, values, keep, slope, logits, weights)


def _backward(residuals, gradient: Attended):
    """Return the cotangents of the inputs. None flows through `largest`, which cancels in the combined aggregate."""
    adjacency, queries, keys, values, keep, slope, logits, weights = residuals
    edges = keep, slope, logits, weights
    arguments = by_target(adjacency), queries, keys, keys if values is None else values, edges, gradient[1:]
    by_queries, by_offsets, by_logits = native.choose(_back_natively, back_plainly, *arguments)
    turned, places = by_source(adjacency, len(keys))
    back = functools.partial(to_sources, turned, places)
    asked, weighed = (by_logits, queries), (_applied(weights, keep), gradient.numerator)
    if queries is None:
        by_keys = sum_rows(turned._replace(indices=places), by_logits)[..., None]
        by_values = back(values, weighed)
    elif values is None:
        by_keys, by_values = back(keys, asked, weighed), None
    else:
        by_keys, by_values = back(keys, asked), back(values, weighed)
    return None, by_queries, by_offsets, by_keys, by_values, None, None


_attend.defvjp(_forward, _backward)


def _attend_natively(rows, queries, offsets, keys, values, keep, slope):
    (targets, heads), edges, width = offsets.shape, len(rows.indices), values.shape[2]
    shapes = [*3 * [(targets, heads)], (targets, heads, width), *2 * [(edges, heads)], keep.shape]
    results = [jax.ShapeDtypeStruct(shape, offsets.dtype) for shape in shapes]
    asked = jnp.zeros((0, 0, 0), offsets.dtype) if queries is None else queries
    arguments = asked, offsets, keys, values, keep, slope
    *found, _ = kernels.attend(targets, *rows, *arguments, results=results)  # the last again by `_applied`
    return tuple(found)


def attend_plainly(
    rows: Rows,
    queries: jax.Array | None,
    offsets: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    keep: jax.Array,
    slope: jax.Array,
) -> tuple[jax.Array, ...]:
    """Return `Attended`, and logits and weights `[edges, heads]`; the arguments are those of `_attend`."""
    target = row_of(rows)
    if queries is None:
        logits = read(keys[..., 0], rows.indices)
    else:
        logits = _dots(rows, jnp.broadcast_to(queries, (len(offsets), *queries.shape[1:])), keys)
    logits = logits + read(offsets, target)
    logits = jnp.where(logits < 0, slope * logits, logits)
    largest = jax.ops.segment_max(logits, target, len(offsets), indices_are_sorted=True)
    weights = jnp.exp(jnp.where(real(rows)[:, None], logits - read(finite(largest), target), 0))
    applied = _applied(weights, keep)
    numerator = sum_weighted(rows, applied, values)
    return largest, sum_edges(rows, weights), sum_edges(rows, applied), numerator, logits, weights


def _back_natively(rows, queries, keys, values, edges, gradient):
    _, _, logits, _ = edges
    *sums, numerator = gradient
    (targets, heads, _), size = numerator.shape, keys.shape[2]
    one_query = queries is not None and len(queries) == 1
    asked = (-(-targets // BLOCK) if one_query else targets, heads, size)
    shapes = (0, 0, 0) if queries is None else asked, (targets, heads), logits.shape
    results = [jax.ShapeDtypeStruct(shape, logits.dtype) for shape in shapes]
    arguments = keys, values, *edges, *sums, numerator
    by_queries, *others = kernels.attend_back(targets, *rows, *arguments, results=results)
    if queries is None:
        return None, *others
    if one_query:
        return added(by_queries)[None], *others
    return by_queries, *others


def back_plainly(
    rows: Rows, queries: jax.Array | None, keys: jax.Array, values: jax.Array, edges: tuple, gradient: tuple
) -> tuple[Any, jax.Array, jax.Array]:
    """Return the gradients of queries, offsets and logits; the first is None without queries.

    Args:
      edges: `(keep, slope, logits, weights)`.
      gradient: the cotangents of the denominator, of `kept`, and of the numerator.
    """
    keep, slope, logits, weights = edges
    denominator, kept, numerator = gradient
    target = row_of(rows)
    change = _applied(_dots(rows, numerator, values) + read(kept, target), keep)
    change = weights * (change + read(denominator, target))
    change = jnp.where(logits < 0, slope * change, change)
    if queries is None:
        return None, sum_edges(rows, change), change
    by_queries = sum_weighted(rows, change, keys)
    by_queries = jnp.sum(by_queries, axis=0, keepdims=True) if len(queries) == 1 else by_queries
    return by_queries, sum_edges(rows, change), change


def to_sources(rows: Rows, edges: Array, like: jax.Array, *summed: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Return the cotangents of the sources, `[S, heads or 1, width]` as `like`: for each pair the sum over their edges
    of weights times rows of the targets.

    Args:
      rows, edges: as of `segment.by_source`.
      summed: `(weights [edges, heads], rows [T or 1, heads, width])`, at most two.
    """
    return native.choose(_to_sources_natively, _to_sources_plainly, rows, edges, like, *summed)


def _to_sources_natively(rows, edges, like, *summed):
    pairs = [*summed, *[(jnp.zeros((0, 0), like.dtype), jnp.zeros((0, 0, 0), like.dtype))] * (2 - len(summed))]
    result = jax.ShapeDtypeStruct(like.shape, like.dtype)
    return kernels.to_sources(len(like), *rows, edges, *pairs[0], *pairs[1], results=[result])[0]


def _to_sources_plainly(rows, edges, like, *summed):
    first = rows._replace(indices=jnp.zeros_like(rows.indices))  # where there is one row for all targets
    fold = sum_weighted if like.shape[1] > 1 else sum_over_heads
    sums = [fold(rows if len(x) > 1 else first, read(weights, edges), x) for weights, x in summed]
    return sum(sums[1:], sums[0]).reshape(like.shape)


def _applied(weights, keep):
    """Return the weights after dropout."""
    return weights * keep if len(keep) else weights


def _dots(rows: Rows, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `x[v, h] . y[u, h]` of every edge from u to v, `[edges, heads]`."""
    return jnp.sum(read(x, row_of(rows)) * read(y, rows.indices), axis=-1)
