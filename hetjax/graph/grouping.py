"""A stable grouping of many edges by target: first by ranges of targets, then within each range, whose counters and
edges fit a processor's cache.

Placed in one go, most edges would wait for memory. Both passes run in threads, without the interpreter's lock, and need 2 bytes an edge.
Edges that come in pieces are spread by ranges a piece at a time, while it is in the cache.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hetjax.system.compiled import compiled
from hetjax.system.runtime import cores

MOST = 8  # threads
BITS = 15  # of a target's number tell it from the others of its range
RANGES = 11  # and at most so many tell its range from the others: each is written to, side by side


class Ranges(NamedTuple):
    """Ranges of targets, `2**bits` in each but the last.

    Attributes:
      number: of ranges.
      place: the dtype of a target's number in its range.
    """

    targets: int
    bits: int
    number: int
    place: np.dtype

    def targets_of(self, number: int) -> slice:
        """Return the targets in a range."""
        return slice(number << self.bits, min(self.targets, (number + 1) << self.bits))


def ranges_of(targets: int) -> Ranges:
    """Return the ranges of so many targets."""
    bits = max(BITS, (targets - 1).bit_length() - RANGES)
    return Ranges(targets, bits, -(-targets >> bits), np.dtype(np.uint16 if bits <= 16 else np.uint32))


def group(target: np.ndarray, targets: int, values: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> np.ndarray:
    """Put the values of edges at the places of the edges of their targets, in their order.

    Args:
      target: integers `[edges]`, already checked to lie in `0..targets - 1`.
      values: per array of `out` the integers of at most 31 bits, or the float32, `[edges]` that are put there.

    Returns:
      int64 `[targets + 1]`: the edges of target `v` are `indptr[v]..indptr[v + 1] - 1`.
    """
    target, ranges = _words(target), ranges_of(targets)
    threads = min(cores(), MOST)
    pieces = [slice(*ends) for ends in pairwise(np.linspace(0, len(target), threads + 1).astype(np.int64))]
    counts, indptr = np.zeros((threads, ranges.number), np.int64), np.zeros(targets + 1, np.int64)
    places = np.empty(len(target), ranges.place)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda piece, count: _count(target[piece], np.uint32(ranges.bits), count), pieces, counts))
        size = counts.sum(axis=0)
        start = np.cumsum(size) - size  # of every range
        for given, made in zip(map(_words, values), map(_bits, out)):
            first = start + np.cumsum(counts, axis=0) - counts  # of every piece in every range

            def spread(piece: slice, at: np.ndarray) -> None:
                _spread(target[piece], np.uint32(ranges.bits), given[piece], at, places, made)

            def sort(number: int) -> None:
                edges, ends = slice(int(start[number]), int(start[number] + size[number])), ranges.targets_of(number)
                _sort(places[edges], edges.start, indptr[1:][ends], made[edges])

            list(pool.map(spread, pieces, first))
            list(pool.map(sort, range(ranges.number)))
    return indptr


class Piece(NamedTuple):
    """Some edges by ranges of targets.

    Attributes:
      ends: where those of each range end, uint32 `[ranges]`.
      places: of targets in their ranges, `[edges]`.
      values: what the edges have, `[edges]` each.
    """

    ends: np.ndarray
    places: np.ndarray
    values: list[np.ndarray]


def spread(target: np.ndarray, ranges: Ranges, values: Sequence[np.ndarray], dtypes: Sequence[np.dtype]) -> Piece:
    """Return some edges by ranges of targets; arguments as in `group`, and the dtypes in which values are stored."""
    target, counts = _words(target), np.zeros(ranges.number, np.int64)
    _count(target, np.uint32(ranges.bits), counts)
    ends, places = np.cumsum(counts), np.empty(len(target), ranges.place)
    made = [np.empty(len(target), dtype) for dtype in dtypes]
    for given, out in zip(map(_words, values), map(_bits, made)):
        _spread(target, np.uint32(ranges.bits), given, ends - counts, places, out)
    return Piece(ends.astype(np.uint32), places, made)


def gather(
    ends: np.ndarray, starts: np.ndarray, ranges: Ranges, places: np.ndarray, given: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Group the edges of pieces that lie one after another.

    Args:
      ends: of every piece, uint32 `[pieces, ranges]`.
      starts: where the pieces begin, int64 `[pieces]`.
      places, given: of all edges, as in `Piece`.
      out: what is filled, `[edges]`, of the dtype of `given`.

    Returns:
      As `group`.
    """
    threads, indptr = min(cores(), MOST), np.zeros(ranges.targets + 1, np.int64)
    last = ends.sum(axis=0, dtype=np.int64)  # where every range ends, of all pieces together
    given, out = _bits(given), _bits(out)

    def sort(number: int) -> None:
        edges = slice(int(last[number - 1]) if number else 0, int(last[number]))
        inside = np.empty(edges.stop - edges.start, ranges.place)
        _gather(ends, starts, number, places, inside)
        _gather(ends, starts, number, given, out[edges])
        _sort(inside, edges.start, indptr[1:][ranges.targets_of(number)], out[edges])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(sort, range(ranges.number)))
    return indptr


def _words(values: np.ndarray) -> np.ndarray:
    """Return the values as int32; of float32 the bits as such."""
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values, np.float32).view(np.int32)
    return np.ascontiguousarray(values, np.int32)


def _bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of values of four bytes, as int32."""
    return values.view(np.int32) if values.itemsize == 4 else values


@compiled
def _count(target, bits, counts):
    for edge in range(len(target)):
        counts[np.uint32(target[edge]) >> bits] += 1


@compiled
def _spread(target, bits, values, first, places, out):
    """Put places of targets, and values, at the places of their ranges; `first` is the place of the next edge of each range."""
    for edge in range(len(target)):
        node = np.uint32(target[edge])
        number = node >> bits
        at = np.uintp(first[number])
        first[number] = at + np.uintp(1)
        places[at] = node - (number << bits)
        out[at] = values[edge]


@compiled
def _gather(ends, starts, number, given, out):
    """Put the values of the pieces' edges of one range one after another."""
    at = 0
    for piece in range(len(starts)):
        first = ends[piece, number - 1] if number else 0
        for edge in range(starts[piece] + first, starts[piece] + ends[piece, number]):
            out[at] = given[edge]
            at += 1


@compiled
def _sort(places, begin, ends, out):
    """Sort the edges of one range, which begin at `begin`, by their targets; fill the ends of each target's edges."""
    cursor, given, at = np.zeros(len(ends), np.int64), out.copy(), 0
    for place in places:
        cursor[place] += 1
    for node in range(len(ends)):
        count, cursor[node] = cursor[node], at
        at += count
        ends[node] = begin + at
    for edge in range(len(places)):
        node = places[edge]
        out[cursor[node]] = given[edge]
        cursor[node] += 1
