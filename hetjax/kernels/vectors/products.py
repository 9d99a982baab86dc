"""Products of rows, of several heads' rows, and of matrices."""

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.kernels.vectors.building import (
    WORD,
    call,
    cast,
    data_of,
    kinds,
    load,
    pointer_at,
    start_of,
    variable,
    words,
    zero,
)
from hetjax.kernels.vectors.loops import (
    TOGETHER,
    ending,
    for_columns,
    for_each,
    for_short,
    heights,
    side_by_side,
    tiles,
)
from hetjax.kernels.vectors.sums import FLAGS, add_multiples, add_product, add_to, total_of, totals_of, totals_of_parts
from hetjax.system.compiled import intrinsic
from hetjax.system.internals import numba_parts
from hetjax.system.prefetch import prefetch_line

cgutils, _ = numba_parts()
SIDE = 64  # rows and columns of a block that is prefetched, a power of two


@intrinsic
def dot(context: Any, x: Any, start: Any, y: Any, other: Any, count: Any) -> tuple[Any, Callable]:
    """Return the sum of `x[start + i] * y[other + i]` over all `i < count`, in any order; the arrays are as in `add_scaled`."""

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        one, two = start_of(context, builder, signature, args, 0, 1), start_of(context, builder, signature, args, 2, 3)
        sums = {kind: variable(builder, kind) for kind in kinds(number)}

        def add(at, kind, new):
            rows = [new(load(builder, pointer_at(builder, base, at, kind)), zero(kind)) for base in (one, two)]
            add_product(builder, sums[kind], *rows)

        for_each(builder, number, cast(context, builder, signature, args, 4, types.intp), add)
        *vectors, total = (builder.load(sums[kind]) for kind in kinds(number))
        for vector in vectors:
            total = builder.fadd(total, total_of(builder, vector), flags=FLAGS)
        return total

    return x.dtype(x, start, y, other, count), build


@intrinsic
def dots(
    context: Any, out: Any, at: Any, x: Any, start: Any, y: Any, other: Any, shape: Any, ahead: Any
) -> tuple[Any, Callable]:
    """Compute `out[at + h] = sum of x[start + h step + i] * y[other + h other_step + i]` over all `i < count`, for all `h < heads`.

    Arrays and sums are as of `dot`. Heads are taken `TOGETHER` at a time, which read `y` once if `other_step` is 0, unless several share a vector (`for_short`).

    Args:
      shape: `(heads, count, step, other_step)`.
      ahead: the `other` of a later call. Its input is prefetched here, a line for each vector that is multiplied: a processor has room for some two
        dozen lines that it waits for, and stands still if it is asked for more at once.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        into, one, two = (start_of(context, builder, signature, args, place, place + 1) for place in (0, 2, 4))
        soon = start_of(context, builder, signature, args, 4, 7)
        heads, count, step, other_step = (
            context.cast(builder, builder.extract_value(args[6], place), shape[place], types.intp) for place in range(4)
        )
        wide = kinds(number)[0]
        whole = builder.and_(count, WORD(-wide.count))
        end = builder.add(builder.mul(builder.sub(heads, WORD(1)), other_step), builder.sub(count, WORD(1)))
        prefetch_line(builder, builder.gep(soon, [end]))  # the last line, into which no vector's beginning may fall
        short = functools.partial(_short_dots, builder, into, one, two, soon, builder.mul(heads, count), wide)
        heads = for_short(builder, wide, (heads, count, step, other_step), short)

        def asked_by(head):
            """Return the prefetched place. If heads read the same, only the first asks for what is next."""
            asks = builder.or_(builder.icmp_signed("==", head, WORD(0)), builder.icmp_signed("!=", other_step, WORD(0)))
            return builder.select(asks, soon, two)

        def together(head, alike):
            sums = [variable(builder, wide) for _ in range(TOGETHER)]
            next_rows = asked_by(head)

            def products(i):
                rows = None
                for number_of, total in enumerate(sums):
                    place = builder.add(head, WORD(number_of))
                    asked = load(builder, pointer_at(builder, one, builder.add(builder.mul(place, step), i), wide))
                    if rows is None or not alike:
                        where = builder.add(builder.mul(place, other_step), i)
                        prefetch_line(builder, builder.gep(next_rows, [where]))
                        rows = load(builder, pointer_at(builder, two, where, wide))
                    yield total, builder.fmul(asked, rows, flags=FLAGS)

            for total, product in products(WORD(0)):
                builder.store(product, total)
            with cgutils.for_range_slice(builder, WORD(wide.count), whole, WORD(wide.count)) as (i, _):
                for total, product in products(i):
                    builder.store(builder.fadd(product, builder.load(total), flags=FLAGS), total)
            with builder.if_then(builder.icmp_signed("<", whole, count)):
                last, _, new = ending(builder, whole, count, wide)
                for total, product in products(last):
                    added = new(product, zero(wide))
                    builder.store(builder.fadd(added, builder.load(total), flags=FLAGS), total)
            totals = totals_of(builder, [builder.load(total) for total in sums])
            kind = ir.VectorType(number, TOGETHER)
            builder.store(totals, pointer_at(builder, into, head, kind)).align = 4

        def alone(head):
            sums = {kind: variable(builder, kind) for kind in kinds(number)}
            next_rows = asked_by(head)
            prefetch_line(builder, builder.gep(next_rows, [builder.mul(head, other_step)]))

            def add(i, kind, new):
                place = [builder.add(builder.mul(head, by), i) for by in (step, other_step)]
                if kind is wide:
                    prefetch_line(builder, builder.gep(next_rows, [place[1]]))
                rows = [load(builder, pointer_at(builder, base, where, kind)) for base, where in zip((one, two), place)]
                add_product(builder, sums[kind], *(new(row, zero(kind)) for row in rows))

            for_each(builder, number, count, add)
            *vectors, total = (builder.load(total) for total in sums.values())
            for vector in vectors:
                total = builder.fadd(total, total_of(builder, vector), flags=FLAGS)
            builder.store(total, builder.gep(into, [head]))

        grouped = builder.and_(heads, WORD(-TOGETHER))
        grouped = builder.select(builder.icmp_signed(">", whole, WORD(0)), grouped, WORD(0))
        with builder.if_else(builder.icmp_signed("==", other_step, WORD(0))) as branches:
            for branch, alike in zip(branches, (True, False)):
                with branch, cgutils.for_range_slice(builder, WORD(0), grouped, WORD(TOGETHER)) as (head, _):
                    together(head, alike)
        with cgutils.for_range_slice(builder, grouped, heads, WORD(1)) as (head, _):
            alone(head)
        return context.get_dummy_value()

    return types.none(out, at, x, start, y, other, shape, ahead), build


def _short_dots(builder, into, one, two, soon, count, wide, size):
    """Compute `dots` for heads of so many elements, `count` altogether, as in `for_short`."""
    with cgutils.for_range_slice(builder, WORD(0), count, WORD(wide.count)) as (i, _):
        at, *_ = ending(builder, i, count, wide)
        prefetch_line(builder, builder.gep(soon, [i]))
        rows = [load(builder, pointer_at(builder, base, at, wide)) for base in (one, two)]
        totals = totals_of_parts(builder, builder.fmul(*rows, flags=FLAGS), size)
        head = builder.udiv(at, WORD(size))
        builder.store(totals, pointer_at(builder, into, head, totals.type)).align = 4


@intrinsic
def add_products(
    context: Any, out: Any, to: Any, x: Any, start: Any, y: Any, other: Any, shape: Any, ahead: Any
) -> tuple[Any, Callable]:
    """Compute `out[to + i step + j] += sum over r < count of x[start + i x_row + r x_step] * y[other + r y_step + j]`,
    all `i < rows`, `j < columns`.

    A product of matrices, of which the first may lie either way; sums are in the order of r, whatever is added together.

    Args:
      shape: `(count, rows, columns, step, x_row, x_step, y_step)`.
      ahead: `(array, place, step)`: the block that is read next, `array[place + i step + j]` for all `i < rows`, `j < SIDE`, is prefetched
        meanwhile; all of it if `count` is `SIDE`. Requests are spread over the loop, as a processor waits after about 16 of them. None: no prefetch.
    """
    asked = not isinstance(ahead, types.NoneType)

    def build(context, builder, signature, args):
        number = context.get_value_type(out.dtype)
        given = [start_of(context, builder, signature, args, place, place + 1) for place in (0, 2, 4)]
        given += words(context, builder, shape, args[6])
        if asked:
            array, place, by = (builder.extract_value(args[7], n) for n in range(3))
            place, by = (context.cast(builder, value, ahead[n], types.intp) for n, value in ((1, place), (2, by)))
            given += [builder.gep(data_of(context, builder, ahead[0], array), [place]), by]
        call(builder, f"add_products.{asked:d}.{number}", given, functools.partial(write, number))
        return context.get_dummy_value()

    def write(number, builder, into, one, two, count, rows, columns, step, x_row, x_step, y_step, *more):
        def add(i, j, tall, kind, wide, new):
            at = side_by_side(builder, j, kind, wide)
            sums = [[variable(builder, kind) for _ in at] for _ in range(tall)]
            with cgutils.for_range_slice(builder, WORD(0), count, WORD(1)) as (r, _):
                left, right = builder.gep(one, [builder.mul(r, x_step)]), builder.gep(two, [builder.mul(r, y_step)])
                given = [load(builder, pointer_at(builder, right, where, kind)) for where in at]
                if asked:
                    soon, by = more
                    nth = builder.mul(r, WORD(tall))  # of the block's numbers in the rows i to i + tall
                    row, column = builder.add(i, builder.udiv(nth, WORD(SIDE))), builder.urem(nth, WORD(SIDE))
                    prefetch_line(builder, builder.gep(soon, [builder.add(builder.mul(row, by), column)]))
                for line, totals in enumerate(sums):
                    place = builder.mul(builder.add(i, WORD(line)), x_row)
                    add_multiples(builder, totals, builder.load(builder.gep(left, [place])), given)
            for line, totals in enumerate(sums):
                row = builder.mul(builder.add(i, WORD(line)), step)
                add_to(builder, into, row, at, totals, kind, new)

        def of_rows(j, kind, wide, new):
            for i, tall in tiles(builder, rows, heights(wide)):
                add(i, j, tall, kind, wide, new)

        for_columns(builder, number, columns, of_rows)

    return types.none(out, to, x, start, y, other, shape, ahead), build
