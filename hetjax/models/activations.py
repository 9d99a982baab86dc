"""Activations whose gradients are computed from the value, or from one copy of the input.

The functions are those of `jax.nn`. But their input is a sum over all relations into a node type, which XLA's CPU backend would compute anew for the
value, for its exponential, and in the backward pass (`kernels.once`).
"""

import math

import jax
import jax.numpy as jnp

from hetjax.kernels.once import once


@jax.custom_vjp
def relu(x: jax.Array) -> jax.Array:
    """Return `max(x, 0)` of floats of any shape; its gradient at 0 is 0."""
    return once(jax.nn.relu(x))


def _relu_forward(x):
    y = relu(x)
    return y, y


relu.defvjp(_relu_forward, lambda y, gradient: (once(jnp.where(y > 0, gradient, 0)),))


@jax.custom_vjp
def elu(x: jax.Array) -> jax.Array:
    """Return `x` above 0 and `exp(x) - 1` below it, of floats of any shape. Below 0 its gradient is computed as `y +
    1`, `y` being the value."""
    return once(jax.nn.elu(x))


def _elu_forward(x):
    y = elu(x)
    return y, y


elu.defvjp(_elu_forward, lambda y, gradient: (once(jnp.where(y > 0, gradient, gradient * (y + 1))),))


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """Return `x Phi(x)` of floats of any shape, Phi being the normal distribution function: computed by the error function, as in PyTorch.

    The error is some units in the last place of `x`; where `x` is far below 0 that is large beside the value.
    """
    return _gelu_forward(x)[0]


def _gelu_forward(x):
    x = once(x)
    return once(x * _normal(x)), x


def _gelu_backward(x, gradient):
    density = jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return (once(gradient * (_normal(x) + x * density)),)


def _normal(x):
    return 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))


gelu.defvjp(_gelu_forward, _gelu_backward)
