"""Activations are those of `jax.nn`, and read what they are taken of once."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels import native
from hetjax.kernels.native import platforms
from hetjax.models import activations

THEIRS = {"relu": jax.nn.relu, "elu": jax.nn.elu, "gelu": lambda x: jax.nn.gelu(x, approximate=False)}


def run(function, x):
    """Values and gradients."""

    def loss(x):
        y = function(x)
        return jnp.sum(y * (1 + jnp.arange(len(x)) % 7)), y

    return jax.jit(jax.grad(loss, has_aux=True))(x)


@pytest.mark.parametrize("by_kernels", [True, False])
@pytest.mark.parametrize("name", THEIRS)
def test_values_and_gradients_are_those_of_jax(monkeypatch, name, by_kernels):
    if not by_kernels:
        monkeypatch.setattr(platforms, "ffi_version", lambda: None)
        jax.clear_caches()
    numbers = np.concatenate([[0.0, -0.0, -1e-6, 1e-6, -40.0, 40.0], 4 * np.random.default_rng(0).normal(size=2000)])
    for double, tolerance in ((True, 1e-12), (False, 2e-6)):
        with jax.enable_x64(double):
            x = jnp.asarray(numbers, np.float64 if double else np.float32)
            for own, other in zip(run(getattr(activations, name), x), run(THEIRS[name], x)):
                assert own.dtype == x.dtype
                error = np.abs(np.asarray(own) - np.asarray(other))
                np.testing.assert_array_less(error, tolerance * np.maximum(1, np.abs(numbers)))


@pytest.mark.parametrize("name", THEIRS)
def test_what_is_no_number_stays_so(name):
    y = getattr(activations, name)(jnp.asarray([np.nan, np.inf]))
    assert np.isnan(y[0]) and np.isposinf(y[1])


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.skipif(not native.taken(), reason="of XLA's CPU backend, with kernels")
def test_a_sum_is_made_once(name):
    """Of the summands there and back: XLA would make the sum anew for the value, for its exponential, and for the gradient."""
    given = [jnp.ones((512, 64))] * 3

    def loss(one, two, three):
        y = getattr(activations, name)(one + two + three[:1])  # two relations and a bias
        return jnp.sum(y @ jnp.ones((64, 64)) * y)  # which reads the value twice

    program = jax.jit(jax.grad(loss)).lower(*given).compile().as_text()
    entry = program[program.index("ENTRY") :]
    parameter = re.search(r"%(\S+) = \S+ parameter\(1\)", entry)
    assert parameter
    assert len(re.findall(rf"%{re.escape(parameter[1])}\b(?= *[,)])", entry)) == 1
