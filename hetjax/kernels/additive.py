"""Additive attention over the edges into a node: a logit is a vector times a nonlinear function of source and target.

As in `attention`, kernels go over the edges on a CPU (additive_kernels.py), and operations of XLA elsewhere; these make arrays
of a row per edge, one head at a time.
"""

import functools

import jax
import jax.numpy as jnp

from hetjax.kernels import additive_kernels as kernels
from hetjax.kernels import native
from hetjax.kernels.native import BLOCK
from hetjax.kernels.partials import Attention, finite
from hetjax.kernels.segment import Rows, by_source, by_target, real, row_of, sum_edges, sum_weighted
from hetjax.kernels.tables import read
from hetjax.sampling.blocks import Edges


@functools.singledispatch
def attend_additively(
    adjacency: Edges,
    queries: jax.Array,
    keys: jax.Array,
    vector: jax.Array,
    slope: float,
    keep: jax.Array | None = None,
) -> Attention:
    """Return the attention over the edges from `S` sources to `T` targets.

    The logit of an edge from u to v is `vector[h] . LeakyReLU(keys[u, h] + queries[v, h])` per head h, and what it weighs is
    `keys[u, h]` (Brody et al., 2022, equation 7).

    Args:
      queries: `[T, heads, width]`.
      keys: `[S, heads, width]`.
      vector: `[heads, width]`.
      slope: of the leaky ReLU below zero.
      keep: what dropout multiplies the weights in the numerator with, `[edges, heads]`.

    Returns:
      The partial aggregate, of the dtype of the keys; `exp(-largest)` is a factor of its sums. No gradient flows to `slope` and
      `keep`, and none through `largest`.
    """
    keep = jnp.zeros((0, keys.shape[1])) if keep is None else keep
    arguments = queries, keys, vector, keep, jnp.asarray(slope)
    largest, denominator, numerator = _attend(adjacency, *(x.astype(keys.dtype) for x in arguments))
    return Attention(largest, denominator, jnp.swapaxes(numerator, 0, 1))


@jax.custom_vjp
def _attend(adjacency, queries, keys, vector, keep, slope):
    return _attend_forward(adjacency, queries, keys, vector, keep, slope)[0]


def _attend_forward(adjacency, *given):
    """Return `(largest, denominator, numerator [heads, T, width])`."""
    *sums, weights = native.choose(_natively, _plainly, by_target(adjacency), *given)
    return tuple(sums), (adjacency, given, weights)


def _attend_backward(residuals, gradient):
    adjacency, given, weights = residuals
    _, by_denominator, by_numerator = gradient
    by_queries, by_vector, by_logits = native.choose(
        _back_natively, _back_plainly, by_target(adjacency), given, weights, by_denominator, by_numerator
    )
    turned, edges = by_source(adjacency, len(given[1]))
    by_keys = native.choose(
        _to_sources_natively, _to_sources_plainly, turned, edges, given, weights, by_logits, by_numerator
    )
    return None, by_queries, by_keys, by_vector, None, None


_attend.defvjp(_attend_forward, _attend_backward)


def _natively(rows, queries, keys, vector, keep, slope):
    (targets, heads, width), edges = queries.shape, len(rows.indices)
    shapes = 2 * [(targets, heads)] + [(heads, targets, width)] + 2 * [(edges, heads)]
    results = [jax.ShapeDtypeStruct(shape, keys.dtype) for shape in shapes]
    *sums, _, weights = kernels.attend(targets, *rows, queries, keys, vector, keep, slope, results=results)
    return *sums, weights


def _plainly(rows, queries, keys, vector, keep, slope):
    targets, target = len(queries), row_of(rows)
    logits = jnp.stack([_bent(_met(rows, queries, keys, h), slope) @ vector[h] for h in range(len(vector))], axis=1)
    largest = jax.ops.segment_max(logits, target, targets, indices_are_sorted=True)
    weights = jnp.exp(jnp.where(real(rows)[:, None], logits - read(finite(largest), target), 0))
    applied = _applied(weights, keep)
    numerator = jnp.swapaxes(sum_weighted(rows, applied, keys), 0, 1)
    return largest, sum_edges(rows, weights), numerator, weights


def _back_natively(rows, given, weights, by_denominator, by_numerator):
    queries, keys = given[:2]
    targets, heads, width = queries.shape
    shapes = queries.shape, (-(-targets // BLOCK), heads, width), weights.shape
    results = [jax.ShapeDtypeStruct(shape, keys.dtype) for shape in shapes]
    arguments = *rows, *given, weights, by_denominator, by_numerator
    by_queries, by_vector, by_logits = kernels.attend_back(targets, *arguments, results=results)
    return by_queries, jnp.sum(by_vector, axis=0), by_logits


def _back_plainly(rows, given, weights, by_denominator, by_numerator):
    queries, keys, vector, keep, slope = given
    target, heads = row_of(rows), len(vector)
    values = [jnp.sum(read(by_numerator[h], target) * read(keys[:, h], rows.indices), axis=1) for h in range(heads)]
    change = weights * (_applied(jnp.stack(values, axis=1), keep) + read(by_denominator, target))
    change = jnp.where(real(rows)[:, None], change, 0)
    by_queries, by_vector = [], []
    for h in range(heads):
        met = _met(rows, queries, keys, h)
        by_queries.append(sum_edges(rows, change[:, h, None] * _slopes(met, slope) * vector[h][None]))
        by_vector.append(change[:, h] @ jnp.where(real(rows)[:, None], _bent(met, slope), 0))
    return jnp.stack(by_queries, axis=1), jnp.stack(by_vector), change


def _to_sources_natively(rows, edges, given, weights, by_logits, by_numerator):
    keys = given[1]
    arguments = *rows, edges, *given, weights, by_logits, by_numerator
    return kernels.to_sources(len(keys), *arguments, results=[jax.ShapeDtypeStruct(keys.shape, keys.dtype)])[0]


def _to_sources_plainly(rows, edges, given, weights, by_logits, by_numerator):
    queries, keys, vector, keep, slope = given
    applied, by_keys = read(_applied(weights, keep), edges), []
    change = jnp.where(real(rows)[:, None], read(by_logits, edges), 0)
    for h in range(len(vector)):
        met = _met(rows, keys, queries, h)
        by_keys.append(sum_edges(rows, change[:, h, None] * _slopes(met, slope) * vector[h][None]))
    return jnp.stack(by_keys, axis=1) + sum_weighted(rows, applied, jnp.swapaxes(by_numerator, 0, 1))


def _met(rows: Rows, x: jax.Array, y: jax.Array, head: int) -> jax.Array:
    """Return `x[row, head] + y[other end, head]` of every edge, `[edges, width]`."""
    return read(x[:, head], row_of(rows)) + read(y[:, head], rows.indices)


def _bent(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.where(x >= 0, x, slope * x)


def _slopes(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.where(x >= 0, jnp.ones_like(x), slope)


def _applied(weights: jax.Array, keep: jax.Array) -> jax.Array:
    """Return the weights after dropout."""
    return weights * keep if len(keep) else weights
