"""Functions run operation by operation, by NumPy and by XLA."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.options.config import Config, Model
from hetjax.system import eager
from hetjax.system.eager import eagerly
from hetjax.training.meters import ProgramCounter
from tests.support.equivalence import few
from tests.support.graphs import random_graph, smaller_graph
from tests.support.models import trainer_of


def test_weights_are_those_of_one_program():
    trainer = trainer_of(smaller_graph(0), Config(model=Model(name="rgat", hidden=8, feature_width=4)), 1)
    expected, found = jax.jit(trainer.init)(np.int32(3)), eagerly(trainer.init, np.int32(3))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(("double", "most"), [(False, 0), (False, 2**20), (True, 40)])
@pytest.mark.parametrize("name", ["glorot_uniform", "lecun_normal", "normal", "orthogonal", "ones", "delta_orthogonal"])
def test_draws_are_those_of_one_program(monkeypatch, name, double, most):
    """By NumPy, by XLA where results are larger than it may compute, and where there is what it does not know."""
    monkeypatch.setattr(eager, "MOST", most)
    draw = getattr(jax.nn.initializers, name)
    shape = (3, 3, 6, 7) if name == "delta_orthogonal" else (6, 7)
    draws = draw if name == "ones" else draw()

    def drawn(seed):
        first, second = jax.random.split(jax.random.key(seed))
        return {"one": draws(first, shape), "other": draws(jax.random.fold_in(second, 3), shape), "key": second}

    with jax.enable_x64(double):
        expected, found = jax.jit(drawn)(np.int32(5)), eagerly(drawn, np.int32(5))
        assert found["key"] == expected["key"]
        for one in ("one", "other"):
            assert found[one].dtype == expected[one].dtype
            np.testing.assert_allclose(
                found[one], expected[one], rtol=1e-12 if double else 1e-5, atol=1e-14 if double else 1e-6
            )
        several = eagerly(lambda key: jax.vmap(lambda key: draws(key, shape))(jax.random.split(key, 3)), found["key"])
        expected_several = jax.vmap(lambda key: draws(key, shape))(jax.random.split(expected["key"], 3))
        np.testing.assert_allclose(several, expected_several, rtol=1e-5, atol=1e-6)
        given = eagerly(lambda key: jax.random.normal(key, (2, 3)), found["key"])
        np.testing.assert_allclose(given, jax.random.normal(expected["key"], (2, 3)), rtol=1e-5)


@pytest.mark.parametrize("model", ["rgcn", "rgat", "hgt"])
def test_nothing_is_compiled_for_small_weights(model):
    trainer = trainer_of(random_graph(0), Config(model=Model(name=model, hidden=8, feature_width=4)), 1)
    programs = ProgramCounter()
    eagerly(trainer.init, np.int32(3))
    assert programs.count == 0


def test_results_share_no_memory():
    def function(seed):
        drawn = jax.random.uniform(jax.random.key(seed), (4, 3))
        return drawn, drawn, jax.lax.stop_gradient(drawn), drawn[1:3], jnp.zeros((4, 3)), jnp.zeros((4, 3))

    found = eagerly(function, np.int32(0))
    for place, one in enumerate(found):
        assert one.flags.writeable and one.flags.c_contiguous
        assert not any(np.shares_memory(one, other) for other in found[:place])


def test_integers_are_those_of_xla():
    """Which shifts them as words, and says what floats out of range become."""

    def function(x, floats):
        whole, half = jax.lax.convert_element_type(floats, jnp.int32), jax.lax.div(x, jnp.int32(2))
        return jax.lax.shift_right_logical(x, jnp.int32(1)), whole, half, jax.jit(lambda x: (x, 3, x > 0))(x)

    given = np.array([-5, 7], np.int32), np.array([1e20, -2.5], np.float32)
    found, expected = (jax.tree.leaves(made(*given)) for made in (lambda *x: eagerly(function, *x), jax.jit(function)))
    for one, other in zip(found, expected):
        assert type(one) in (np.ndarray, type(other)) and one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_other_generators_are_left_to_jax():
    for option in ({"jax_threefry_partitionable": False}, {"jax_default_prng_impl": "rbg"}):
        with contextlib.ExitStack() as stack:
            for key, value in option.items():
                before = getattr(jax.config, key)
                jax.config.update(key, value)
                stack.callback(jax.config.update, key, before)
            found = eagerly(lambda seed: jax.random.uniform(jax.random.key(seed), (5,)), np.int32(1))
            np.testing.assert_array_equal(found, jax.random.uniform(jax.random.key(1), (5,)))


@pytest.mark.optimised
def test_less_effort_of_the_compiler_changes_last_bits_at_most(monkeypatch):
    monkeypatch.setattr(eager, "MOST", 0)  # all by XLA
    trainer = trainer_of(few("writes", "written_by"), Config(model=Model(name="hgt", hidden=8, feature_width=4)), 1)
    (equation,) = jax.make_jaxpr(jax.jit(jnp.sin))(jnp.float32(0)).eqns
    assert eager.LITTLE in eager._quick_to_compile(equation).params.values()
    found = eagerly(trainer.init, np.int32(3))
    monkeypatch.setattr(eager, "LITTLE", ())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(eagerly(trainer.init, np.int32(3)))):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_what_nothing_depends_on_is_not_computed():
    """Of two calls of Python the one whose result is used runs."""
    run = []

    def counted(x):
        run.append(1)
        return x

    def function(x):
        jax.pure_callback(counted, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        used = jax.pure_callback(counted, jax.ShapeDtypeStruct(x.shape, x.dtype), x + 1)
        return {"both": used + x, "same": x, "three": jnp.float32(3)}

    found = eagerly(function, jnp.float32(2))
    assert {name: float(value) for name, value in found.items()} == {"both": 5, "same": 2, "three": 3}
    assert len(run) == 1
