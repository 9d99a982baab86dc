"""AdamW in one pass over memory equals optax's, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hetjax.kernels.adamw import AdamW
from hetjax.kernels.native import platforms

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
        given = params, adamw.init(params), params
        assert "custom_call @hetjax(" in jax.jit(adamw.step).lower(*given).as_text()
        chosen = trained(jax.jit(adamw.step), adamw.init(params), dtype, 7)
        expected = trained(by_optax, plain.init(params), dtype, 7)
    assert jax.tree.structure(chosen) == jax.tree.structure(expected)
    for found, wanted in zip(*map(jax.tree.leaves, (chosen, expected))):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_weights_are_moved_where_they_lie():
    adamw, params = AdamW(0.01), {"kernel": jnp.ones((60, 5, 10)), "bias": jnp.ones(500)}
    gradients, state = jax.tree.map(jnp.ones_like, params), adamw.init(params)
    kept, _ = jax.jit(adamw.step)(gradients, state, params)
    places = {name: leaf.unsafe_buffer_pointer() for name, leaf in params.items()}
    program = jax.jit(adamw.step, donate_argnums=(1, 2)).lower(gradients, state, params).compile()
    assert program.as_text().count(" copy(") == 0
    moved, _ = program(gradients, state, params)
    assert {name: leaf.unsafe_buffer_pointer() for name, leaf in moved.items()} == places
    jax.tree.map(np.testing.assert_array_equal, moved, kept)


def test_bits_do_not_depend_on_where_a_weight_lies():
    """Not among the others, and not in which thread's part: replicas must be alike, and so must packed weights."""
    adamw, parts = AdamW(0.01, 0.1), [1, 63, 700, 129, 4000, 7]
    numbers, slopes = np.split(np.random.default_rng(0).standard_normal(2 * sum(parts)).astype(np.float32), 2)
    whole, of_whole = {"all": numbers}, {"all": slopes}
    apart, of_apart = (dict(enumerate(np.split(x, np.cumsum(parts)[:-1]))) for x in (numbers, slopes))
    step, of_moments, moments = jax.jit(adamw.step), adamw.init(whole), adamw.init(apart)
    for _ in range(3):
        whole, of_moments = step(of_whole, of_moments, whole)
        apart, moments = step(of_apart, moments, apart)
        np.testing.assert_array_equal(whole["all"], np.concatenate(list(apart.values())))
        jax.tree.map(np.testing.assert_array_equal, of_moments, moments)


def test_other_shapes_than_the_weights_are_refused():
    adamw, params = AdamW(0.01), trees(0, np.float32)
    state = adamw.init(params)
    for wrong in ({}, params | {"bias": jnp.ones(128)}, params | {"gate": jnp.ones(1)}):
        with pytest.raises(ValueError, match="gradients of shapes"):
            adamw.step(wrong, state, params)
    with pytest.raises(ValueError, match=r"moments \(5,\)"):
        adamw.step(params, adamw.init({"bias": jnp.ones(5)}), params)


def test_more_weights_than_a_kernel_counts_are_updated_by_optax():
    """Of which shapes alone are made."""
    adamw, params = AdamW(0.01), {"rows": jax.ShapeDtypeStruct((2**16, 2**15), np.float32)}
    state = jax.eval_shape(adamw.init, params)
    assert jax.eval_shape(adamw.step, params, state, params)[0] == params
    program = str(jax.make_jaxpr(adamw.step)(params, state, params))
    assert "by_platform" not in program and " sqrt " in program


def test_without_native_operations_it_is_optax(monkeypatch):
    monkeypatch.setattr(platforms, "usable", lambda: False)
    adamw, params = AdamW(0.01), trees(0, np.float32)
    text = jax.jit(adamw.step).lower(trees(1, np.float32), adamw.init(params), params).as_text()
    assert "custom_call" not in text
