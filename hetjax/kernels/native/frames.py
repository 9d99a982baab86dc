"""Access of an operation to its arrays in the frame of its call, in numba's language.

How a frame is laid out is part of jaxlib, and stands in `internals`.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.system.compiled import intrinsic
from hetjax.system.internals import ARGUMENTS, DATA, RANK, RESULTS, SIZES, numba_parts

# An operation is compiled for the floats that it is called with; by its frame's type, of one size, `arrays` knows which.
FRAMES = {"float32": types.int64, "float64": types.uint64}
cgutils, populate_array = numba_parts()
_WORD = ir.IntType(64)


@intrinsic(prefer_literal=True)
def arrays(context: Any, frame: types.Integer, layout: types.StringLiteral) -> tuple[Any, Callable]:
    """Return the arguments and results of a call, from its frame, as a tuple of arrays (in numba's language).

    Args:
      layout: a literal such as `"i1 f2 > f0"`: of every array the dtype, `i` for int32 and `f` for the call's floats, and the rank.
    """
    argument_kinds, result_kinds = (part.split() for part in layout.literal_value.split(">"))
    places = [(ARGUMENTS, place, kind) for place, kind in enumerate(argument_kinds, 1)]
    places += [(RESULTS, place, kind) for place, kind in enumerate(result_kinds)]
    array_types = [_array_type(frame, kind) for _, _, kind in places]
    together = types.Tuple(array_types)

    def build(context, builder, signature, args):
        values = [
            _array(context, builder, args[0], side, _WORD(place), kind, array_type)
            for (side, place, kind), array_type in zip(places, array_types)
        ]
        return context.make_tuple(builder, together, values)

    return together(frame, layout), build


@intrinsic(prefer_literal=True)
def argument(
    context: Any, frame: types.Integer, place: types.Integer, kind: types.StringLiteral
) -> tuple[Any, Callable]:
    """Return one of a call's arguments, of which there may be any number (in numba's language). The layout is that of
    `arrays`; an array of kind `f`, without a rank, is ravelled, `[values]`."""
    return _one(ARGUMENTS, 1, frame, place, kind)


@intrinsic(prefer_literal=True)
def result(context: Any, frame: types.Integer, place: types.Integer, kind: types.StringLiteral) -> tuple[Any, Callable]:
    """Return one of a call's results, of which there may be any number (in numba's language). The layout is that of `argument`."""
    return _one(RESULTS, 0, frame, place, kind)


def _one(side, before, frame, place, kind):
    array_type = _array_type(frame, kind.literal_value)

    def build(context, builder, signature, args):
        number = builder.add(context.cast(builder, args[1], signature.args[1], types.intp), _WORD(before))
        return _array(context, builder, args[0], side, number, kind.literal_value, array_type)

    return array_type(frame, place, kind), build


def _array_type(frame, kind):
    dtypes = {"i": types.int32, "f": next(getattr(types, name) for name, floats in FRAMES.items() if floats == frame)}
    return types.Array(dtypes[kind[0]], int(kind[1:] or 1), "C")


def _array(context, builder, frame, side, place, kind, array_type):
    """Return the array at a place among a call's arguments or results."""
    buffer = _load(builder, _load(builder, frame, _WORD(side)), place)
    sizes, array = _load(builder, buffer, _WORD(SIZES)), context.make_array(array_type)(context, builder)
    shape = [_load(builder, sizes, _WORD(axis)) for axis in range(array_type.ndim)]
    if not kind[1:]:
        shape = [_product(builder, sizes, _load(builder, buffer, _WORD(RANK)))]
    strides = [_WORD(context.get_abi_sizeof(context.get_data_type(array_type.dtype)))]
    for length in reversed(shape):
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(_load(builder, buffer, _WORD(DATA)), array.data.type)
    populate_array(array, data, shape, strides[1:], itemsize=strides[-1], meminfo=None)
    return array._getvalue()


def _product(builder, address, count):
    """Return the product of so many words behind an address."""
    product = cgutils.alloca_once_value(builder, _WORD(1))
    with cgutils.for_range(builder, count) as loop:
        builder.store(builder.mul(builder.load(product), _load(builder, address, loop.index)), product)
    return builder.load(product)


def _load(builder, address, position):
    """Return the word at a position behind an address."""
    return builder.load(builder.gep(builder.inttoptr(address, _WORD.as_pointer()), [position]))
