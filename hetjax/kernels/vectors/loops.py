"""Loops over the elements of a row, and over heads and rows, several at a time, with the remainder."""

from collections.abc import Callable, Iterator, Sequence

from llvmlite import binding, ir

from hetjax.kernels.vectors.building import INT32, WORD, kinds, spread
from hetjax.system.internals import numba_parts

cgutils, _ = numba_parts()
TOGETHER = 4  # heads whose sums are in registers at a time
# Vectors of columns whose sums are in registers at a time.
WIDE = 4 if binding.get_host_cpu_features().get("avx512f") else 1


def for_each(
    builder: ir.IRBuilder, number: ir.Type, count: ir.Value, body: Callable[..., None], start: ir.Value | None = None
) -> None:
    """Call `body(place, kind, new)` for vectors that cover the elements from `start` to `count`: the longest, if
    `count` has one, else the shorter, else element by element.

    `start` is a multiple of the longest, 0 if `count` is less. The last vector ends with the last element, so it may
    have some of the one before too: `new(now, before)` has `before` of these.
    """
    start = WORD(0) if start is None else start
    longest, short, _ = kinds(number)
    fits, lanes = builder.icmp_signed(">=", count, WORD(longest.count)), WORD(longest.count)
    whole = builder.select(fits, builder.and_(count, WORD(-longest.count)), start)
    with cgutils.for_range_slice(builder, start, whole, lanes) as (at, _):
        body(at, longest, _all)
    with builder.if_then(builder.and_(fits, builder.icmp_signed("<", whole, count))):
        body(*ending(builder, whole, count, longest))
    start = builder.select(fits, count, start)
    for kind in (short, number):
        size = 1 if kind is number else kind.count
        end = builder.select(builder.icmp_signed(">=", count, WORD(size)), count, start)
        with cgutils.for_range_slice(builder, start, end, WORD(size)) as (at, _):
            body(*((at, kind, _all) if kind is number else ending(builder, at, count, kind)))
        start = end


def for_columns(builder: ir.IRBuilder, number: ir.Type, count: ir.Value, body: Callable[..., None]) -> None:
    """Call `body(place, kind, wide, new)` as `for_each` does, but first for `WIDE` of the longest vectors at a time."""
    done, longest = WORD(0), kinds(number)[0]
    if WIDE > 1:
        lanes = WORD(WIDE * longest.count)
        done = builder.sub(count, builder.urem(count, lanes))
        with cgutils.for_range_slice(builder, WORD(0), done, lanes) as (at, _):
            body(at, longest, WIDE, _all)
    for_each(builder, number, count, lambda at, kind, new: body(at, kind, 1, new), done)


def for_vectors(builder: ir.IRBuilder, kind: ir.Type, count: ir.Value, body: Callable[..., None]) -> None:
    """Call `body(place, wide, new)` as `for_columns` does, by vectors of one kind alone: `count` is one vector's at least."""
    lanes = WORD(WIDE * kind.count)
    done = builder.sub(count, builder.urem(count, lanes))
    with cgutils.for_range_slice(builder, WORD(0), done, lanes) as (at, _):
        body(at, WIDE, _all)
    with cgutils.for_range_slice(builder, done, count, WORD(kind.count)) as (at, _):
        place, _, new = ending(builder, at, count, kind)
        body(place, 1, new)


def for_short(builder: ir.IRBuilder, kind: ir.Type, shape: Sequence[ir.Value], body: Callable[[int], None]) -> ir.Value:
    """Call `body` with the number of elements of a head, where heads have 2, 4, ... elements, up to a vector's, and are
    contiguous in every array, at least a vector together.

    Code for each of these sizes is written; of the others `body` is not called.

    Args:
      kind: of the vectors.
      shape: heads, elements of each, and how far these are apart in each of the arrays.

    Returns:
      The heads that are left: none, or all.
    """
    heads, count, *steps = shape
    contiguous = builder.icmp_signed(">=", builder.mul(heads, count), WORD(kind.count))
    for step in steps:
        contiguous = builder.and_(contiguous, builder.icmp_signed("==", step, count))
    for size in (2**n for n in range(1, kind.count.bit_length())):
        fits = builder.and_(contiguous, builder.icmp_signed("==", count, WORD(size)))
        with builder.if_then(fits):
            body(size)
        heads = builder.select(fits, WORD(0), heads)
    return heads


def side_by_side(builder: ir.IRBuilder, at: ir.Value, kind: ir.Type, wide: int) -> list[ir.Value]:
    """Return the places of so many vectors, one after the other."""
    lanes = kind.count if isinstance(kind, ir.VectorType) else 1
    return [builder.add(at, WORD(part * lanes)) for part in range(wide)]


def ending(builder: ir.IRBuilder, at: ir.Value, count: ir.Value, kind: ir.Type) -> tuple[ir.Value, ir.Type, Callable]:
    """Return the arguments with which `for_each` calls `body`, for a vector that begins at `at`, or before so that it
    does not end after `count`."""
    last = builder.sub(count, WORD(kind.count))
    place = builder.select(builder.icmp_signed(">", at, last), last, at)

    def new(now, before):
        lanes = ir.VectorType(INT32, kind.count)
        seen = spread(builder, builder.trunc(builder.sub(at, place), INT32), lanes)
        is_new = builder.icmp_signed(">=", ir.Constant(lanes, list(range(kind.count))), seen)
        return builder.select(is_new, now, before)

    return place, kind, new


def _all(now, before):
    return now


def for_heads(builder: ir.IRBuilder, number: ir.Type, heads: ir.Value, body: Callable[..., None]) -> None:
    """Call `body(head, kind)` for as many heads together as are a vector, and then for each that is left."""
    together = builder.and_(heads, WORD(-TOGETHER))
    for start, end, kind in ((WORD(0), together, ir.VectorType(number, TOGETHER)), (together, heads, number)):
        with cgutils.for_range_slice(builder, start, end, WORD(TOGETHER if start is not together else 1)) as (head, _):
            body(head, kind)


def heights(wide: int) -> tuple[int, ...]:
    """Return the heights of tiles so many vectors wide: their sums fit a processor's registers, of which AVX-512 has
    twice as many as others, and so do the places of their rows."""
    return (6, 4, 1) if wide > 1 else (8, 4, 1) if WIDE > 1 else (6, 4, 1)


def tiles(builder: ir.IRBuilder, count: ir.Value, sizes: Sequence[int]) -> Iterator[tuple[ir.Value, int]]:
    """Yield `(place, size)` inside a loop for each of some tiles, largest first: as many of a size as fit are taken at a time."""
    start = WORD(0)
    for size in sizes:
        left = builder.sub(count, start)
        end = builder.add(start, builder.sub(left, builder.urem(left, WORD(size))))
        with cgutils.for_range_slice(builder, start, end, WORD(size)) as (place, _):
            yield place, size
        start = end
