"""Many edges by target, stably: first by ranges of targets, then each range, whose counters and edges fit a processor's cache.

Placed in one go, most edges would wait for memory. Both passes run in threads, without the interpreter's lock, and need 2 bytes an edge.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from hetjax.compiled import compiled
from hetjax.runtime import cores

MOST = 8  # threads
BITS = 15  # of a target's number tell it from the others of its range
MASK = (1 << BITS) - 1


def group(target: np.ndarray, targets: int, values: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> np.ndarray:
    """Put what edges have where the edges of their targets lie, in their order.

    Args:
      target: integers `[edges]`, already checked to lie in `0..targets - 1`.
      values: per array of `out` the integers of at most 31 bits, or the float32, `[edges]` that are put there.

    Returns:
      int64 `[targets + 1]`: the edges of target `v` are `indptr[v]..indptr[v + 1] - 1`.
    """
    target, ranges = _words(target), -(-targets >> BITS)
    threads = min(cores(), MOST)
    pieces = [slice(*ends) for ends in pairwise(np.linspace(0, len(target), threads + 1).astype(np.int64))]
    counts, indptr = np.zeros((threads, ranges), np.int64), np.zeros(targets + 1, np.int64)
    places = np.empty(len(target), np.uint16)  # of targets in their ranges
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda piece, count: _count(target[piece], count), pieces, counts))
        size = counts.sum(axis=0)
        start = np.cumsum(size) - size  # of every range
        for given, made in zip(map(_words, values), out):
            first = start + np.cumsum(counts, axis=0) - counts  # of every piece in every range
            made = made.view(np.int32) if made.itemsize == 4 else made
            list(pool.map(lambda piece, at: _spread(target[piece], given[piece], at, places, made), pieces, first))

            def sort(number: int) -> None:
                low, edges = number << BITS, slice(int(start[number]), int(start[number] + size[number]))
                ends = indptr[low + 1 : min(targets, low + (1 << BITS)) + 1]
                _sort(places[edges], edges.start, ends, made[edges])

            list(pool.map(sort, range(ranges)))
    return indptr


def _words(values: np.ndarray) -> np.ndarray:
    """As int32, or the bits of float32 as such."""
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values, np.float32).view(np.int32)
    return np.ascontiguousarray(values, np.int32)


@compiled
def _count(target, counts):
    for edge in range(len(target)):
        counts[target[edge] >> BITS] += 1


@compiled
def _spread(target, values, first, places, out):
    """Put places of targets, and values, where their ranges lie; `first` is where the next of each range comes."""
    for edge in range(len(target)):
        node = target[edge]
        at = first[node >> BITS]
        first[node >> BITS] = at + 1
        places[at] = node & MASK
        out[at] = values[edge]


@compiled
def _sort(places, begin, ends, out):
    """Sort the edges of one range, which begin at `begin`, by their targets; fill where those of each target end."""
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
