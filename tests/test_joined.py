"""Rows of several arrays as one array's, and back: their values and gradients, and that XLA joins nothing number by number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels.joined import joined, joined_halves, parted

COUNTS = [(3, 0, 5), (700, 1, 2, 900), (4,)]  # rows of parts; of the second threads copy blocks


@pytest.mark.parametrize("more, dtype", [((), "float32"), ((3, 0), "float32"), ((7,), "float64"), ((2, 64), "float16")])
@pytest.mark.parametrize("counts", COUNTS)
def test_rows_are_joined_and_parted(counts, more, dtype):
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        parts = [rng.standard_normal((count, *more)).astype(dtype) for count in counts]
        whole = np.concatenate(parts)
        made, back = jax.jit(lambda parts, whole: (joined(parts), parted(whole, counts)))(parts, whole)
        assert made.dtype == whole.dtype
        np.testing.assert_array_equal(made, whole)
        assert len(back) == len(parts)
        for part, own in zip(back, parts):
            assert part.dtype == own.dtype
            np.testing.assert_array_equal(part, own)


@pytest.mark.parametrize("counts", COUNTS)
def test_gradients_go_where_the_rows_came_from(counts):
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((count, 4)).astype("float32") for count in counts]
    weights = rng.standard_normal((sum(counts), 4)).astype("float32")
    by_parts = jax.jit(jax.grad(lambda parts: jnp.vdot(joined(parts), weights)))(parts)
    np.testing.assert_array_equal(np.concatenate(by_parts), weights)
    split = np.split(weights, np.cumsum(counts)[:-1])
    used = [number for number in range(len(counts)) if number != 1]  # no gradient comes from one of the parts

    def total(x):
        own = parted(x, counts)
        return sum(jnp.vdot(own[number], split[number]) for number in used)

    by_whole = jax.jit(jax.grad(total))(np.concatenate(parts))
    wanted = [part * (number in used) for number, part in enumerate(split)]
    np.testing.assert_array_equal(by_whole, np.concatenate(wanted))


def test_a_change_of_shape_is_no_part_of_what_joins():
    """XLA makes joining and a change of shape before it one operation, which takes many times as long, by where its code lies."""

    def made(vector):
        stacks = [part.reshape(-1, 8, 8) for part in parted(vector, (640, 128, 256))]
        rows = [(stack @ jnp.ones((8, 16))).reshape(-1, 16) for stack in stacks]
        return jnp.sum(joined(rows) ** 2)

    text = jax.jit(jax.grad(made)).lower(jnp.ones(1024)).compile().as_text()
    assert "concatenate(" not in text and 'custom_call_target="hetjax"' in text


@pytest.mark.parametrize("counts", COUNTS)
def test_halves_of_the_columns_lie_apart(counts):
    rng = np.random.default_rng(2)
    parts = [rng.standard_normal((count, 6)).astype("float32") for count in counts]
    weights = rng.standard_normal((2, sum(counts), 3)).astype("float32")
    left, right = jax.jit(joined_halves)(parts)
    np.testing.assert_array_equal(np.concatenate([left, right], axis=1), np.concatenate(parts))
    total = jax.jit(jax.grad(lambda parts: sum(map(jnp.vdot, joined_halves(parts), weights))))
    np.testing.assert_array_equal(np.concatenate(total(parts)), np.concatenate(weights, axis=1))
