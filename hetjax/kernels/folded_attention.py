"""Attention of sources times matrices, with the matrices on the targets' side: the sources are aggregated without a product.

`(K u) . q = u . (K^T q)`, and the sum over u of `a V u` is `V` times the sum of `a u`. So a target has rows as wide as
the sources, one a head. A kernel makes these rows for a few targets at a time (folded_attention_kernels.py); the
cotangents of the sources read those of all targets.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from hetjax.kernels import attention, native
from hetjax.kernels import folded_attention_kernels as kernels
from hetjax.kernels.attention import Attended, attend, scores_first
from hetjax.kernels.heads import each_head, each_head_turned
from hetjax.kernels.native import BLOCK
from hetjax.kernels.products import PARTS, added
from hetjax.kernels.segment import by_source, by_target, sum_weighted
from hetjax.sampling.blocks import Adjacency, Edges

# Columns: where rows have a multiple of the first, their n-th numbers share few lines of a processor's cache; the second keeps them apart.
CONFLICT, SPACE = 512, 16


@functools.singledispatch
def attend_folded(
    adjacency: Edges,
    queries: jax.Array,
    offsets: jax.Array,
    sources: jax.Array,
    key: jax.Array,
    value: jax.Array,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    """Return `attention.attend` of keys and values that are the sources times matrices.

    Args:
      queries: `[T or 1, heads, d]`.
      offsets, slope, keep: as there.
      sources: `[S, width]`.
      key, value: `[width, heads, d]`.

    Returns:
      With a numerator `[T, heads, d]`.
    """
    sources, key, value, queries = (x.astype(offsets.dtype) for x in (sources, key, value, queries))
    if _fused(adjacency, sources, queries):
        keep = jnp.zeros((0, offsets.shape[1])) if keep is None else keep
        return _attend(slope, adjacency, queries, offsets, sources, key, value, keep.astype(offsets.dtype))
    attended = attend(adjacency, _widened(queries, key), offsets, sources[:, None], slope=slope, keep=keep)
    return attended._replace(numerator=_narrowed(attended.numerator, value))


def _fused(adjacency: Edges, sources: jax.Array, queries: jax.Array) -> bool:
    """Return whether the products and the attention between them are one operation, forward and backward.

    With a kernel they always are: it makes logits at every edge, also where scores of the sources are counted as
    cheaper, because with scores the rows of all targets would be stored and read again
    (docs/strategies/single_results.md, Parts of a step). Without one XLA makes these rows either way.
    """
    if type(adjacency) is not Adjacency:  # a class with a way of its own
        return False
    if native.taken():
        return True
    known = len(queries) == 1 and scores_first(adjacency, sources[:, None], queries.shape[1])
    return adjacency.reverse is None and not known


def _widened(x: jax.Array, matrices: jax.Array) -> jax.Array:
    """Return `x[i, h] @ matrices[:, h]^T`, `[rows, heads, width]`, of `[rows, heads, d]` and `[width, heads, d]`."""
    return each_head(x, jnp.transpose(matrices, (1, 2, 0)))


def _narrowed(x: jax.Array, matrices: jax.Array) -> jax.Array:
    """Return `x[i, h] @ matrices[:, h]`, `[rows, heads, d]`, of `[rows, heads, width]` and `[width, heads, d]`."""
    return each_head(x, jnp.swapaxes(matrices, 0, 1))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(slope, adjacency, queries, offsets, sources, key, value, keep) -> Attended:
    return _forward(slope, adjacency, queries, offsets, sources, key, value, keep)[0]


def _forward(slope, adjacency, queries, offsets, sources, key, value, keep):
    given = queries, sources, key, value, keep
    natively, plainly = _ways(slope)[:2]
    *sums, logits, weights, applied = native.choose(natively, plainly, by_target(adjacency), offsets, *given)
    return Attended(*sums), (adjacency, given, (logits, weights, applied))


def _backward(slope, residuals, gradient: Attended):
    """Return the cotangents of the inputs. None flows through `largest`. Those of the sources are computed only where they are used."""
    adjacency, given, edges = residuals
    queries, sources, key, value, _ = given
    natively, plainly = _ways(slope)[2:]
    back = native.choose(natively, plainly, by_target(adjacency), given, edges, gradient[1:])
    by_queries, by_offsets, by_key, by_value, by_logits = back
    _, weights, applied = edges
    weigh = applied if len(applied) else weights
    pairs = (by_logits, _widened(queries, key)), (weigh, _widened(gradient.numerator, value))
    by_sources = attention.to_sources(*by_source(adjacency, len(sources)), sources[:, None], *pairs)[:, 0]
    return None, by_queries, by_offsets, by_sources, by_key, by_value, None


_attend.defvjp(_forward, _backward)


@functools.cache
def _ways(slope: float) -> list[Callable]:
    """Return the forward and the backward function, by kernels and by operations of XLA. Each is one function, so that
    programs recognise it."""
    return [functools.partial(way, slope) for way in (_natively, _plainly, _back_natively, _back_plainly)]


def _natively(slope, rows, offsets, queries, sources, key, value, keep):
    (targets, heads), size = offsets.shape, value.shape[2]
    edges = len(rows.indices), heads
    shapes = [*3 * [(targets, heads)], (targets, heads, size), (0, heads) if slope == 1 else edges, edges, keep.shape]
    results = [jax.ShapeDtypeStruct(shape, sources.dtype) for shape in shapes]
    matrices = _spaced(jnp.transpose(key, (1, 2, 0))), jnp.swapaxes(value, 0, 1)
    given = *rows, queries, offsets, sources, *matrices, keep, jnp.asarray(slope, sources.dtype)
    return kernels.attend(targets, *given, results=results)


def _spaced(matrices: jax.Array) -> jax.Array:
    """Return the rows with zeros at their end if they have a multiple of `CONFLICT` columns."""
    return jnp.pad(matrices, ((0, 0), (0, 0), (0, SPACE if matrices.shape[2] % CONFLICT == 0 else 0)))


def _plainly(slope, rows, offsets, queries, sources, key, value, keep):
    ends, slant = (sources[:, None], sources[:, None]), jnp.asarray(slope, sources.dtype)
    found = attention.attend_plainly(rows, _widened(queries, key), offsets, *ends, keep, slant)
    *sums, numerator, logits, weights = found
    applied = weights * keep if len(keep) else keep
    return *sums, _narrowed(numerator, value), logits[:0] if slope == 1 else logits, weights, applied


def _back_natively(slope, rows, given, edges, gradient):
    queries, sources, key, value, keep = given
    (targets, heads, d), width = gradient[2].shape, sources.shape[1]
    parts = max(1, min(PARTS, targets // BLOCK))
    one = len(queries) != targets
    shapes = [(parts, heads, d) if one else queries.shape, (targets, heads)]
    matrices = jnp.swapaxes(key, 0, 1), _spaced(jnp.transpose(value, (1, 2, 0)))
    shapes += [*2 * [(parts, *matrices[1].shape)], edges[1].shape]
    results = [jax.ShapeDtypeStruct(shape, sources.dtype) for shape in shapes]
    arguments = *rows, queries, sources, *matrices, keep, jnp.asarray(slope, sources.dtype), *edges, *gradient
    found = kernels.attend_back(parts * BLOCK, *arguments, results=results)
    by_queries, by_offsets, *by_matrices, by_logits = found
    by_key, by_value = (jnp.transpose(added(sums)[..., :width], (2, 0, 1)) for sums in by_matrices)
    return added(by_queries)[None] if one else by_queries, by_offsets, by_key, by_value, by_logits


def _back_plainly(slope, rows, given, edges, gradient):
    queries, sources, key, value, keep = given
    logits, weights, applied = edges
    denominator, kept, numerator = gradient
    about = keep, jnp.asarray(slope, sources.dtype), logits if len(logits) else weights, weights
    ends, wide = (sources[:, None], sources[:, None]), (denominator, kept, _widened(numerator, value))
    by_asked, by_offsets, by_logits = attention.back_plainly(rows, _widened(queries, key), *ends, about, wide)
    weigh = applied if len(applied) else weights
    sums = sum_weighted(rows, weigh, sources[:, None])
    by_matrices = (jnp.moveaxis(each_head_turned(*pair), 1, 0) for pair in ((by_asked, queries), (sums, numerator)))
    return _narrowed(by_asked, key), by_offsets, *by_matrices, by_logits
