"""Activations whose gradient is computed from what is kept, so that XLA's CPU backend makes nothing twice.

`jax.nn` has the same functions. But what they are taken of is a sum over all relations into a node type, and XLA makes that anew for
the value, for its exponential, and again on the way back: see `models.once`.
"""

import math

import jax
import jax.numpy as jnp

from hetjax.models.once import once


@jax.custom_vjp
def relu(x: jax.Array) -> jax.Array:
    """`max(x, 0)` of floats of any shape; its gradient at 0 is 0."""
    return once(jnp.maximum(x, 0))


def _relu_there(x):
    y = relu(x)
    return y, y


relu.defvjp(_relu_there, lambda y, gradient: (once(jnp.where(y > 0, gradient, 0)),))


@jax.custom_vjp
def elu(x: jax.Array) -> jax.Array:
    """`x` above 0 and `exp(x) - 1` below it, of floats of any shape. Its gradient is computed as `y + 1` there, of the value `y`."""
    return once(jnp.where(x > 0, x, jnp.expm1(jnp.minimum(x, 0))))


def _elu_there(x):
    y = elu(x)
    return y, y


elu.defvjp(_elu_there, lambda y, gradient: (once(jnp.where(y > 0, gradient, gradient * (y + 1))),))


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """`x Phi(x)` of floats of any shape, Phi being the normal distribution's: as PyTorch, by the error function.

    So the error is some units in the last place of `x`, as that of the sums which `x` is; not of the value, where `x` is far below 0.
    """
    return _gelu_there(x)[0]


def _gelu_there(x):
    x = once(x)
    return once(x * _normal(x)), x


def _gelu_back(x, gradient):
    density = jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return (once(gradient * (_normal(x) + x * density)),)


def _normal(x):
    return 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))


gelu.defvjp(_gelu_there, _gelu_back)
