"""Meshes, and what programs on them take."""

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.sharding import mesh as meshes


def test_programs_take_arrays_of_size_zero():
    """At which the process ends with jaxlib 0.11 and Shardy; with other versions this cannot fail."""

    def each(x, y):
        return jnp.sum(x) + y, y[:0]

    mapped = meshes.shard_map(each, meshes.make(2, 2), (P(meshes.BOTH), P(meshes.BOTH)), P(meshes.BOTH))
    sums, none = jax.jit(mapped)(np.ones((0, 3), np.float32), np.ones((8, 3), np.float32))
    np.testing.assert_array_equal(sums, np.ones((8, 3)))
    assert none.shape == (0, 3)
    gradient = jax.jit(jax.grad(lambda x, y: jnp.sum(mapped(x, y)[0]), argnums=1))
    np.testing.assert_array_equal(gradient(np.ones((0, 3), np.float32), np.ones((8, 3), np.float32)), np.ones((8, 3)))


@pytest.mark.parametrize(
    "version, environment, told",
    [("0.10.2", {}, 0), ("0.11.2", {}, 1), ("0.11.2", {"JAX_USE_SHARDY_PARTITIONER": "true"}, 0), ("0.12.0", {}, 0)],
)
def test_shardy_is_left_out_where_it_crashes(monkeypatch, version, environment, told):
    updates = []
    monkeypatch.delenv("JAX_USE_SHARDY_PARTITIONER", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(jaxlib, "__version__", version)
    monkeypatch.setattr(jax.config, "update", lambda *setting: updates.append(setting))
    meshes.make(2, 1)
    assert updates == [("jax_use_shardy_partitioner", False)] * told
