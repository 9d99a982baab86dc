"""Known links by one end and the relation, as compressed rows: what a filter leaves out of negatives and of candidates."""

from typing import NamedTuple

import numpy as np

from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError

MOST = 2**63  # keys of an end and a relation, as int64 holds them


class Rows(NamedTuple):
    """The known other ends of some examples.

    Attributes:
      start, stop: int64 `[n]`; those of example `i` are `others[start[i]:stop[i]]`.
      others: int32 `[links]`, rising within a row, each once.
    """

    start: np.ndarray
    stop: np.ndarray
    others: np.ndarray


class Known(NamedTuple):
    """Known links, to be looked up by (relation, end).

    Memory is 4 bytes for a link and 16 bytes for a distinct (relation, end); none grows with entities times relations.

    Attributes:
      keys: int64 `[rows]`, rising, `relation * ends + end`.
      indptr: int64 `[rows + 1]`.
      others: int32 `[links]`, the other ends by row, rising, each once.
      ends: the number of nodes that may stand at the end that is looked up.
    """

    keys: np.ndarray
    indptr: np.ndarray
    others: np.ndarray
    ends: int

    def rows(self, ends: np.ndarray, relations: np.ndarray) -> Rows:
        """Return the known other ends of examples with the ends `[n]` and the relations `[n]`; none where no link is known."""
        keys = _keys(ends, relations, self.ends)
        row = np.minimum(np.searchsorted(self.keys, keys), max(0, len(self.keys) - 1))
        if not len(self.keys):
            return Rows(np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64), self.others)
        found = self.keys[row] == keys
        return Rows(np.where(found, self.indptr[row], 0), np.where(found, self.indptr[row + 1], 0), self.others)


def known(ends: np.ndarray, relations: np.ndarray, others: np.ndarray, count: int) -> Known:
    """Return known links `(end, relation, other)`, integers `[links]`, in any order and perhaps several times.

    Args:
      count: the number of nodes that may stand at `ends`.

    Raises:
      InputError: an end is not below `count`, or there are more pairs of a relation and an end than int64 counts.
    """
    if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < count:
        raise InputError(f"known links: end {ends.max() if ends.max() >= count else ends.min()}, and there are {count}")
    if len(ends) and (int(relations.max()) + 1) * count > MOST:
        raise InputError(f"known links: {relations.max() + 1} relations of {count} nodes > {MOST} pairs")
    keys = _keys(ends, relations, count)
    order = np.lexsort((others, keys))
    keys, others = keys[order], np.asarray(others)[order]
    first = np.ones(len(keys), bool)
    first[1:] = (keys[1:] != keys[:-1]) | (others[1:] != others[:-1])
    distinct, start = np.unique(keys[first], return_index=True)
    indptr = np.append(start, first.sum()).astype(np.int64)
    return Known(distinct, indptr, np.ascontiguousarray(others[first], np.int32), count)


def both_sides(
    heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, counts: tuple[int, int]
) -> tuple[Known, Known]:
    """Return the known tails by (head, relation), and the known heads by (tail, relation); `counts` are the numbers of heads and tails."""
    return known(heads, relations, tails, counts[0]), known(tails, relations, heads, counts[1])


def is_known(rows: Rows, candidates: np.ndarray) -> np.ndarray:
    """Return which candidates are known other ends: bool `[n, k]` of integers `[n, k]`, or `[k]` that all examples share."""
    shared = np.broadcast_to(np.atleast_2d(candidates), (len(rows.start), np.shape(candidates)[-1]))
    found = np.empty(shared.shape, np.bool_)
    _find(rows.start, rows.stop, rows.others, np.ascontiguousarray(shared, np.int32), found)
    return found


def _keys(ends: np.ndarray, relations: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(relations, np.int64) * count + np.asarray(ends, np.int64)


@compiled
def _find(start, stop, others, candidates, found):
    for i in range(len(start)):
        row = others[start[i] : stop[i]]
        for j in range(candidates.shape[1]):
            place = np.searchsorted(row, candidates[i, j])
            found[i, j] = place < len(row) and row[place] == candidates[i, j]
