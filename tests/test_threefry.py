"""NumPy's keys and bits beside those of `jax.random`."""

import jax
import numpy as np
import pytest

from hetjax.system import threefry
from hetjax.system.threefry import Keys

SEEDS = [0, 1, 7, 2**31 - 1, -1, -(2**31)]


def words(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_are_jaxs(seed):
    key, found = jax.random.key(np.int32(seed)), threefry.seed(np.int32(seed))
    np.testing.assert_array_equal(found.words, words(key))
    for data in (0, 5, 2**32 - 1):
        expected = jax.random.fold_in(key, np.uint32(data))
        np.testing.assert_array_equal(threefry.fold_in(found, np.uint32(data)).words, words(expected))
    for shape in ((3,), (2, 5)):
        np.testing.assert_array_equal(threefry.split(found, shape).words, words(jax.random.split(key, shape)))


def test_seeds_of_64_bits():
    with jax.enable_x64(True):
        for seed in (3, -3, 2**40 + 9):
            expected = words(jax.random.key(np.int64(seed)))
            np.testing.assert_array_equal(threefry.seed(np.int64(seed)).words, expected)


def test_keys_of_several_are_folded_as_one_by_one():
    keys = threefry.split(threefry.seed(np.int32(3)), (4,))
    found = threefry.fold_in(keys, np.uint32(6))
    for one, row in zip(keys.words, found.words):
        np.testing.assert_array_equal(threefry.fold_in(Keys(one), np.uint32(6)).words, row)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (0,)])
def test_bits_are_jaxs(shape):
    key, found = jax.random.key(11), threefry.seed(np.int32(11))
    expected = jax.random.bits(key, shape, np.uint32)
    np.testing.assert_array_equal(threefry.bits(found, 32, shape), expected)
    with jax.enable_x64(True):
        expected = jax.random.bits(key, shape, np.uint64)
        np.testing.assert_array_equal(threefry.bits(found, 64, shape), expected)
