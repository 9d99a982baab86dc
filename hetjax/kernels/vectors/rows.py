"""Rows that are cleared, copied, and added to others."""

import functools
from collections.abc import Callable
from typing import Any

from numba import types

from hetjax.kernels.vectors.building import (
    WORD,
    call,
    cast,
    data_of,
    kinds,
    load,
    pointer_at,
    spread,
    start_of,
    variable,
    words,
    zero,
)
from hetjax.kernels.vectors.loops import TOGETHER, for_columns, for_each, for_short, for_vectors, side_by_side
from hetjax.kernels.vectors.sums import FLAGS, ORDERED, add_multiples, add_product, add_to, repeated
from hetjax.system.compiled import intrinsic
from hetjax.system.internals import numba_parts

cgutils, _ = numba_parts()


@intrinsic
def clear(context: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """Set `x[start + i] = 0` for all `i < count`; an array in C order, as if it had one dimension."""

    def build(context, builder, signature, args):
        number, into = context.get_value_type(x.dtype), start_of(context, builder, signature, args, 0, 1)

        def put(at, kind, _):
            builder.store(zero(kind), pointer_at(builder, into, at, kind)).align = 4

        for_each(builder, number, cast(context, builder, signature, args, 2, types.intp), put)
        return context.get_dummy_value()

    return types.none(x, start, count), build


@intrinsic
def copy(context: Any, out: Any, to: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """Copy `out[to + i] = x[start + i]` for all `i < count`; arrays in C order, as if they had one dimension, that do not overlap."""

    def build(context, builder, signature, args):
        into, given = (
            start_of(context, builder, signature, args, 0, 1),
            start_of(context, builder, signature, args, 2, 3),
        )
        cgutils.raw_memcpy(
            builder, into, given, cast(context, builder, signature, args, 4, types.intp), out.dtype.bitwidth // 8
        )
        return context.get_dummy_value()

    return types.none(out, to, x, start, count), build


@intrinsic
def add_scaled(context: Any, out: Any, to: Any, scale: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """Add `out[to + i] += scale * x[start + i]` for all `i < count`; arrays in C order, as if they had one dimension."""

    def build(context, builder, signature, args):
        number, scale = context.get_value_type(out.dtype), cast(context, builder, signature, args, 2, out.dtype)
        into, rows = (
            start_of(context, builder, signature, args, 0, 1),
            start_of(context, builder, signature, args, 3, 4),
        )

        def add(at, kind, new):
            sums, given = pointer_at(builder, into, at, kind), pointer_at(builder, rows, at, kind)
            weight = scale if kind is number else spread(builder, scale, kind)
            product, before = builder.fmul(weight, load(builder, given), flags=FLAGS), load(builder, sums)
            builder.store(new(builder.fadd(product, before, flags=FLAGS), before), sums).align = 4

        for_each(builder, number, cast(context, builder, signature, args, 5, types.intp), add)
        return context.get_dummy_value()

    return types.none(out, to, scale, x, start, count), build


@intrinsic
def add_rows(
    context: Any, out: Any, to: Any, weights: Any, places: Any, edges: Any, x: Any, shape: Any
) -> tuple[Any, Callable]:
    """Add `out[to + h step + i] += sum of weights[e, h] * x[u row + h other_step + i]` over some edges e that point at
    u, for all `i < count`.

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
            start_of(context, builder, signature, args, 0, 1),
            data_of(context, builder, x, args[5]),
            data_of(context, builder, edges[0], ids),
            first,
            last,
            *words(context, builder, shape, args[6]),
        ]
        given += [
            data_of(context, builder, kind, args[n])
            for n, kind in ((2, weights), (3, places))
            if kind is not types.none
        ]
        call(builder, f"add_rows.{weighted:d}.{placed:d}.{number}", given, functools.partial(write, number))
        return context.get_dummy_value()

    def write(number, builder, into, rows, ids, first, last, heads, count, step, row, other_step, *more):
        factors, positions = more[0] if weighted else None, more[-1] if placed else None
        longest, all_heads = kinds(number)[0], heads

        def weights_at(e, head):
            place = e if positions is None else builder.sext(builder.load(builder.gep(positions, [e])), WORD)
            return builder.gep(factors, [builder.add(builder.mul(place, all_heads), head)])

        def add_short(size):
            """Add the rows of heads of so many elements, as in `for_short`."""

            def add(at, wide, new):
                beside = side_by_side(builder, at, longest, wide)
                sums = [variable(builder, longest) for _ in beside]
                with cgutils.for_range_slice(builder, first, last, WORD(1)) as (e, _):
                    start = builder.mul(builder.sext(builder.load(builder.gep(ids, [e])), WORD), row)
                    for where, total in zip(beside, sums):
                        own = weights_at(e, builder.udiv(where, WORD(size)))
                        scale = repeated(builder, own, longest, size)
                        given = load(builder, pointer_at(builder, rows, builder.add(start, where), longest))
                        add_product(builder, total, scale, given, ORDERED)
                add_to(builder, into, WORD(0), beside, sums, longest, new)

            for_vectors(builder, longest, builder.mul(all_heads, count), add)

        def add(head, group, alike, at, kind, wide, new):
            beside = side_by_side(builder, at, kind, wide)
            sums = [[variable(builder, kind) for _ in beside] for _ in range(group)]
            with cgutils.for_range_slice(builder, first, last, WORD(1)) as (e, _):
                start = builder.mul(builder.sext(builder.load(builder.gep(ids, [e])), WORD), row)
                weight = None if factors is None else weights_at(e, head)
                given = None
                for one, totals in enumerate(sums):
                    if given is None or not alike:
                        which = builder.add(start, builder.mul(builder.add(head, WORD(one)), other_step))
                        given = [
                            load(builder, pointer_at(builder, rows, builder.add(which, at), kind)) for at in beside
                        ]
                    if weight is None:
                        for total, vector in zip(totals, given):
                            builder.store(builder.fadd(vector, builder.load(total), flags=ORDERED), total)
                        continue
                    add_multiples(builder, totals, builder.load(builder.gep(weight, [WORD(one)])), given)
            for one, totals in enumerate(sums):
                start = builder.mul(builder.add(head, WORD(one)), step)
                add_to(builder, into, start, beside, totals, kind, new)

        def each(alike):
            grouped = builder.and_(heads, WORD(-TOGETHER))
            for start, end, group in ((WORD(0), grouped, TOGETHER), (grouped, heads, 1)):
                with cgutils.for_range_slice(builder, start, end, WORD(group)) as (head, _):
                    for_columns(builder, number, count, functools.partial(add, head, group, alike))

        if weighted:
            heads = for_short(builder, longest, (heads, count, step, other_step), add_short)
        with builder.if_else(builder.icmp_signed("==", other_step, WORD(0))) as branches:
            for branch, alike in zip(branches, (True, False)):
                with branch:
                    each(alike)

    return types.none(out, to, weights, places, edges, x, shape), build
