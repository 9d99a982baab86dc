"""Building blocks of machine code for vectors: constants, the addresses of arrays, and functions that are written once."""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.system.internals import numba_parts

cgutils, _ = numba_parts()
# Sizes of vectors: rows that are shorter than the first are taken by the second, and rows that are shorter than both number by number, unless several share a vector (`loops.for_short`).
BYTES = 64, 16
WORD, INT32 = ir.IntType(64), ir.IntType(32)


def kinds(number: ir.Type) -> list[ir.Type]:
    """Return the types of vectors of some elements, longest first, and of one element."""
    size = 8 if isinstance(number, ir.DoubleType) else 4
    return [*(ir.VectorType(number, width // size) for width in BYTES), number]


def words(context: Any, builder: ir.IRBuilder, shape: Sequence[types.Type], values: ir.Value) -> list[ir.Value]:
    """Return the elements of a tuple, as words."""
    return [
        context.cast(builder, builder.extract_value(values, place), shape[place], types.intp)
        for place in range(len(shape))
    ]


def cast(
    context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value], position: int, kind: types.Type
) -> ir.Value:
    return context.cast(builder, args[position], signature.args[position], kind)


def start_of(
    context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value], array: int, start: int
) -> ir.Value:
    """Return the address of an array's elements from `start` on."""
    data = context.make_array(signature.args[array])(context, builder, args[array]).data
    return builder.gep(data, [cast(context, builder, signature, args, start, types.intp)])


def data_of(context: Any, builder: ir.IRBuilder, kind: types.Type, array: ir.Value) -> ir.Value:
    """Return the address of an array's elements."""
    return context.make_array(kind)(context, builder, array).data


def pointer_at(builder: ir.IRBuilder, pointer: ir.Value, place: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.bitcast(builder.gep(pointer, [place]), kind.as_pointer())


def load(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    return builder.load(pointer, align=4)


def variable(builder: ir.IRBuilder, kind: ir.Type) -> ir.Value:
    """Return a variable that starts as zero, which LLVM keeps in a register."""
    made = cgutils.alloca_once(builder, kind)
    builder.store(zero(kind), made)
    return made


def zero(kind: ir.Type) -> ir.Constant:
    return everywhere(kind, 0.0)


def everywhere(kind: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def spread(builder: ir.IRBuilder, number: ir.Value, kind: ir.Type) -> ir.Value:
    """Return a vector all of whose elements are one value."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, number, INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INT32, kind.count), [0] * kind.count))


def call(builder: ir.IRBuilder, name: str, values: Sequence[ir.Value], write: Callable[..., None]) -> None:
    """Call a function of this LLVM module, which `write(builder, *values)` writes where it is called first: LLVM optimises long loops once, however often a kernel calls them.

    Args:
      name: says all that the function depends on.
    """
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        function = ir.Function(builder.module, kind, name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block())
        write(inside, *function.args)
        inside.ret_void()
    builder.call(function, values)
