"""Attention on divided columns: every device has some of the heads, or some of the columns of every head.

Where the devices divide the heads evenly, logits and softmax need nobody else. Otherwise each takes its columns' part of every
logit, and these are summed over the devices: two all-reduces of an element per edge and head (forward, and their gradients).
"""

import jax
import jax.numpy as jnp

from hetjax.kernels.additive import attend_additively
from hetjax.kernels.attention import Attended, attend
from hetjax.kernels.logits import additive_logits, dot_logits, weigh
from hetjax.kernels.partials import Attention
from hetjax.kernels.segment import by_target, row_of
from hetjax.kernels.tables import read
from hetjax.sampling.blocks import Adjacency
from hetjax.sharding.columns import LOGITS, own_slice, summed
from hetjax.sharding.tensor.folds import Asked, Divided, Folded


@attend.register
def _(
    adjacency: Divided,
    queries: jax.Array,
    offsets: jax.Array,
    keys: jax.Array,
    values: jax.Array | None = None,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    heads, dtype = offsets.shape[1], offsets.dtype
    queries, keys = queries.astype(dtype), keys.astype(dtype)
    values = None if values is None else values.astype(dtype)
    whole = keys.shape[1] == heads and (values is None or values.shape[1] == heads)
    by = _by_heads if whole and heads % adjacency.parts == 0 else _by_columns
    return by(adjacency, queries, offsets, keys, values, slope, keep)


def _by_heads(adjacency, queries, offsets, keys, values, slope, keep) -> Attended:
    parts, (_, heads, size) = adjacency.parts, keys.shape
    sources = keys if values is None else jnp.concatenate([keys, values], axis=2)
    asked, one = offsets[..., None], _alike(queries, offsets)
    if not one:
        asked = jnp.concatenate([asked, queries], axis=2)

    def fold(edges: Adjacency, given: Asked) -> Folded:
        (sources,), (asked,) = given.sources, given.targets
        own = own_slice(parts, queries, 1) if one else asked[..., 1:]
        of_values = None if values is None else sources[..., size:]
        mask = None if keep is None else own_slice(parts, keep, 1)
        found = attend(edges, own, asked[..., 0], sources[..., :size], of_values, slope, mask)
        sums = [found.largest, found.denominator, *([] if keep is None else [found.kept])]
        return Folded([jnp.concatenate([*(x[..., None] for x in sums), found.numerator], axis=2)])

    (rows,) = adjacency.folded(Asked([sources], [asked]), fold, [heads]).columns
    largest, denominator = rows[..., 0], rows[..., 1]
    kept, count = (denominator, 2) if keep is None else (rows[..., 2], 3)
    return Attended(largest, denominator, kept, rows[..., count:])


def _alike(queries: jax.Array, offsets: jax.Array) -> bool:
    """Return whether all targets have the same queries. A device's only target has its own queries, which differ from other devices'."""
    return len(queries) == 1 != len(offsets)


def _by_columns(adjacency, queries, offsets, keys, values, slope, keep) -> Attended:
    parts, one = adjacency.parts, _alike(queries, offsets)
    asked = [] if one else [_across(queries)]
    sources = [_across(keys)] if values is None else [_across(keys), _across(values)]

    def fold(edges: Adjacency, given: Asked) -> Folded:
        keys, values = _across(given.sources[0]), _across(given.sources[-1])
        if one:  # a source's part is the same in all of its edges
            part = jnp.sum(keys * own_slice(parts, queries, 2), axis=2)
            logits = read(summed(LOGITS, part), edges.indices)
        else:
            logits = summed(LOGITS, dot_logits(edges, _across(given.targets[0]), keys))
        logits = logits + read(given.whole[0], row_of(by_target(edges)))
        return _weighed(edges, jnp.where(logits < 0, slope * logits, logits), values, keep)

    width = (keys if values is None else values).shape[2]
    found = adjacency.folded(Asked(sources, asked, [offsets]), fold, [width])
    largest, denominator, kept = found.alike
    return Attended(largest, denominator, kept, _across(found.columns[0]))


def _weighed(edges: Adjacency, logits: jax.Array, values: jax.Array, keep: jax.Array | None) -> Folded:
    """Return the weighted columns and the sums of the weights, from all edges' logits and this device's columns of the values."""
    *sums, numerator = weigh(edges, logits, values, keep)
    return Folded([_across(numerator)], sums)


def _across(x: jax.Array) -> jax.Array:
    """Return `[rows, columns, heads]`, in which the columns of every head are divided, from `[rows, heads, columns]`; or the inverse."""
    return jnp.swapaxes(x, 1, 2)


@attend_additively.register
def _(
    adjacency: Divided,
    queries: jax.Array,
    keys: jax.Array,
    vector: jax.Array,
    slope: float,
    keep: jax.Array | None = None,
) -> Attention:
    parts, (heads, width) = adjacency.parts, vector.shape
    queries, vector = queries.astype(keys.dtype), vector.astype(keys.dtype)

    def by_heads(edges: Adjacency, given: Asked) -> Folded:
        mask, own = None if keep is None else own_slice(parts, keep, 1), own_slice(parts, vector, 0)
        found = attend_additively(edges, given.targets[0], given.sources[0], own, slope, mask)
        packed = [found.largest[..., None], found.denominator[..., None], found.numerator]
        return Folded([jnp.concatenate(packed, axis=2)])

    def by_columns(edges: Adjacency, given: Asked) -> Folded:
        sources, asked = _across(given.sources[0]), _across(given.targets[0])
        part = additive_logits(edges, asked, sources, own_slice(parts, vector, 1), slope)
        return _weighed(edges, summed(LOGITS, part), sources, keep)

    if heads % parts == 0:
        (rows,) = adjacency.folded(Asked([keys], [queries]), by_heads, [heads]).columns
        return Attention(rows[..., 0], rows[..., 1], rows[..., 2:])
    found = adjacency.folded(Asked([_across(keys)], [_across(queries)]), by_columns, [width])
    return Attention(found.alike[0], found.alike[1], _across(found.columns[0]))
