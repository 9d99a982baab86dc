"""The softmax of a target's edges and its gradient, step by step."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.kernels.vectors.building import (
    INT32,
    WORD,
    cast,
    data_of,
    everywhere,
    load,
    pointer_at,
    spread,
    start_of,
    variable,
    words,
    zero,
)
from hetjax.kernels.vectors.loops import for_each, for_heads
from hetjax.system.compiled import intrinsic
from hetjax.system.internals import numba_parts

cgutils, _ = numba_parts()
LEAST = -87.0  # whose exponential, and that of what is less, is taken as zero
CEPHES = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1


@intrinsic
def bend(
    context: Any, logits: Any, x: Any, ids: Any, offsets: Any, slope: Any, largest: Any, shape: Any
) -> tuple[Any, Callable]:
    """Compute `logits[e, h] = LeakyReLU(x[u, h] + offsets[t, h])` of the edges e from u into t, and `largest[t, h]`, the largest of them.

    Args:
      x: `[rows, heads]`, of which u is `ids[e]`; without `ids` it is e.
      slope: of the leaky ReLU below zero.
      shape: `(heads, t, first, last)`, the last two of t's edges.
    """
    picked = not isinstance(ids, types.NoneType)

    def build(context, builder, signature, args):
        number = context.get_value_type(logits.dtype)
        heads, target, first, last = words(context, builder, shape, args[6])
        into, given, of_target, most = (data_of(context, builder, signature.args[n], args[n]) for n in (0, 1, 3, 5))
        rows = data_of(context, builder, ids, args[2]) if picked else None
        slant = cast(context, builder, signature, args, 4, logits.dtype)

        def each(head, kind):
            at = builder.add(builder.mul(target, heads), head)
            offset, top = load(builder, pointer_at(builder, of_target, at, kind)), cgutils.alloca_once(builder, kind)
            builder.store(everywhere(kind, float("-inf")), top)
            bent = slant if kind is number else spread(builder, slant, kind)
            with cgutils.for_range_slice(builder, first, last, WORD(1)) as (e, _):
                row = e if rows is None else builder.sext(builder.load(builder.gep(rows, [e])), WORD)
                place = builder.add(builder.mul(row, heads), head)
                logit = builder.fadd(load(builder, pointer_at(builder, given, place, kind)), offset)
                below = builder.fcmp_ordered("<", logit, zero(kind))
                logit = builder.select(below, builder.fmul(bent, logit), logit)
                place = pointer_at(builder, into, builder.add(builder.mul(e, heads), head), kind)
                builder.store(logit, place).align = 4
                before = builder.load(top)
                builder.store(builder.select(builder.fcmp_ordered(">", logit, before), logit, before), top)
            builder.store(builder.load(top), pointer_at(builder, most, at, kind)).align = 4

        for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(logits, x, ids, offsets, slope, largest, shape), build


@intrinsic
def shift(context: Any, weights: Any, logits: Any, largest: Any, shape: Any) -> tuple[Any, Callable]:
    """Compute `weights[e, h] = logits[e, h] - largest[t, h]` of the edges e into t; `largest` is taken as 0 if it is minus infinity.

    Args:
      shape: as of `bend`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(weights.dtype)
        heads, target, first, last = words(context, builder, shape, args[3])
        into, given, most = (data_of(context, builder, signature.args[n], args[n]) for n in range(3))

        def each(head, kind):
            top = load(builder, pointer_at(builder, most, builder.add(builder.mul(target, heads), head), kind))
            some = builder.fcmp_ordered(">", top, everywhere(kind, float("-inf")))
            top = builder.select(some, top, zero(kind))
            with cgutils.for_range_slice(builder, first, last, WORD(1)) as (e, _):
                place = builder.add(builder.mul(e, heads), head)
                less = builder.fsub(load(builder, pointer_at(builder, given, place, kind)), top)
                builder.store(less, pointer_at(builder, into, place, kind)).align = 4

        for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(weights, logits, largest, shape), build


@intrinsic
def total_weights(context: Any, total: Any, weights: Any, shape: Any) -> tuple[Any, Callable]:
    """Compute `total[t, h]`, the sum of `weights[e, h]` over the edges e into t, in their order.

    Args:
      shape: as of `bend`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(total.dtype)
        heads, target, first, last = words(context, builder, shape, args[2])
        into, given = (data_of(context, builder, signature.args[n], args[n]) for n in range(2))

        def each(head, kind):
            found = variable(builder, kind)
            with cgutils.for_range_slice(builder, first, last, WORD(1)) as (e, _):
                weight = load(builder, pointer_at(builder, given, builder.add(builder.mul(e, heads), head), kind))
                builder.store(builder.fadd(builder.load(found), weight), found)
            at = builder.add(builder.mul(target, heads), head)
            builder.store(builder.load(found), pointer_at(builder, into, at, kind)).align = 4

        for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(total, weights, shape), build


@intrinsic
def unbend(
    context: Any, change: Any, weights: Any, logits: Any, more: Any, slope: Any, shape: Any
) -> tuple[Any, Callable]:
    """Turn `change[e, h]`, the gradient of a weight's numerator, into that of the logit, for the edges e into t.

    It is multiplied by the weight once `more[t, h]` is added, and by the slope where the logit is below zero.

    Args:
      slope, shape: as of `bend`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(change.dtype)
        heads, target, first, last = words(context, builder, shape, args[5])
        into, of_edges, bent, of_target = (data_of(context, builder, signature.args[n], args[n]) for n in range(4))
        slant = cast(context, builder, signature, args, 4, change.dtype)

        def each(head, kind):
            besides = load(builder, pointer_at(builder, of_target, builder.add(builder.mul(target, heads), head), kind))
            factor, one = slant if kind is number else spread(builder, slant, kind), everywhere(kind, 1.0)
            with cgutils.for_range_slice(builder, first, last, WORD(1)) as (e, _):
                place = builder.add(builder.mul(e, heads), head)
                there, weight, logit = (pointer_at(builder, array, place, kind) for array in (into, of_edges, bent))
                found = builder.fmul(load(builder, weight), builder.fadd(load(builder, there), besides))
                below = builder.fcmp_ordered("<", load(builder, logit), zero(kind))
                builder.store(builder.fmul(found, builder.select(below, factor, one)), there).align = 4

        for_heads(builder, number, heads, each)
        return context.get_dummy_value()

    return types.none(change, weights, logits, more, slope, shape), build


@intrinsic
def exponentials(context: Any, x: Any, start: Any, count: Any) -> tuple[Any, Callable]:
    """Compute `x[start + i] = exp(x[start + i])` for all `i < count`, for values that are at most 0; float64 as the C library does.

    For float32 it is the polynomial of Moshier's Cephes, with an error of some units in the last place, and zero below `LEAST`.
    """

    def build(context, builder, signature, args):
        number = context.get_value_type(x.dtype)
        into = start_of(context, builder, signature, args, 0, 1)
        count = cast(context, builder, signature, args, 2, types.intp)

        def replace(at, kind, new):
            place = pointer_at(builder, into, at, kind)
            before = load(builder, place)
            builder.store(new(_exponential(builder, before, kind), before), place).align = 4

        if isinstance(number, ir.DoubleType):
            exp = builder.module.declare_intrinsic("llvm.exp", [number])
            with cgutils.for_range_slice(builder, WORD(0), count, WORD(1)) as (at, _):
                place = builder.gep(into, [at])
                builder.store(builder.call(exp, [builder.load(place)]), place)
        else:
            for_each(builder, number, count, replace)
        return context.get_dummy_value()

    return types.none(x, start, count), build


def _exponential(builder, x, kind):
    """Return the exponential of a float32 at most 0, or of a vector of them: `2 ** n` times the exponential of what is
    left, at most `log(2) / 2`."""
    whole = ir.VectorType(INT32, kind.count) if isinstance(kind, ir.VectorType) else INT32

    def multiply_add(one, other, more):
        return builder.fadd(builder.fmul(one, other, flags=("contract",)), more, flags=("contract",))

    name = "llvm.rint." + (f"v{kind.count}f32" if isinstance(kind, ir.VectorType) else "f32")
    rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
    n = builder.call(rint, [builder.fmul(x, everywhere(kind, 1.44269504088896341))])
    rest = multiply_add(n, everywhere(kind, -0.693359375), x)
    rest = multiply_add(n, everywhere(kind, 2.12194440e-4), rest)
    total = everywhere(kind, CEPHES[0])
    for factor in (*CEPHES[1:], 1.0, 1.0):
        total = multiply_add(total, rest, everywhere(kind, factor))
    power = builder.shl(builder.add(builder.fptosi(n, whole), everywhere(whole, 127)), everywhere(whole, 23))
    found = builder.fmul(total, builder.bitcast(power, kind))
    return builder.select(builder.fcmp_ordered("<", x, everywhere(kind, LEAST)), everywhere(kind, 0.0), found)
