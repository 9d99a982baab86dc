"""Partial aggregations: elements of a commutative monoid.

The contribution of a relation to a node is a partial aggregate. Partial aggregates combine in any order, over
relations, partitions, devices and hosts, and only the combined aggregate is finished into an embedding; so the place
where a relation is aggregated is free to choose.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hetjax.kernels.once import once


class Monoid(NamedTuple):
    """A cross-relation aggregation: how the partial aggregates of one node combine, and what their total is.

    Attributes:
      lift: from what a relation gives, `[nodes, features]`, to a partial aggregate, a pytree of arrays `[nodes, ...]`.
      combine: a commutative and associative function of two partial aggregates.
      total: from the combined partial aggregate to `[nodes, features]`.
      join: how several combine at once, where that is cheaper than one after the other.
    """

    lift: Callable[[jax.Array], Any]
    combine: Callable[[Any, Any], Any]
    total: Callable[[Any], jax.Array]
    join: "Callable[[Sequence[Any]], Any] | None" = None

    def combined(self, parts: Sequence[Any]) -> Any:
        """Return the combined aggregate of all parts; there is at least one."""
        if len(parts) > 1 and self.join:
            return self.join(parts)
        return functools.reduce(self.combine, parts)


class Weighted(NamedTuple):
    """The partial aggregate of a mean: `value / weight` once it is total.

    Attributes:
      value: `[nodes, features]`, the sum.
      weight: `[nodes, 1]`, how many were summed.
    """

    value: jax.Array
    weight: jax.Array


class Attention(NamedTuple):
    """The partial aggregate of a softmax over edges, `numerator / denominator` once it is total.

    Both hold the factor `exp(-largest)`, so logits of any size overflow nowhere. `largest` is a shift that cancels in the
    quotient: no gradient flows through it.

    Attributes:
      largest: `[nodes, heads]`, the largest logit so far; minus infinity without an edge.
      denominator: `[nodes, heads]`, the sum over edges of `exp(logit - largest)`.
      numerator: `[nodes, heads, width]`, the sum over edges of that times the edge's value.
    """

    largest: jax.Array
    denominator: jax.Array
    numerator: jax.Array


def add_weighted(one: Weighted, other: Weighted) -> Weighted:
    """Return the mean over the summands of both."""
    return Weighted(*map(operator.add, one, other))


def merge(one: Attention, other: Attention) -> Attention:
    """Return the attention over the edges of both."""
    return merge_all([one, other])


def merge_all(parts: Sequence[Attention]) -> Attention:
    """Return the attention over the edges of all: each part is rescaled to the largest of the shifts, and then they are added."""
    own = jax.lax.stop_gradient(jnp.stack([part.largest for part in parts]))
    largest = once(jnp.max(own, axis=0))
    factors = once(jnp.exp(own - finite(largest)[None]))
    scales = [jax.lax.index_in_dim(factors, number, keepdims=False) for number in range(len(parts))]
    denominator = sum(scale * part.denominator for scale, part in zip(scales, parts))
    numerator = sum(scale[..., None] * part.numerator for scale, part in zip(scales, parts))
    return Attention(largest, once(denominator), once(numerator))


def attended(partial: Attention) -> jax.Array:
    """Return the weighted means, `[nodes, heads * width]`: zeros for a node without edges."""
    has_edges = partial.denominator > 0
    mean = partial.numerator / jnp.where(has_edges, partial.denominator, 1)[..., None]
    return jax.lax.collapse(jnp.where(has_edges[..., None], mean, 0), 1)


def finite(largest: jax.Array) -> jax.Array:
    """Return the shift to subtract from logits: zero where there is no largest one."""
    return jnp.where(largest > -jnp.inf, largest, 0)


def unattended(nodes: int, heads: int, width: int, dtype: DTypeLike) -> Attention:
    """Return the attention over no edges."""
    numbers = jnp.zeros((nodes, heads), dtype)
    return Attention(numbers - jnp.inf, numbers, jnp.zeros((nodes, heads, width), dtype))


def neutral(partial: Any) -> Any:
    """Return the neutral element of a sum, a mean or a softmax: it combines with any partial aggregate of the same
    shapes without changing it."""
    zeros = jax.tree.map(jnp.zeros_like, partial)
    return zeros._replace(largest=zeros.largest - jnp.inf) if isinstance(partial, Attention) else zeros


def _same(value):
    return value


def _counted(value: jax.Array) -> Weighted:
    return Weighted(value, jnp.ones((len(value), 1), value.dtype))


SUM = Monoid(_same, operator.add, _same)
MEAN = Monoid(_counted, add_weighted, lambda sum: sum.value / sum.weight)
MAX = Monoid(_same, jnp.maximum, _same)
SOFTMAX = Monoid(_same, merge, attended, merge_all)
"""Over all in-edges of all relations; what a relation gives is an `Attention` already."""


def is_softmax(monoid: Monoid | None) -> bool:
    """Return whether a monoid merges softmaxes over edges, whatever `total` does with the result."""
    return monoid is not None and monoid.combine is merge


NAMED = {"sum": SUM, "mean": MEAN, "max": MAX, "softmax": SOFTMAX}
