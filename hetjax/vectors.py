"""Arithmetic on rows of arrays, several numbers at a time, in what numba compiles.

Left to itself LLVM adds rows of a few dozen numbers one by one: it must fear that arrays overlap, and looks whether they do at
every row. Here vectors are written out, and what is read and written in place is read before it is written.
"""

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types

from hetjax.compiled import intrinsic
from hetjax.internals import numba_parts

cgutils, _ = numba_parts()
# Sizes of vectors: rows that are shorter than the first are taken by the second, and rows that are shorter than both number by number.
BYTES = 64, 16
TOGETHER = 4  # heads whose sums are in registers at a time
# Vectors of columns whose sums are in registers at a time.
WIDE = 4 if binding.get_host_cpu_features().get("avx512f") else 1
FLAGS = "contract", "reassoc", "nsz"
ORDERED = "contract", "nsz"  # sums in the order of the edges, whether a column is in a vector or not
LEAST = -87.0  # whose exponential, and that of what is less, is taken as zero
CEPHES = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
_WORD, _INT32 = ir.IntType(64), ir.IntType(32)


@intrinsic
def clear(context: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """`x[start + i] = 0` for all `i < count`; an array in C order, as if it had one dimension."""

    def build(context, builder, signature, args):
        number, into = context.get_value_type(x.dtype), _place(context, builder, signature, args, 0, 1)

        def put(at, kind, _):
            builder.store(_zero(kind), _at(builder, into, at, kind)).align = 4

        _for_each(builder, number, _cast(context, builder, signature, args, 2, types.intp), put)
        return context.get_dummy_value()

    return types.none(x, start, count), build


@intrinsic
def copy(context: Any, out: Any, to: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """`out[to + i] = x[start + i]` for all `i < count`; arrays in C order, as if they had one dimension, that do not overlap."""

    def build(context, builder, signature, args):
        into, given = _place(context, builder, signature, args, 0, 1), _place(context, builder, signature, args, 2, 3)
        cgutils.raw_memcpy(
            builder, into, given, _cast(context, builder, signature, args, 4, types.intp), out.dtype.bitwidth // 8
        )
        return context.get_dummy_value()

    return types.none(out, to, x, start, count), build


@intrinsic
def add_scaled(context: Any, out: Any, to: Any, scale: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """`out[to + i] += scale * x[start + i]` for all `i < count`; arrays in C order, as if they had one dimension."""

    def build(context, builder, signature, args):
        number, scale = context.get_value_type(out.dtype), _cast(context, builder, signature, args, 2, out.dtype)
        into, rows = _place(context, builder, signature, args, 0, 1), _place(context, builder, signature, args, 3, 4)

        def add(at, kind, new):
            sums, given = _at(builder, into, at, kind), _at(builder, rows, at, kind)
            weight = scale if kind is number else _spread(builder, scale, kind)
            product, before = builder.fmul(weight, _load(builder, given), flags=FLAGS), _load(builder, sums)
            builder.store(new(builder.fadd(product, before, flags=FLAGS), before), sums).align = 4

        _for_each(builder, number, _cast(context, builder, signature, args, 5, types.intp), add)
        return context.get_dummy_value()

    return types.none(out, to, scale, x, start, count), build


@intrinsic
def dot(context: Any, x: Any, start: Any, y: Any, other: Any, count: Any) -> tuple[Any, Callable]:
    """The sum of `x[start + i] * y[other + i]` over all `i < count`, in any order; arrays as of `add_scaled`."""

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        one, two = _place(context, builder, signature, args, 0, 1), _place(context, builder, signature, args, 2, 3)
        sums = {kind: _variable(builder, kind) for kind in _kinds(number)}

        def add(at, kind, new):
            rows = [new(_load(builder, _at(builder, base, at, kind)), _zero(kind)) for base in (one, two)]
            _add_product(builder, sums[kind], *rows)

        _for_each(builder, number, _cast(context, builder, signature, args, 4, types.intp), add)
        *vectors, total = (builder.load(sums[kind]) for kind in _kinds(number))
        for vector in vectors:
            total = builder.fadd(total, _total(builder, vector, number), flags=FLAGS)
        return total

    return x.dtype(x, start, y, other, count), build


@intrinsic
def dots(context: Any, out: Any, at: Any, x: Any, start: Any, y: Any, other: Any, shape: Any) -> tuple[Any, Callable]:
    """`out[at + h] = sum of x[start + h step + i] * y[other + h other_step + i]` over all `i < count`, for all `h < heads`.

    Arrays and sums are as of `dot`. Heads are taken `TOGETHER` at a time, which read `y` once if `other_step` is 0.

    Args:
      shape: `(heads, count, step, other_step)`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        into, one, two = (_place(context, builder, signature, args, place, place + 1) for place in (0, 2, 4))
        heads, count, step, other_step = (
            context.cast(builder, builder.extract_value(args[6], place), shape[place], types.intp) for place in range(4)
        )
        wide = _kinds(number)[0]
        whole = builder.and_(count, _WORD(-wide.count))

        def together(head, alike):
            sums = [_variable(builder, wide) for _ in range(TOGETHER)]

            def products(i):
                rows = None
                for number_of, total in enumerate(sums):
                    place = builder.add(head, _WORD(number_of))
                    asked = _load(builder, _at(builder, one, builder.add(builder.mul(place, step), i), wide))
                    if rows is None or not alike:
                        rows = _load(builder, _at(builder, two, builder.add(builder.mul(place, other_step), i), wide))
                    yield total, builder.fmul(asked, rows, flags=FLAGS)

            for total, product in products(_WORD(0)):
                builder.store(product, total)
            with cgutils.for_range_slice(builder, _WORD(wide.count), whole, _WORD(wide.count)) as (i, _):
                for total, product in products(i):
                    builder.store(builder.fadd(product, builder.load(total), flags=FLAGS), total)
            with builder.if_then(builder.icmp_signed("<", whole, count)):
                last, _, new = _ending(builder, whole, count, wide)
                for total, product in products(last):
                    added = new(product, _zero(wide))
                    builder.store(builder.fadd(added, builder.load(total), flags=FLAGS), total)
            totals = _totals(builder, [builder.load(total) for total in sums])
            kind = ir.VectorType(number, TOGETHER)
            builder.store(totals, _at(builder, into, head, kind)).align = 4

        def alone(head):
            sums = {kind: _variable(builder, kind) for kind in _kinds(number)}

            def add(i, kind, new):
                place = [builder.add(builder.mul(head, by), i) for by in (step, other_step)]
                rows = [_load(builder, _at(builder, base, where, kind)) for base, where in zip((one, two), place)]
                _add_product(builder, sums[kind], *(new(row, _zero(kind)) for row in rows))

            _for_each(builder, number, count, add)
            *vectors, total = (builder.load(total) for total in sums.values())
            for vector in vectors:
                total = builder.fadd(total, _total(builder, vector, number), flags=FLAGS)
            builder.store(total, builder.gep(into, [head]))

        grouped = builder.and_(heads, _WORD(-TOGETHER))
        grouped = builder.select(builder.icmp_signed(">", whole, _WORD(0)), grouped, _WORD(0))
        with builder.if_else(builder.icmp_signed("==", other_step, _WORD(0))) as branches:
            for branch, alike in zip(branches, (True, False)):
                with branch, cgutils.for_range_slice(builder, _WORD(0), grouped, _WORD(TOGETHER)) as (head, _):
                    together(head, alike)
        with cgutils.for_range_slice(builder, grouped, heads, _WORD(1)) as (head, _):
            alone(head)
        return context.get_dummy_value()

    return types.none(out, at, x, start, y, other, shape), build


@intrinsic
def add_rows(
    context: Any, out: Any, to: Any, weights: Any, places: Any, edges: Any, x: Any, shape: Any
) -> tuple[Any, Callable]:
    """`out[to + h step + i] += sum of weights[e, h] * x[u row + h other_step + i]` over some edges e that point at u, for all `i < count`.

    Args:
      weights: `[edges, heads]`; of edge e those at `places[e]`, unless `places` is None. None: 1 each.
      edges: `(indices, first, last)`: where every edge points at, and which are added.
      shape: `(heads, count, step, row, other_step)`, heads and steps as of `dots`.
    """
    placed, weighted = not isinstance(places, types.NoneType), not isinstance(weights, types.NoneType)

    def build(context, builder, signature, args):
        ids, first, last = (builder.extract_value(args[4], place) for place in range(3))
        first, last = (
            context.cast(builder, value, edges[place], types.intp) for place, value in ((1, first), (2, last))
        )
        number = context.get_value_type(out.dtype)
        given = [
            _place(context, builder, signature, args, 0, 1),
            _data(context, builder, x, args[5]),
            _data(context, builder, edges[0], ids),
            first,
            last,
            *_words(context, builder, shape, args[6]),
        ]
        given += [
            _data(context, builder, kind, args[n]) for n, kind in ((2, weights), (3, places)) if kind is not types.none
        ]
        _call(builder, f"add_rows.{weighted:d}.{placed:d}.{number}", given, functools.partial(write, number))
        return context.get_dummy_value()

    def write(number, builder, into, rows, ids, first, last, heads, count, step, row, other_step, *more):
        factors, positions = more[0] if weighted else None, more[-1] if placed else None

        def add(head, group, alike, at, kind, wide, new):
            beside = _beside(builder, at, kind, wide)
            sums = [[_variable(builder, kind) for _ in beside] for _ in range(group)]
            with cgutils.for_range_slice(builder, first, last, _WORD(1)) as (e, _):
                start = builder.mul(builder.sext(builder.load(builder.gep(ids, [e])), _WORD), row)
                if factors is not None:
                    place = e if positions is None else builder.sext(builder.load(builder.gep(positions, [e])), _WORD)
                    weight = builder.gep(factors, [builder.add(builder.mul(place, heads), head)])
                given = None
                for one, totals in enumerate(sums):
                    if given is None or not alike:
                        which = builder.add(start, builder.mul(builder.add(head, _WORD(one)), other_step))
                        given = [_load(builder, _at(builder, rows, builder.add(which, at), kind)) for at in beside]
                    if factors is None:
                        for total, vector in zip(totals, given):
                            builder.store(builder.fadd(vector, builder.load(total), flags=ORDERED), total)
                        continue
                    _add_products(builder, totals, builder.load(builder.gep(weight, [_WORD(one)])), given)
            for one, totals in enumerate(sums):
                start = builder.mul(builder.add(head, _WORD(one)), step)
                _add_to(builder, into, start, beside, totals, kind, new)

        def each(alike):
            grouped = builder.and_(heads, _WORD(-TOGETHER))
            for start, end, group in ((_WORD(0), grouped, TOGETHER), (grouped, heads, 1)):
                with cgutils.for_range_slice(builder, start, end, _WORD(group)) as (head, _):
                    _for_columns(builder, number, count, functools.partial(add, head, group, alike))

        with builder.if_else(builder.icmp_signed("==", other_step, _WORD(0))) as branches:
            for branch, alike in zip(branches, (True, False)):
                with branch:
                    each(alike)

    return types.none(out, to, weights, places, edges, x, shape), build


@intrinsic
def add_products(
    context: Any, out: Any, to: Any, x: Any, start: Any, y: Any, other: Any, shape: Any
) -> tuple[Any, Callable]:
    """`out[to + i step + j] += sum over r < count of x[start + i x_row + r x_step] * y[other + r y_step + j]`, all `i < rows`, `j < columns`.

    A product of matrices, of which the first may lie either way; sums are in the order of r, whatever is added together.

    Args:
      shape: `(count, rows, columns, step, x_row, x_step, y_step)`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(out.dtype)
        given = [_place(context, builder, signature, args, place, place + 1) for place in (0, 2, 4)]
        given += _words(context, builder, shape, args[6])
        _call(builder, f"add_products.{number}", given, functools.partial(write, number))
        return context.get_dummy_value()

    def write(number, builder, into, one, two, count, rows, columns, step, x_row, x_step, y_step):
        def add(i, j, tall, kind, wide, new):
            at = _beside(builder, j, kind, wide)
            sums = [[_variable(builder, kind) for _ in at] for _ in range(tall)]
            with cgutils.for_range_slice(builder, _WORD(0), count, _WORD(1)) as (r, _):
                left, right = builder.gep(one, [builder.mul(r, x_step)]), builder.gep(two, [builder.mul(r, y_step)])
                given = [_load(builder, _at(builder, right, where, kind)) for where in at]
                for line, totals in enumerate(sums):
                    place = builder.mul(builder.add(i, _WORD(line)), x_row)
                    _add_products(builder, totals, builder.load(builder.gep(left, [place])), given)
            for line, totals in enumerate(sums):
                row = builder.mul(builder.add(i, _WORD(line)), step)
                _add_to(builder, into, row, at, totals, kind, new)

        def of_rows(j, kind, wide, new):
            for i, tall in _tiles(builder, rows, _heights(wide)):
                add(i, j, tall, kind, wide, new)

        _for_columns(builder, number, columns, of_rows)

    return types.none(out, to, x, start, y, other, shape), build


def _heights(wide):
    """Of tiles so many vectors wide: their sums fit a processor's registers, of which AVX-512 has twice as many as others, and so do the places of their rows."""
    return (6, 4, 1) if wide > 1 else (8, 4, 1) if WIDE > 1 else (6, 4, 1)


def _tiles(builder, count, sizes):
    """Inside a loop for each of some tiles, largest first, `(place, size)`: as many of a size as fit are taken at a time."""
    start = _WORD(0)
    for size in sizes:
        left = builder.sub(count, start)
        end = builder.add(start, builder.sub(left, builder.urem(left, _WORD(size))))
        with cgutils.for_range_slice(builder, start, end, _WORD(size)) as (place, _):
            yield place, size
        start = end


@intrinsic
def bend(
    context: Any, logits: Any, x: Any, ids: Any, offsets: Any, slope: Any, largest: Any, shape: Any
) -> tuple[Any, Callable]:
    """`logits[e, h] = LeakyReLU(x[u, h] + offsets[t, h])` of the edges e from u into t, and `largest[t, h]` the largest of them.

    Args:
      x: `[rows, heads]`, of which u is `ids[e]`; without `ids` it is e.
      slope: of the leaky ReLU below zero.
      shape: `(heads, t, first, last)`, the last two of t's edges.
    """
    picked = not isinstance(ids, types.NoneType)

    def build(context, builder, signature, args):
        number = context.get_value_type(logits.dtype)
        heads, target, first, last = _words(context, builder, shape, args[6])
        into, given, of_target, most = (_data(context, builder, signature.args[n], args[n]) for n in (0, 1, 3, 5))
        rows = _data(context, builder, ids, args[2]) if picked else None
        slant = _cast(context, builder, signature, args, 4, logits.dtype)

        def each(head, kind):
            at = builder.add(builder.mul(target, heads), head)
            offset, top = _load(builder, _at(builder, of_target, at, kind)), cgutils.alloca_once(builder, kind)
            builder.store(_everywhere(kind, float("-inf")), top)
            bent = slant if kind is number else _spread(builder, slant, kind)
            with cgutils.for_range_slice(builder, first, last, _WORD(1)) as (e, _):
                row = e if rows is None else builder.sext(builder.load(builder.gep(rows, [e])), _WORD)
                place = builder.add(builder.mul(row, heads), head)
                logit = builder.fadd(_load(builder, _at(builder, given, place, kind)), offset)
                below = builder.fcmp_ordered("<", logit, _zero(kind))
                logit = builder.select(below, builder.fmul(bent, logit), logit)
                place = _at(builder, into, builder.add(builder.mul(e, heads), head), kind)
                builder.store(logit, place).align = 4
                before = builder.load(top)
                builder.store(builder.select(builder.fcmp_ordered(">", logit, before), logit, before), top)
            builder.store(builder.load(top), _at(builder, most, at, kind)).align = 4

        _for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(logits, x, ids, offsets, slope, largest, shape), build


@intrinsic
def shift(context: Any, weights: Any, logits: Any, largest: Any, shape: Any) -> tuple[Any, Callable]:
    """`weights[e, h] = logits[e, h] - largest[t, h]` of the edges e into t, which is taken as 0 if it is minus infinity.

    Args:
      shape: as of `bend`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(weights.dtype)
        heads, target, first, last = _words(context, builder, shape, args[3])
        into, given, most = (_data(context, builder, signature.args[n], args[n]) for n in range(3))

        def each(head, kind):
            top = _load(builder, _at(builder, most, builder.add(builder.mul(target, heads), head), kind))
            some = builder.fcmp_ordered(">", top, _everywhere(kind, float("-inf")))
            top = builder.select(some, top, _zero(kind))
            with cgutils.for_range_slice(builder, first, last, _WORD(1)) as (e, _):
                place = builder.add(builder.mul(e, heads), head)
                less = builder.fsub(_load(builder, _at(builder, given, place, kind)), top)
                builder.store(less, _at(builder, into, place, kind)).align = 4

        _for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(weights, logits, largest, shape), build


@intrinsic
def total_weights(context: Any, total: Any, weights: Any, shape: Any) -> tuple[Any, Callable]:
    """`total[t, h]`, the sum of `weights[e, h]` over the edges e into t, in their order.

    Args:
      shape: as of `bend`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(total.dtype)
        heads, target, first, last = _words(context, builder, shape, args[2])
        into, given = (_data(context, builder, signature.args[n], args[n]) for n in range(2))

        def each(head, kind):
            found = _variable(builder, kind)
            with cgutils.for_range_slice(builder, first, last, _WORD(1)) as (e, _):
                weight = _load(builder, _at(builder, given, builder.add(builder.mul(e, heads), head), kind))
                builder.store(builder.fadd(builder.load(found), weight), found)
            at = builder.add(builder.mul(target, heads), head)
            builder.store(builder.load(found), _at(builder, into, at, kind)).align = 4

        _for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(total, weights, shape), build


@intrinsic
def unbend(
    context: Any, change: Any, weights: Any, logits: Any, more: Any, slope: Any, shape: Any
) -> tuple[Any, Callable]:
    """`change[e, h]`, the gradient of a weight's numerator, becomes that of the logit, of the edges e into t.

    It is multiplied by the weight once `more[t, h]` is added, and by the slope where the logit is below zero.

    Args:
      slope, shape: as of `bend`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(change.dtype)
        heads, target, first, last = _words(context, builder, shape, args[5])
        into, of_edges, bent, of_target = (_data(context, builder, signature.args[n], args[n]) for n in range(4))
        slant = _cast(context, builder, signature, args, 4, change.dtype)

        def each(head, kind):
            besides = _load(builder, _at(builder, of_target, builder.add(builder.mul(target, heads), head), kind))
            factor, one = slant if kind is number else _spread(builder, slant, kind), _everywhere(kind, 1.0)
            with cgutils.for_range_slice(builder, first, last, _WORD(1)) as (e, _):
                place = builder.add(builder.mul(e, heads), head)
                there, weight, logit = (_at(builder, array, place, kind) for array in (into, of_edges, bent))
                found = builder.fmul(_load(builder, weight), builder.fadd(_load(builder, there), besides))
                below = builder.fcmp_ordered("<", _load(builder, logit), _zero(kind))
                builder.store(builder.fmul(found, builder.select(below, factor, one)), there).align = 4

        _for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(change, weights, logits, more, slope, shape), build


@intrinsic
def exponentials(context: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """`x[start + i] = exp(x[start + i])` for all `i < count`, of numbers that are at most 0; float64 as the C library does.

    Of float32 by the polynomial of Moshier's Cephes, with an error of some units in the last place, and zero below `LEAST`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        into = _place(context, builder, signature, args, 0, 1)
        count = _cast(context, builder, signature, args, 2, types.intp)

        def replace(at, kind, new):
            place = _at(builder, into, at, kind)
            before = _load(builder, place)
            builder.store(new(_exponential(builder, before, kind), before), place).align = 4

        if isinstance(number, ir.DoubleType):
            exp = builder.module.declare_intrinsic("llvm.exp", [number])
            with cgutils.for_range_slice(builder, _WORD(0), count, _WORD(1)) as (at, _):
                place = builder.gep(into, [at])
                builder.store(builder.call(exp, [builder.load(place)]), place)
        else:
            _for_each(builder, number, count, replace)
        return context.get_dummy_value()

    return types.none(x, start, count), build


def _exponential(builder, x, kind):
    """Of a float32 at most 0, or a vector of them: `2 ** n` times the exponential of what is left, at most `log(2) / 2`."""
    whole = ir.VectorType(_INT32, kind.count) if isinstance(kind, ir.VectorType) else _INT32

    def spread(value, kind):
        return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)

    def multiply_add(one, other, more):
        return builder.fadd(builder.fmul(one, other, flags=("contract",)), more, flags=("contract",))

    name = "llvm.rint." + (f"v{kind.count}f32" if isinstance(kind, ir.VectorType) else "f32")
    rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
    n = builder.call(rint, [builder.fmul(x, spread(1.44269504088896341, kind))])
    rest = multiply_add(n, spread(-0.693359375, kind), x)
    rest = multiply_add(n, spread(2.12194440e-4, kind), rest)
    total = spread(CEPHES[0], kind)
    for factor in (*CEPHES[1:], 1.0, 1.0):
        total = multiply_add(total, rest, spread(factor, kind))
    power = builder.shl(builder.add(builder.fptosi(n, whole), spread(127, whole)), spread(23, whole))
    found = builder.fmul(total, builder.bitcast(power, kind))
    return builder.select(builder.fcmp_ordered("<", x, spread(LEAST, kind)), spread(0.0, kind), found)


def _call(builder, name, values, write):
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


def _variable(builder, kind):
    """A variable that starts as zero, which LLVM keeps in a register."""
    variable = cgutils.alloca_once(builder, kind)
    builder.store(_zero(kind), variable)
    return variable


def _add_product(builder, total, one, other, flags=FLAGS):
    product = builder.fmul(one, other, flags=flags)
    builder.store(builder.fadd(product, builder.load(total), flags=flags), total)


def _add_products(builder, totals, scale, vectors):
    """Add vectors, or numbers, times one number to as many sums."""
    kind = vectors[0].type
    scale = scale if kind == scale.type else _spread(builder, scale, kind)
    for total, vector in zip(totals, vectors):
        _add_product(builder, total, scale, vector, ORDERED)


def _totals(builder, vectors):
    """The sums of vectors, as many as a power of two, as one vector: two at a time share what is added."""
    count = vectors[0].type.count
    pieces = 1  # that a vector holds, of as many vectors as were given

    def halves(one, other, parts):
        """The first halves of all parts of both, and the second."""
        size = one.type.count // parts
        for first in (0, size // 2):
            yield _shuffled(
                builder,
                one,
                other,
                [
                    part * size + first + i
                    for part in range(2 * parts if other is not None else parts)
                    for i in range(size // 2)
                ],
            )

    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2])
        vectors = [builder.fadd(*halves(one, other, pieces), flags=FLAGS) for one, other in pairs]
        pieces *= 2
    (total,) = vectors
    while total.type.count > pieces:
        total = builder.fadd(*halves(total, None, pieces), flags=FLAGS)
    assert count >= pieces
    return total


def _shuffled(builder, one, other, lanes):
    mask = ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes)
    return builder.shuffle_vector(one, ir.Constant(one.type, ir.Undefined) if other is None else other, mask)


def _kinds(number: ir.Type) -> list[ir.Type]:
    """Vectors of some numbers, longest first, and one number."""
    size = 8 if isinstance(number, ir.DoubleType) else 4
    return [*(ir.VectorType(number, width // size) for width in BYTES), number]


def _for_each(builder, number, count, body, start=None):
    """Call `body(place, kind, new)` for vectors that cover the numbers from `start` to `count`: the longest, if `count` has one, else the shorter, else number by number.

    `start` is a multiple of the longest, 0 if `count` is less. The last vector ends with the last number, so it may have some of the one before too:
    `new(now, before)` has `before` of these.
    """
    start = _WORD(0) if start is None else start
    longest, short, _ = _kinds(number)
    fits, lanes = builder.icmp_signed(">=", count, _WORD(longest.count)), _WORD(longest.count)
    whole = builder.select(fits, builder.and_(count, _WORD(-longest.count)), start)
    with cgutils.for_range_slice(builder, start, whole, lanes) as (at, _):
        body(at, longest, _all)
    with builder.if_then(builder.and_(fits, builder.icmp_signed("<", whole, count))):
        body(*_ending(builder, whole, count, longest))
    start = builder.select(fits, count, start)
    for kind in (short, number):
        size = 1 if kind is number else kind.count
        end = builder.select(builder.icmp_signed(">=", count, _WORD(size)), count, start)
        with cgutils.for_range_slice(builder, start, end, _WORD(size)) as (at, _):
            body(*((at, kind, _all) if kind is number else _ending(builder, at, count, kind)))
        start = end


def _for_columns(builder, number, count, body):
    """As `_for_each`, `body(place, kind, wide, new)`: first `WIDE` of the longest vectors at a time."""
    done, longest = _WORD(0), _kinds(number)[0]
    if WIDE > 1:
        lanes = _WORD(WIDE * longest.count)
        done = builder.sub(count, builder.urem(count, lanes))
        with cgutils.for_range_slice(builder, _WORD(0), done, lanes) as (at, _):
            body(at, longest, WIDE, _all)
    _for_each(builder, number, count, lambda at, kind, new: body(at, kind, 1, new), done)


def _beside(builder, at, kind, wide):
    """The places of so many vectors, one after the other."""
    lanes = kind.count if isinstance(kind, ir.VectorType) else 1
    return [builder.add(at, _WORD(part * lanes)) for part in range(wide)]


def _add_to(builder, into, start, places, totals, kind, new):
    """Add sums to what is there already."""
    for where, total in zip(places, totals):
        place = _at(builder, into, builder.add(start, where), kind)
        before = _load(builder, place)
        added = builder.fadd(before, builder.load(total), flags=ORDERED)
        builder.store(new(added, before), place).align = 4


def _ending(builder, at, count, kind):
    """Of a vector that begins at `at`, or before so that it does not end after `count`: what `_for_each` calls `body` with."""
    last = builder.sub(count, _WORD(kind.count))
    place = builder.select(builder.icmp_signed(">", at, last), last, at)

    def new(now, before):
        lanes = ir.VectorType(_INT32, kind.count)
        seen = _spread(builder, builder.trunc(builder.sub(at, place), _INT32), lanes)
        is_new = builder.icmp_signed(">=", ir.Constant(lanes, list(range(kind.count))), seen)
        return builder.select(is_new, now, before)

    return place, kind, new


def _all(now, before):
    return now


def _for_heads(builder, number, heads, body):
    """Call `body(head, kind)` for as many heads together as are a vector, and then for each that is left."""
    together = builder.and_(heads, _WORD(-TOGETHER))
    for start, end, kind in ((_WORD(0), together, ir.VectorType(number, TOGETHER)), (together, heads, number)):
        with cgutils.for_range_slice(builder, start, end, _WORD(TOGETHER if start is not together else 1)) as (head, _):
            body(head, kind)


def _words(context, builder, shape, values):
    """The numbers of a tuple, as words."""
    return [
        context.cast(builder, builder.extract_value(values, place), shape[place], types.intp)
        for place in range(len(shape))
    ]


def _cast(context, builder, signature, args, position, kind):
    return context.cast(builder, args[position], signature.args[position], kind)


def _place(context, builder, signature, args, array, start):
    """Where an array's numbers from `start` on lie."""
    data = context.make_array(signature.args[array])(context, builder, args[array]).data
    return builder.gep(data, [_cast(context, builder, signature, args, start, types.intp)])


def _data(context, builder, kind, array):
    """Where an array's numbers lie."""
    return context.make_array(kind)(context, builder, array).data


def _at(builder, pointer, place, kind):
    return builder.bitcast(builder.gep(pointer, [place]), kind.as_pointer())


def _load(builder, pointer):
    return builder.load(pointer, align=4)


def _zero(kind: ir.Type) -> ir.Constant:
    return _everywhere(kind, 0.0)


def _everywhere(kind: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


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
