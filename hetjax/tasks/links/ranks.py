"""Ranks of the right candidates among all, with known links left out: the filtered setting of Bordes et al. (NeurIPS 2013, section 4.2).

Two counts of an example make its rank: the candidates that score higher than the right one, and the others that score the same. Counts
of shards of the candidates add up, so each device may count what it holds.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.tasks.links.known import Rows

MEMORY = 2**28  # bytes of scores that are in memory together
COLUMNS, TILE = (
    4096,
    64,
)  # candidates of a product; a multiple of it ends every product, so that equal candidates score the same
TIES = {"average": 1, "optimistic": 0, "pessimistic": 2}  # twice the share of equal scores that rank before
Scores = Callable[[int, int], np.ndarray]


class Counts(NamedTuple):
    """Counts of candidates, int64 `[n]` each.

    Attributes:
      higher: candidates that score higher than the right one; those whose score is not a number do, and all do if the right one's is not.
      equal: other candidates that score the same.
      others: all candidates but the right one that the filter leaves.
    """

    higher: np.ndarray
    equal: np.ndarray
    others: np.ndarray

    def __add__(self, more: "Counts") -> "Counts":  # type: ignore[override]
        """Return the counts of two shards of the candidates together."""
        return Counts(*(a + b for a, b in zip(self, more)))

    def doubled_ranks(self, ties: str = "average") -> np.ndarray:
        """Return twice the ranks, which count from 1: int64 `[n]`.

        Args:
          ties: the rank among equal scores: their mean (`average`), the best (`optimistic`) or the worst (`pessimistic`).

        Raises:
          InputError: `ties` is something else.
        """
        if ties not in TIES:
            raise InputError(f"ties is {ties!r}, and should be {', '.join(TIES)}")
        return 2 * (1 + self.higher) + TIES[ties] * self.equal


def count(scores: np.ndarray, own: np.ndarray, targets: np.ndarray, rows: Rows | None = None, first: int = 0) -> Counts:
    """Return the counts of a block of candidates.

    Args:
      scores: float32 or float64 `[n, m]`, of the candidates `first` to `first + m - 1`.
      own: the right candidates' scores, `[n]`, of the type of `scores`.
      targets: the right candidates, integers `[n]`, which need not be in the block.
      rows: the known links of each example, which do not count; the right candidate may be one of them. None: no filter.
      first: the number of the first candidate of the block.
    """
    size = len(targets)
    counts = Counts(*(np.zeros(size, np.int64) for _ in range(3)))
    nothing = np.zeros(size, np.int64)
    start, stop, others = rows or Rows(nothing, nothing, np.zeros(0, np.int32))
    _count(scores, np.asarray(own, scores.dtype), np.asarray(targets, np.int64), start, stop, others, first, *counts)
    return counts


@compiled
def _count(scores, own, targets, start, stop, others, first, higher, equal, left):
    for i in range(len(own)):
        row, score = scores[i], own[i]
        not_higher = same = np.int32(0)
        for j in range(len(row)):  # in registers, without a branch
            not_higher += row[j] <= score
            same += row[j] == score
        more, kept = len(row) - not_higher, len(row)
        target = targets[i] - first
        if 0 <= target < len(row):  # it is no competitor of its own
            more -= not (row[target] <= score)
            same -= row[target] == score
            kept -= 1
        known = others[start[i] : stop[i]]
        for k in range(np.searchsorted(known, first), len(known)):
            place = known[k] - first
            if place >= len(row):
                break
            if place != target:
                more -= not (row[place] <= score)
                same -= row[place] == score
                kept -= 1
        higher[i], equal[i], left[i] = more, same, kept


def products(queries: np.ndarray, candidates: np.ndarray) -> Scores:
    """Return the scores of queries `[n, H]` with candidates `[m, H]` by products, as `rank` asks for them.

    All products have the same shape, so that candidates with equal embeddings have equal scores to the last bit, and are ties.
    """
    buffers: list[np.ndarray] = []
    whole = len(candidates) // TILE * TILE
    end = np.zeros((TILE, candidates.shape[1]), candidates.dtype)
    end[: len(candidates) - whole] = candidates[whole:]

    def scores(start: int, stop: int) -> np.ndarray:
        size, most = stop - start, -(-(stop - start) // TILE) * TILE
        if not buffers or len(buffers[0]) < most:
            buffers[:] = [np.empty((most, whole + TILE), np.result_type(queries, candidates))]
        padded = np.zeros((most, queries.shape[1]), queries.dtype)
        padded[:size] = queries[start:stop]
        for first in range(0, whole, COLUMNS):
            last = min(first + COLUMNS, whole)
            np.matmul(padded, candidates[first:last].T, out=buffers[0][:most, first:last])
        np.matmul(padded, end.T, out=buffers[0][:most, whole:])
        return buffers[0][:size, : len(candidates)]

    return scores


def blocks(examples: int, candidates: int, memory: int = MEMORY) -> Iterator[tuple[int, int]]:
    """Yield `(start, stop)` of examples whose scores, float32 and padded to tiles, are together within `memory` bytes, if one tile's are."""
    width = 4 * (candidates + TILE)
    rows = max(TILE, memory // width // TILE * TILE)
    for start in range(0, examples, rows):
        yield start, min(start + rows, examples)


def rank(
    scores: Scores, targets: np.ndarray, candidates: int, rows: Rows | None = None, memory: int = MEMORY
) -> Counts:
    """Return the counts of all examples among all candidates, some examples at a time.

    Args:
      scores: a function of `(start, stop)` that returns the scores `[stop - start, candidates]` of these examples; it may reuse memory.
      targets: the right candidates, integers `[n]`.
      candidates: their number.
      rows: as of `count`.
      memory: bytes of scores that are in memory together, where those of `TILE` examples are fewer.
    """
    parts = [Counts(*(np.zeros(0, np.int64) for _ in range(3)))]
    for start, stop in blocks(len(targets), candidates, memory):
        block, right = scores(start, stop), targets[start:stop]
        own = block[np.arange(stop - start), right]
        some = None if rows is None else Rows(rows.start[start:stop], rows.stop[start:stop], rows.others)
        parts.append(count(block, own, right, some))
    return Counts(*(np.concatenate(one) for one in zip(*parts)))
