"""Arrays: numpy's on the host, jax's on devices and inside programs."""

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

if TYPE_CHECKING:
    import jax

Array: TypeAlias = "np.ndarray | jax.Array"
ALIGNMENT = (
    64  # bytes: an array that begins at a multiple of it is taken by a program on a CPU as it lies; others are copied
)


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return an uninitialised array, as `np.empty` does, at an address where a program on a CPU can read it in place."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)
