"""Attention on divided columns: every device has some of the heads, or of every head some of the columns.

Where the devices divide the heads evenly, logits and softmax need nobody else. Otherwise each takes its columns' part of every
logit, and these are summed over the devices: two all-reduces of a number per edge and head (there, and their gradients).
"""

import jax
import jax.numpy as jnp

from hetjax.cache.tables import read
from hetjax.models.additive import attend_additively
from hetjax.models.attention import Attended, attend
from hetjax.models.logits import additive_logits, dot_logits, weigh
from hetjax.models.partials import Attention
from hetjax.models.segment import by_target, row_of
from hetjax.sharding.tensor.columns import all_rows, own_slice, summed, to_columns, to_rows
from hetjax.sharding.tensor.folds import Divided

LOGITS = "attention_logits"  # a kind of traffic


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
    asked = offsets[..., None]
    if queries.shape[1] > 1:
        asked = jnp.concatenate([asked, jnp.swapaxes(queries, 0, 1)], axis=2)
    sources, asked = to_columns(parts, [sources, asked])
    own = own_slice(parts, queries, 0) if queries.shape[1] == 1 else jnp.swapaxes(asked[..., 1:], 0, 1)
    of_values = None if values is None else sources[..., size:]
    mask = None if keep is None else own_slice(parts, keep, 1)
    found = attend(adjacency.adjacency, own, asked[..., 0], sources[..., :size], of_values, slope, mask)
    sums = [found.largest, found.denominator, *([] if keep is None else [found.kept])]
    packed = jnp.concatenate([*(x[..., None] for x in sums), jnp.swapaxes(found.numerator, 0, 1)], axis=2)
    (rows,) = to_rows(parts, [packed], [heads])
    largest, denominator = rows[..., 0], rows[..., 1]
    kept = denominator if keep is None else rows[..., 2]
    return Attended(largest, denominator, kept, jnp.swapaxes(rows[..., len(sums) :], 0, 1))


def _by_columns(adjacency, queries, offsets, keys, values, slope, keep) -> Attended:
    sources = _columns(adjacency.parts, keys)
    if queries.shape[1] == 1:  # a source's part is the same in all of its edges
        asked = own_slice(adjacency.parts, queries, 2)[:, 0]
        part = summed(LOGITS, jnp.sum(sources * asked[None], axis=2))
        logits = read(part, adjacency.adjacency.indices)
    else:
        asked = jnp.swapaxes(_columns(adjacency.parts, jnp.swapaxes(queries, 0, 1)), 0, 1)
        logits = summed(LOGITS, dot_logits(adjacency.adjacency, asked, sources))
    logits = logits + read(all_rows(LOGITS, offsets), row_of(by_target(adjacency.adjacency)))
    logits = jnp.where(logits < 0, slope * logits, logits)
    weighed = sources if values is None else _columns(adjacency.parts, values)
    return _weighed(adjacency, logits, weighed, (keys if values is None else values).shape[2], keep)


def _weighed(adjacency: Divided, logits: jax.Array, values: jax.Array, width: int, keep: jax.Array | None) -> Attended:
    """Of all edges' logits and this device's columns of the values; `width` is theirs in all."""
    *sums, numerator = weigh(adjacency.adjacency, logits, values, keep)
    (rows,) = to_rows(adjacency.parts, [jnp.transpose(numerator, (1, 2, 0))], [width])
    largest, denominator, kept = (own_slice(adjacency.parts, x, 0) for x in sums)
    return Attended(largest, denominator, kept, jnp.transpose(rows, (2, 0, 1)))


def _columns(parts: int, x: jax.Array) -> jax.Array:
    """This device's columns of every head of all nodes, `[parts * rows, heads, slice]`, from `[rows, heads, columns]`."""
    (found,) = to_columns(parts, [jnp.swapaxes(x, 1, 2)])
    return jnp.swapaxes(found, 1, 2)


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
    if heads % parts == 0:
        sources, asked = to_columns(parts, [keys, queries])
        mask = None if keep is None else own_slice(parts, keep, 1)
        found = attend_additively(adjacency.adjacency, asked, sources, own_slice(parts, vector, 0), slope, mask)
        packed = jnp.concatenate([found.largest[..., None], found.denominator[..., None], found.numerator], axis=2)
        (rows,) = to_rows(parts, [packed], [heads])
        return Attention(rows[..., 0], rows[..., 1], rows[..., 2:])
    sources, asked = _columns(parts, keys), _columns(parts, queries)
    part = additive_logits(adjacency.adjacency, asked, sources, own_slice(parts, vector, 1), slope)
    largest, denominator, _, numerator = _weighed(adjacency, summed(LOGITS, part), sources, width, keep)
    return Attention(largest, denominator, jnp.swapaxes(numerator, 0, 1))
