"""Attention of sources times matrices, with the matrices on the targets' side: the sources are folded as they are.

`(K u) . q = u . (K^T q)`, and the sum over u of `a V u` is `V` times the sum of `a u`. So a target has rows as wide as the sources, one a
head. Where no gradient flows to the sources, a kernel makes these rows for a few targets at a time (folded_attention_kernels.py).
"""

import jax
import jax.numpy as jnp

from hetjax import native
from hetjax.models import attention
from hetjax.models import folded_attention_kernels as kernels
from hetjax.models.attention import Attended, attend
from hetjax.models.products import PARTS, added, product, turned_product
from hetjax.models.segment import by_source, by_target
from hetjax.native import BLOCK
from hetjax.sampling.blocks import Adjacency, Edges


def attend_folded(
    adjacency: Edges,
    queries: jax.Array,
    offsets: jax.Array,
    sources: jax.Array,
    key: jax.Array,
    value: jax.Array,
    keep: jax.Array | None = None,
) -> Attended:
    """As `attention.attend` of keys and values that are the sources times matrices.

    Args:
      queries: `[T, heads, d]`.
      offsets, keep: as there.
      sources: `[S, width]`.
      key, value: `[width, heads, d]`.

    Returns:
      With a numerator `[T, heads, d]`.
    """
    sources, key, value, queries = (x.astype(offsets.dtype) for x in (sources, key, value, queries))
    if isinstance(adjacency, Adjacency) and adjacency.reverse is None:
        keep = jnp.zeros((0, offsets.shape[1])) if keep is None else keep
        return _attend(adjacency, queries, offsets, sources, key, value, keep.astype(offsets.dtype))
    attended = attend(adjacency, _widened(queries, key), offsets, sources[:, None], keep=keep)
    return attended._replace(numerator=_narrowed(attended.numerator, value))


def _widened(x: jax.Array, matrices: jax.Array) -> jax.Array:
    """`x[i, h] @ matrices[:, h]^T`, `[rows, heads, width]`, of `[rows, heads, d]` and `[width, heads, d]`."""
    return jnp.swapaxes(product(jnp.swapaxes(x, 0, 1), jnp.transpose(matrices, (1, 2, 0))), 0, 1)


def _narrowed(x: jax.Array, matrices: jax.Array) -> jax.Array:
    """`x[i, h] @ matrices[:, h]`, `[rows, heads, d]`, of `[rows, heads, width]` and `[width, heads, d]`."""
    return jnp.swapaxes(product(jnp.swapaxes(x, 0, 1), jnp.swapaxes(matrices, 0, 1)), 0, 1)


def _summed(x: jax.Array, y: jax.Array) -> jax.Array:
    """`x[:, h]^T @ y[:, h]`, `[width, heads, d]`, of `[rows, heads, width]` and `[rows, heads, d]`."""
    return jnp.swapaxes(turned_product(*(jnp.swapaxes(z, 0, 1) for z in (x, y))), 0, 1)


@jax.custom_vjp
def _attend(adjacency, queries, offsets, sources, key, value, keep) -> Attended:
    return _forward(adjacency, queries, offsets, sources, key, value, keep)[0]


def _forward(adjacency, queries, offsets, sources, key, value, keep):
    given = queries, sources, key, value, keep
    *sums, weights, applied = native.choose(_natively, _plainly, by_target(adjacency), offsets, *given)
    return Attended(*sums), (adjacency, given, weights, applied)


def _backward(residuals, gradient: Attended):
    """Nothing comes back through `largest`. What comes back to the sources is computed where it is asked for."""
    adjacency, given, weights, applied = residuals
    queries, sources, key, value, _ = given
    back = native.choose(_back_natively, _back_plainly, by_target(adjacency), given, weights, applied, gradient[1:])
    by_queries, by_offsets, by_key, by_value, by_logits = back
    pairs = (
        (by_logits, _widened(queries, key)),
        (applied if len(applied) else weights, _widened(gradient.numerator, value)),
    )
    by_sources = attention.to_sources(*by_source(adjacency, len(sources)), sources[:, None], *pairs)[:, 0]
    return None, by_queries, by_offsets, by_sources, by_key, by_value, None


_attend.defvjp(_forward, _backward)


def _natively(rows, offsets, queries, sources, key, value, keep):
    targets, heads, _ = queries.shape
    shapes = [*3 * [(targets, heads)], queries.shape, (len(rows.indices), heads), keep.shape]
    results = [jax.ShapeDtypeStruct(shape, sources.dtype) for shape in shapes]
    matrices = jnp.transpose(key, (1, 2, 0)), jnp.swapaxes(value, 0, 1)
    return kernels.attend(targets, *rows, queries, offsets, sources, *matrices, keep, results=results)


def _plainly(rows, offsets, queries, sources, key, value, keep):
    one = jnp.ones((), sources.dtype)
    ends = sources[:, None], sources[:, None]
    *sums, numerator, _, weights = attention.attend_plainly(rows, _widened(queries, key), offsets, *ends, keep, one)
    return *sums, _narrowed(numerator, value), weights, weights * keep if len(keep) else keep


def _back_natively(rows, given, weights, applied, gradient):
    queries, sources, key, value, keep = given
    (targets, heads, d), width = queries.shape, sources.shape[1]
    parts = max(1, min(PARTS, targets // BLOCK))
    shapes = [queries.shape, (targets, heads), *2 * [(parts, heads, d, width)], weights.shape]
    results = [jax.ShapeDtypeStruct(shape, sources.dtype) for shape in shapes]
    matrices = jnp.swapaxes(key, 0, 1), jnp.transpose(value, (1, 2, 0))
    arguments = *rows, queries, sources, *matrices, keep, weights, applied, *gradient
    by_queries, by_offsets, *by_matrices, by_logits = kernels.attend_back(parts * BLOCK, *arguments, results=results)
    by_key, by_value = (jnp.transpose(added(sums), (2, 0, 1)) for sums in by_matrices)
    return by_queries, by_offsets, by_key, by_value, by_logits


def _back_plainly(rows, given, weights, applied, gradient):
    queries, sources, key, value, keep = given
    denominator, kept, numerator = gradient
    edges, ends = (keep, jnp.ones((), sources.dtype), weights, weights), (sources[:, None], sources[:, None])
    wide = _widened(numerator, value)
    by_asked, by_offsets, by_logits = attention.back_plainly(
        rows, _widened(queries, key), *ends, edges, (denominator, kept, wide)
    )
    sums = jnp.stack(attention.sums_of_heads(rows, applied if len(applied) else weights, sources[:, None]), axis=1)
    return _narrowed(by_asked, key), by_offsets, _summed(by_asked, queries), _summed(sums, numerator), by_logits
