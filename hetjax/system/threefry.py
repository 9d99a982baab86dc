"""Keys and bits of `jax.random` by NumPy, for what is drawn before anything else: nothing is compiled for it.

The generator is Threefry of 2 x 32 bits and 20 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011). Keys and
bits are those of jax with its option `jax_threefry_partitionable`, which it has by default: the i-th bits depend on the key and on i alone.
"""

import math
from typing import NamedTuple

import numpy as np

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = np.uint32(0x1BD11BDA)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class Keys(NamedTuple):
    """Keys of jax, on the host.

    Attributes:
      words: uint32 `[..., 2]`.
    """

    words: np.ndarray


def seed(number: np.ndarray) -> Keys:
    """Return a key, as `jax.random.key` does, of an integer of 32 or 64 bits."""
    number = np.asarray(number)
    wide = number.astype(np.int64).view(np.uint64)
    return Keys(_words((wide >> HALF if number.dtype.itemsize > 4 else wide & np.uint64(0)), wide & LOW))


def fold_in(keys: Keys, data: np.ndarray) -> Keys:
    """Return a key with an integer folded in, as `jax.random.fold_in` does."""
    return Keys(_words(*_hashed(keys, *np.moveaxis(seed(data).words, -1, 0))))


def split(key: Keys, shape: tuple[int, ...]) -> Keys:
    """Return the keys that one key is split into, as `jax.random.split` does."""
    return Keys(_words(*_hashed(key, *_places(shape))))


def bits(key: Keys, width: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return random bits of one key, as `jax.random.bits` does, uint32 or uint64 by `width`."""
    high, low = _hashed(key, *_places(shape))
    return high ^ low if width == 32 else high.astype(np.uint64) << HALF | low


def _words(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    return np.stack([high, low], axis=-1).astype(np.uint32)


def _places(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower words of the index of every place."""
    numbers = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return (numbers >> HALF).astype(np.uint32), (numbers & LOW).astype(np.uint32)


@np.errstate(over="ignore")  # words overflow
def _hashed(keys: Keys, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return words hashed by the rounds of Threefry."""
    first, second = np.moveaxis(keys.words, -1, 0)
    added = first, second, first ^ second ^ PARITY
    x, y = x + first, y + second
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ (y << np.uint32(rotation) | y >> np.uint32(32 - rotation))
        x = x + added[(group + 1) % 3]
        y = y + added[(group + 2) % 3] + np.uint32(group + 1)
    return x, y
