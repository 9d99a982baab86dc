"""Losses of numbers: of each entry of a matrix alone, by names; they know no nodes and no edges."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.system.arrays import Array

LOSSES = ("mse", "mae", "huber", "log_cosh", "quantile")


def losses(name: str, outputs: Array, values: Array, quantiles: Sequence[float] = (), delta: float = 1.0) -> Array:
    """Return the loss of every entry, `[n, numbers]`.

    `mse`: the squared error; `mae`: its absolute value; `huber`: half the square up to `delta`, and linear beyond (Huber 1964);
    `log_cosh`: `log(cosh(error))`; `quantile`: the mean over the quantiles of the pinball loss (Koenker and Bassett 1978).

    Args:
      name: one of `LOSSES`.
      outputs: `[n, numbers]`; of quantiles `[n, numbers * quantiles]`, those of a number beside each other.
      values: `[n, numbers]`.
      quantiles: the levels, of `quantile` alone.
      delta: of `huber`, in the unit of the outputs.

    Returns:
      Of the library of the outputs, numpy or jax.
    """
    xp: Any = jnp if isinstance(outputs, jax.Array) else np
    if name == "quantile":
        levels = xp.asarray(quantiles, outputs.dtype)[None, None]
        error = values[:, :, None] - outputs.reshape(*values.shape, len(quantiles))
        return xp.mean(xp.maximum(levels * error, (levels - 1) * error), axis=2)
    error = outputs - values
    size = xp.abs(error)
    if name == "mse":
        return xp.square(error)
    if name == "mae":
        return size
    if name == "huber":
        inside = xp.minimum(size, delta)
        return inside * (size - inside / 2)
    return size + xp.log1p(xp.exp(-2 * size)) - math.log(2)


def total(
    name: str, outputs: jax.Array, values: Array, weights: Array, quantiles: Sequence[float] = (), delta: float = 1.0
) -> jax.Array:
    """Return the sum of the weighted losses, a scalar; an entry whose weight is 0 adds 0, whatever its value.

    Args:
      name, outputs, values, quantiles, delta: as of `losses`.
      weights: `[n, numbers]`, none below 0.
    """
    found = losses(name, outputs, values, quantiles, delta)
    return jnp.sum(jnp.where(weights > 0, weights * found, 0))
