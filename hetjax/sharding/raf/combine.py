"""The combination of partial aggregates over a mesh axis, for use inside `shard_map`.

Everything after the combination is computed alike on every device of the axis, so its gradient is known alike too, and
flows back to each device's own partial aggregate without another communication. Differentiate inside the mapped function.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.kernels.partials import Attention, Monoid, add_weighted, finite, merge


def combine(monoid: Monoid, partial: Any, axis: str, places: Sequence[int]) -> Any:
    """Return the combined aggregate of the partial aggregates of the devices of a mesh axis, alike on each.

    Those of devices that are not among `places` are neutral elements, where the monoid has one that is known.

    Sums and means are one `psum`, a softmax over edges a `pmax` and a `psum` of sums that are rescaled to the common maximum.
    Any other monoid gathers the partial aggregates and aggregates them; where a combination has no single gradient (a maximum that
    several attain), the gradient of each may depend on how the relations are divided.
    """
    return COLLECTIVES.get(monoid.combine, functools.partial(_fold, monoid, places))(partial, axis)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def total(values: Any, axis: str) -> Any:
    """Return the sum over the axis, of which every device is given the gradient whole."""
    return jax.lax.psum(values, axis)


total.defvjp(lambda values, axis: (total(values, axis), None), lambda axis, _, gradient: (gradient,))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def gathered(values: Any, axis: str) -> Any:
    """Return the values of all devices of the axis, stacked, of which every device is given the gradient whole."""
    return jax.lax.all_gather(values, axis)


def _own(axis: str, _: None, gradient: Any) -> tuple[Any]:
    return (jax.tree.map(lambda leaf: leaf[jax.lax.axis_index(axis)], gradient),)


gathered.defvjp(lambda values, axis: (gathered(values, axis), None), _own)


def _merge(partial: Attention, axis: str) -> Attention:
    largest = jax.lax.pmax(jax.lax.stop_gradient(partial.largest), axis)
    scale = jnp.exp(jax.lax.stop_gradient(partial.largest) - finite(largest))
    return Attention(largest, *total((scale * partial.denominator, scale[..., None] * partial.numerator), axis))


def _fold(monoid: Monoid, places: Sequence[int], partial: Any, axis: str) -> Any:
    every = gathered(partial, axis)
    return monoid.combined([jax.tree.map(lambda leaf: leaf[place], every) for place in places])


COLLECTIVES: dict[Callable[..., Any], Callable[[Any, str], Any]] = {
    operator.add: total,
    add_weighted: total,
    merge: _merge,
}
