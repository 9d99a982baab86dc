"""Meshes, and what programs on them take."""

import os
import platform
import subprocess
import sys

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.sharding import mesh as meshes
from hetjax.system import runtime


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


COMPUTES = """
import jax
power = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, y: y @ x / 1500, x))
x = jax.numpy.ones((1500, 1500))
jax.block_until_ready(power(x))
print(jax.local_device_count(), power(x).is_ready())
"""
ALONE = "mesh.provide_cpu_devices(1, alone=True)\n"


@pytest.mark.parametrize(
    "prepared, count, done",
    [
        (ALONE, 1, True),
        ("mesh.provide_cpu_devices(2)\n", 2, False),
        (ALONE + "mesh.provide_cpu_devices(2)\n", 2, False),
    ],
)
def test_one_cpu_device_computes_in_the_thread_that_asks_it_to(prepared, count, done):
    """Its memory is given back before the next step asks for some; several compute side by side."""
    assert printed("from hetjax.sharding import mesh\n" + prepared + COMPUTES) == [str(count), str(done)]


def test_so_does_a_command_of_one_device(tmp_path):
    """Nothing starts jax before it is told so."""
    run = f"--synthetic.scale 0.0003 --train.epochs 1 --train.baselines false --workdir {tmp_path / 'run'}".split()
    command = f"from hetjax import train\ntrain.main({run})\n"
    assert printed(command + COMPUTES)[-2:] == ["1", "True"]


FREES = """
import jax, numpy, resource
from hetjax.sharding import mesh
mesh.provide_cpu_devices(1)
def held():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize() / 2**20
jax.numpy.zeros(1)
pieces = [numpy.ones(2**18) for _ in range(200)]
pieces = pieces[1::20]
before = held()
jax.jit(lambda x: x + 1)(1)
print(before - held() > 190)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what glibc does")
@pytest.mark.parametrize(
    "tunables, given_back", [(runtime.MALLOC, True), (f"glibc.malloc.mmap_threshold={runtime.LARGEST}", False)]
)
def test_where_freed_memory_is_kept_it_goes_back_once_a_program_is_made(tunables, given_back):
    """Of 200 arrays of 2 MiB 190 are free; who says otherwise of glibc is left alone."""
    assert printed(FREES, GLIBC_TUNABLES=tunables) == [str(given_back)]


def printed(code: str, **variables: str) -> list[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | variables
    ).stdout.split()
