"""Arrays by their address, in code that numba compiles, as many as a call needs: each array argument more would be a type more to compile for."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from hetjax.system.compiled import compiled, intrinsic


def address(array: np.ndarray) -> int:
    """Return the address of the first element of an array in C order. The caller keeps the array alive."""
    return array.__array_interface__["data"][0]


@intrinsic
def pointer(context: Any, address: types.Integer, dtype: types.DType) -> tuple[Any, Callable]:
    """Return a pointer to elements of a dtype at an address, in code that numba compiles."""
    kind = types.CPointer(dtype.dtype)
    return kind(types.intp, dtype), lambda context, builder, signature, args: builder.inttoptr(
        args[0], context.get_value_type(kind)
    )


@compiled(inline="always")
def array_at(address: int, count: int, dtype: Any) -> np.ndarray:
    """Return the array of `count` elements of a dtype at an address, in code that numba compiles."""
    return numba.carray(pointer(address, dtype), (count,))
