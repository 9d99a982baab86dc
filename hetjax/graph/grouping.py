"""Many edges by target, stably: first by ranges of targets, then each range, whose counters and edges fit a processor's cache.

Placed in one go, most edges would wait for memory. Both passes run in threads, without the interpreter's lock, and need 8 bytes an edge.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from hetjax.compiled import compiled
from hetjax.runtime import cores

MOST = 8  # threads
BITS = 15  # of a target's number tell it from the others of its range


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
    pairs = np.empty((len(target), 2), np.int32)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda piece, count: _count(target[piece], count), pieces, counts))
        size = counts.sum(axis=0)
        start = np.cumsum(size) - size  # of every range
        for given, made in zip(map(_words, values), out):
            first = start + np.cumsum(counts, axis=0) - counts  # of every piece in every range
            list(pool.map(lambda piece, at: _spread(target[piece], given[piece], at, pairs), pieces, first))
            made = made.view(np.int32) if made.itemsize == 4 else made

            def place(number: int) -> None:
                low, begin = number << BITS, int(start[number])
                ends = indptr[low + 1 : min(targets, low + (1 << BITS)) + 1]
                _place(pairs[begin : begin + int(size[number])], low, begin, ends, made)

            list(pool.map(place, range(ranges)))
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
def _spread(target, values, first, pairs):
    """Put targets and values where their ranges lie; `first` is where the next of each range comes."""
    for edge in range(len(target)):
        number = target[edge] >> BITS
        pairs[first[number], 0] = target[edge]
        pairs[first[number], 1] = values[edge]
        first[number] += 1


@compiled
def _place(pairs, low, begin, ends, out):
    """Place the edges of one range, whose targets begin at `low`, and its edges at `begin`; fill where those of each target end."""
    cursor = np.zeros(len(ends), np.int64)
    for edge in range(len(pairs)):
        cursor[pairs[edge, 0] - low] += 1
    at = begin
    for node in range(len(ends)):
        count, cursor[node] = cursor[node], at
        at += count
        ends[node] = at
    for edge in range(len(pairs)):
        node = pairs[edge, 0] - low
        out[cursor[node]] = pairs[edge, 1]
        cursor[node] += 1
