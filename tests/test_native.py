"""Operations that numba compiles: rows read and written as jax does, by many threads, and left alone where unknown."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax import native
from hetjax.cache import tables


def test_this_jaxlib_is_known():
    assert native.version() in native.KNOWN
    assert "@hetjax(" in jax.jit(tables.rows_at).lower(jnp.ones((3, 2)), jnp.arange(2)).as_text()


@pytest.mark.parametrize("header", [None, "#define XLA_FFI_API_MAJOR 0\n#define XLA_FFI_API_MINOR 99\n", "nothing"])
def test_an_unknown_interface_is_left_alone(monkeypatch, tmp_path, header):
    file = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    file.parent.mkdir(parents=True)
    if header:
        file.write_text(header)
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    native.version.cache_clear()
    try:
        assert not native.usable()
        program = jax.jit(lambda *given: tables.rows_at(*given)).lower(jnp.ones((3, 2)), jnp.arange(2)).as_text()
    finally:
        native.version.cache_clear()
    assert "@hetjax(" not in program


@pytest.mark.parametrize("width", [(), (1,), (7,), (64,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("count", [0, 3, 5000])
def test_rows_are_read_and_written(width, dtype, count):
    """Those out of range are zeros, and dropped; what is written elsewhere stays."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        matrix = (rng.standard_normal((6000, *width)) * 100).astype(dtype)
        ids = rng.permutation(6000)[:count].astype(np.int32)
        ids[: count // 3] = 2**31 - 1
        real = ids < 6000
        expected = np.zeros((count, *width), dtype)
        expected[real] = matrix[ids[real]]
        np.testing.assert_array_equal(jax.jit(tables.rows_at)(matrix, ids), expected)
        new = (rng.standard_normal((count, *width)) * 100).astype(dtype)
        written = matrix.copy()
        written[ids[real]] = new[real]
        given = jnp.asarray(matrix)
        np.testing.assert_array_equal(jax.jit(tables.write)(given, ids, new), written)
        np.testing.assert_array_equal(given, matrix)
        np.testing.assert_array_equal(jax.jit(tables.write, donate_argnums=0)(given, ids, new), written)


def test_calls_at_the_same_time_do_not_meet():
    """Each has its own state, which threads that come late still find."""
    rng = np.random.default_rng(0)
    matrix = jnp.asarray(rng.standard_normal((20_000, 16)), jnp.float32)
    orders = [jnp.asarray(rng.permutation(20_000).astype(np.int32)) for _ in range(8)]
    expected, read = [np.asarray(matrix)[order] for order in orders], jax.jit(tables.rows_at)

    def many(number):
        return all((np.asarray(read(matrix, orders[number])) == expected[number]).all() for _ in range(60))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(many, range(8)))
