"""AdamW in one pass over memory equals optax's, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hetjax.adamw import AdamW
from hetjax.native import platforms

SHAPES = {"matrix": (70, 33), "head": (3, 20, 5), "gate": (), "bias": (129,), "empty": (0, 4), "last": (1,)}


def trees(number, dtype):
    """Trees of random numbers, some of them 0."""
    rng = np.random.default_rng(number)
    drawn = {name: rng.standard_normal(shape) * (rng.random(shape) < 0.8) for name, shape in SHAPES.items()}
    return {name: jnp.asarray(leaf, dtype) for name, leaf in drawn.items()}


def trained(step, state, dtype, steps):
    params = trees(0, dtype)
    for number in range(1, steps + 1):
        params, state = step(trees(number, dtype), state, params)
    return params, state


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("rate", [0.02, optax.cosine_decay_schedule(0.02, 5)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_every_step_equals_optax(rate, decay, dtype, tolerance):
    plain = optax.flatten(optax.adamw(rate, weight_decay=decay))

    @jax.jit
    def by_optax(gradients, state, params):
        updates, state = plain.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    with jax.enable_x64(dtype is np.float64):
        adamw, params = AdamW(rate, decay), trees(0, dtype)
        chosen = trained(jax.jit(adamw.step), adamw.init(params), dtype, 7)
        expected = trained(by_optax, plain.init(params), dtype, 7)
    assert jax.tree.structure(chosen) == jax.tree.structure(expected)
    for found, wanted in zip(*map(jax.tree.leaves, (chosen, expected))):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_weights_are_moved_where_they_lie():
    """A state that is given away is not copied: a step takes the gradients' memory, and little more."""
    adamw, params = AdamW(0.01), {"kernel": jnp.ones((600, 500)), "bias": jnp.ones(500)}
    given = params, adamw.init(params), params
    program = jax.jit(adamw.step, donate_argnums=(1, 2)).lower(*given).compile()
    assert program.memory_analysis().temp_size_in_bytes < 4 * 600 * 500


def test_without_native_operations_it_is_optax(monkeypatch):
    monkeypatch.setattr(platforms, "usable", lambda: False)
    adamw, params = AdamW(0.01), trees(0, np.float32)
    text = jax.jit(adamw.step).lower(trees(1, np.float32), adamw.init(params), params).as_text()
    assert "custom_call" not in text


def test_a_model_without_weights_is_left_alone():
    assert AdamW(0.01).step({}, (), {}) == ({}, ())
