"""Sums of vectors: of products, added to existing sums, and of a vector's own elements."""

from collections.abc import Callable, Sequence

from llvmlite import ir

from hetjax.kernels.vectors.building import INT32, WORD, load, pointer_at, spread

FLAGS = "contract", "reassoc", "nsz"
ORDERED = "contract", "nsz"  # sums in the order of the edges, whether a column is in a vector or not


def add_product(
    builder: ir.IRBuilder, total: ir.Value, one: ir.Value, other: ir.Value, flags: Sequence[str] = FLAGS
) -> None:
    product = builder.fmul(one, other, flags=flags)
    builder.store(builder.fadd(product, builder.load(total), flags=flags), total)


def add_multiples(
    builder: ir.IRBuilder, totals: Sequence[ir.Value], scale: ir.Value, vectors: Sequence[ir.Value]
) -> None:
    """Add vectors, or scalars, times one scalar to as many sums."""
    kind = vectors[0].type
    scale = scale if kind == scale.type else spread(builder, scale, kind)
    for total, vector in zip(totals, vectors):
        add_product(builder, total, scale, vector, ORDERED)


def add_to(
    builder: ir.IRBuilder,
    into: ir.Value,
    start: ir.Value,
    places: Sequence[ir.Value],
    totals: Sequence[ir.Value],
    kind: ir.Type,
    new: Callable,
) -> None:
    """Add sums to existing values."""
    for where, total in zip(places, totals):
        place = pointer_at(builder, into, builder.add(start, where), kind)
        before = load(builder, place)
        added = builder.fadd(before, builder.load(total), flags=ORDERED)
        builder.store(new(added, before), place).align = 4


def totals_of(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> ir.Value:
    """Return the sums of vectors, as many as a power of two, as one vector: two at a time share what is added."""
    count = vectors[0].type.count
    pieces = 1  # that a vector holds, of as many vectors as were given

    def halves(one, other, parts):
        """Yield the first halves of all parts of both, and the second."""
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


def totals_of_parts(builder: ir.IRBuilder, vector: ir.Value, size: int) -> ir.Value:
    """Return the sums of a vector's parts of so many elements each, a power of two, as a vector; as a scalar, if there is one part."""
    lanes = range(vector.type.count)
    step = size
    while step > 1:
        step //= 2
        turned = _shuffled(builder, vector, None, [lane ^ step for lane in lanes])
        vector = builder.fadd(vector, turned, flags=FLAGS)
    if size == len(lanes):
        return builder.extract_element(vector, INT32(0))
    return _shuffled(builder, vector, None, list(lanes[::size]))


def repeated(builder: ir.IRBuilder, pointer: ir.Value, kind: ir.Type, size: int) -> ir.Value:
    """Return `numpy.repeat(numbers, size)` as a vector, from as many values in memory as the vector has; `size` is a power of two."""
    if size == kind.count:
        return spread(builder, builder.load(pointer), kind)
    few = load(builder, pointer_at(builder, pointer, WORD(0), ir.VectorType(kind.element, kind.count // size)))
    return _shuffled(builder, few, None, [lane // size for lane in range(kind.count)])


def _shuffled(builder, one, other, lanes):
    mask = ir.Constant(ir.VectorType(INT32, len(lanes)), lanes)
    return builder.shuffle_vector(one, ir.Constant(one.type, ir.Undefined) if other is None else other, mask)


def total_of(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Return the sum of a vector's elements: its halves are added, and theirs, and so on."""
    count = vector.type.count
    while count > 1:
        count //= 2
        halves = [ir.Constant(ir.VectorType(INT32, count), list(range(first, first + count))) for first in (0, count)]
        one, two = (builder.shuffle_vector(vector, vector, half) for half in halves)
        vector = builder.fadd(one, two, flags=FLAGS)
    return builder.extract_element(vector, INT32(0))
