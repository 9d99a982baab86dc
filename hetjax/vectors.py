"""Arithmetic on rows of arrays, several numbers at a time, in what numba compiles.

Left to itself LLVM adds rows of a few dozen numbers one by one: it must fear that arrays overlap, and looks whether they do at
every row. What an array is read from here is another than what is written to.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.compiled import intrinsic
from hetjax.internals import numba_parts

cgutils, _ = numba_parts()
BYTES = 64, 16  # of vectors: as many of the first as fit into a row, and of the second; the rest number by number
FLAGS = "contract", "reassoc", "nsz"
_WORD, _INT32 = ir.IntType(64), ir.IntType(32)


@intrinsic
def add_scaled(context: Any, out: Any, to: Any, scale: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """`out[to + i] += scale * x[start + i]` for all `i < count`; arrays in C order, as if they had one dimension."""

    def build(context, builder, signature, args):
        number, scale = context.get_value_type(out.dtype), _cast(context, builder, signature, args, 2, out.dtype)
        into, rows = _place(context, builder, signature, args, 0, 1), _place(context, builder, signature, args, 3, 4)

        def add(at, kind):
            sums, given = _at(builder, into, at, kind), _at(builder, rows, at, kind)
            weight = scale if kind is number else _spread(builder, scale, kind)
            product = builder.fmul(weight, _load(builder, given), flags=FLAGS)
            builder.store(builder.fadd(product, _load(builder, sums), flags=FLAGS), sums).align = 4

        _for_each(context, builder, number, _cast(context, builder, signature, args, 5, types.intp), add)
        return context.get_dummy_value()

    return types.none(out, to, scale, x, start, count), build


@intrinsic
def dot(context: Any, x: Any, start: Any, y: Any, other: Any, count: Any) -> tuple[Any, Callable]:
    """The sum of `x[start + i] * y[other + i]` over all `i < count`, in any order; arrays as of `add_scaled`."""

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        one, two = _place(context, builder, signature, args, 0, 1), _place(context, builder, signature, args, 2, 3)
        sums: dict[Any, Any] = {}
        for kind in _kinds(number):
            sums[kind] = cgutils.alloca_once(builder, kind)
            builder.store(_zero(kind), sums[kind])

        def add(at, kind):
            product = builder.fmul(
                _load(builder, _at(builder, one, at, kind)), _load(builder, _at(builder, two, at, kind)), flags=FLAGS
            )
            builder.store(builder.fadd(product, builder.load(sums[kind]), flags=FLAGS), sums[kind])

        _for_each(context, builder, number, _cast(context, builder, signature, args, 4, types.intp), add)
        *vectors, total = (builder.load(sums[kind]) for kind in _kinds(number))
        for vector in vectors:
            total = builder.fadd(total, _total(builder, vector, number), flags=FLAGS)
        return total

    return x.dtype(x, start, y, other, count), build


def _kinds(number: ir.Type) -> list[ir.Type]:
    """Vectors of some numbers, longest first, and one number."""
    size = 8 if isinstance(number, ir.DoubleType) else 4
    return [*(ir.VectorType(number, width // size) for width in BYTES), number]


def _for_each(context, builder, number, count, body):
    """Call `body(place, kind)` for vectors as long as they fit, and then for numbers."""
    start = _WORD(0)
    for kind in _kinds(number):
        lanes = kind.count if isinstance(kind, ir.VectorType) else 1
        end = builder.and_(count, _WORD(-lanes))
        with cgutils.for_range_slice(builder, start, end, _WORD(lanes)) as (at, _):
            body(at, kind)
        start = end


def _cast(context, builder, signature, args, position, kind):
    return context.cast(builder, args[position], signature.args[position], kind)


def _place(context, builder, signature, args, array, start):
    """Where an array's numbers from `start` on lie."""
    data = context.make_array(signature.args[array])(context, builder, args[array]).data
    return builder.gep(data, [_cast(context, builder, signature, args, start, types.intp)])


def _at(builder, pointer, place, kind):
    return builder.bitcast(builder.gep(pointer, [place]), kind.as_pointer())


def _load(builder, pointer):
    return builder.load(pointer, align=4)


def _zero(kind: ir.Type) -> ir.Constant:
    return ir.Constant(kind, [0.0] * kind.count if isinstance(kind, ir.VectorType) else 0.0)


def _spread(builder, number, kind):
    """A vector all of whose numbers are one."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, number, _INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT32, kind.count), [0] * kind.count))


def _total(builder, vector, number):
    """The sum of a vector's numbers: its halves are added, and theirs, and so on."""
    count = vector.type.count
    while count > 1:
        count //= 2
        halves = [ir.Constant(ir.VectorType(_INT32, count), list(range(first, first + count))) for first in (0, count)]
        one, two = (builder.shuffle_vector(vector, vector, half) for half in halves)
        vector = builder.fadd(one, two, flags=FLAGS)
    return builder.extract_element(vector, _INT32(0))
