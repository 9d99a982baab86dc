"""Requests for memory some time before it is read, in code that numba compiles."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.system.compiled import intrinsic
from hetjax.system.internals import numba_parts

cgutils, _ = numba_parts()
LINE = 64  # bytes that a processor reads at a time, a power of two
_WORD, _BYTE, _FLAG = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)


def prefetch_line(builder: ir.IRBuilder, place: ir.Value) -> None:
    """Prefetch the cache line that a pointer points into; where there is no memory it does nothing."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTE, _FLAG, _FLAG, _FLAG])
    function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE], kind)
    builder.call(function, [builder.bitcast(place, _BYTE), _FLAG(0), _FLAG(3), _FLAG(1)])  # to be read, and again; data


@intrinsic
def prefetch(context: Any, rows: types.Array, row: types.Integer) -> tuple[Any, Callable]:
    """Prefetch a row of an array in C order, or one element of a vector, which is read soon."""

    def build(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        size = builder.extract_value(array.strides, 0)
        offset = builder.mul(size, context.cast(builder, args[1], signature.args[1], types.intp))
        start = builder.add(builder.ptrtoint(array.data, _WORD), offset)
        end = builder.add(start, size)
        first = builder.and_(start, _WORD(-LINE))  # a row may begin inside a line
        with cgutils.for_range_slice(builder, first, end, _WORD(LINE)) as (place, _):
            prefetch_line(builder, builder.inttoptr(place, _BYTE))
        return context.get_dummy_value()

    return types.none(rows, row), build
