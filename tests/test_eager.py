"""Functions run operation by operation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax import eager
from hetjax.config import Config, Model
from hetjax.eager import eagerly
from hetjax.sharding.trainer import make_trainer
from tests.conftest import random_graph


def test_weights_are_those_of_one_program():
    trainer = make_trainer(random_graph(0), Config(model=Model(name="rgat", hidden=8, feature_width=4)), 1)
    expected, found = jax.jit(trainer.init)(np.int32(3)), eagerly(trainer.init, np.int32(3))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.optimised
def test_less_effort_of_the_compiler_changes_last_bits_at_most(monkeypatch):
    trainer = make_trainer(random_graph(0), Config(model=Model(name="hgt", hidden=8, feature_width=4)), 1)
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
