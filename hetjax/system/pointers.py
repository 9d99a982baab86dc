"""Arrays by their address, in what numba compiles: of as many as a call is about, where an array more is a type more to compile for."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from hetjax.system.compiled import compiled, intrinsic


def address(array: np.ndarray) -> int:
    """Where the first number of an array in C order lies; whoever uses it keeps the array alive."""
    return array.__array_interface__["data"][0]


@intrinsic
def pointer(context: Any, address: types.Integer, dtype: types.DType) -> tuple[Any, Callable]:
    """In numba's language: a pointer to numbers of a dtype, from an address."""
    kind = types.CPointer(dtype.dtype)
    return kind(types.intp, dtype), lambda context, builder, signature, args: builder.inttoptr(
        args[0], context.get_value_type(kind)
    )


@compiled(inline="always")
def array_at(address: int, count: int, dtype: Any) -> np.ndarray:
    """In numba's language: the array of so many numbers of a dtype at an address."""
    return numba.carray(pointer(address, dtype), (count,))
