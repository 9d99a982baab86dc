"""Losses of numbers: of each entry of a matrix alone, by names; they know no nodes and no edges."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.system.arrays import Array

LOSSES = ("mse", "mae", "huber", "log_cosh", "quantile")


def losses(
    name: str, outputs: jax.Array, values: Array, quantiles: Sequence[float] = (), delta: float = 1.0
) -> jax.Array:
    """Return the loss of every entry, `[n, numbers]`.

    `mse`: the squared error; `mae`: its absolute value; `huber`: half the square up to `delta`, and linear beyond (Huber 1964);
    `log_cosh`: `log(cosh(error))`; `quantile`: the mean over the quantiles of the pinball loss (Koenker and Bassett 1978).

    Args:
      name: one of `LOSSES`.
      outputs: `[n, numbers]`; of quantiles `[n, numbers * quantiles]`, those of a number beside each other.
      values: `[n, numbers]`.
      quantiles: the levels, of `quantile` alone.
      delta: of `huber`, in the unit of the outputs.
    """
    if name == "quantile":
        levels = jnp.asarray(quantiles, outputs.dtype)
        error = values[:, :, None] - outputs.reshape(*values.shape, len(quantiles))
        return jnp.mean(jnp.maximum(levels[None, None] * error, (levels[None, None] - 1) * error), axis=2)
    error = outputs - values
    size = jnp.abs(error)
    if name == "mse":
        return jnp.square(error)
    if name == "mae":
        return size
    if name == "huber":
        inside = jnp.minimum(size, delta)
        return inside * (size - inside / 2)
    return size + jnp.log1p(jnp.exp(-2 * size)) - np.log(2).astype(outputs.dtype)


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
