"""The schedule of the collectives that send rows from partition to partition, with little padding.

All devices run one program, so a collective has one size, and partitions of a graph send each other very different
numbers of rows. `ring` is NeutronStar's order (section 4.3): in step `j` worker `i` sends to worker `i + j`. A step is divided
into rounds: the first of them sends the rows that all pairs of the step have, the next those that some pairs have left, without the others.
`all_to_all` is one collective for the rows that nearly all pairs have, and rounds of a ring for the rest.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

WASTE = 0.1  # of the rows that are sent: padding that is taken for fewer rounds


class Round(NamedTuple):
    """One collective.

    Attributes:
      size: the number of rows of each pair.
      pairs: `(sender, receiver)`, each partition once at most on either side; none: every partition to every other.
    """

    size: int
    pairs: tuple[tuple[int, int], ...]


@jax.tree_util.register_static
@dataclass(frozen=True)
class Schedule:
    """A schedule of collectives, one after the other; it is a static part of a program, so another schedule makes another program.

    Attributes:
      parts: number of partitions.
      rounds: the rounds, in order.
    """

    parts: int
    rounds: tuple[Round, ...]

    def rows(self, number: int) -> int:
        """Return the number of rows that a partition puts into a round, and gets from it, its own line of an all-to-all included."""
        size, pairs = self.rounds[number]
        return size if pairs else self.parts * size

    @property
    def total(self) -> int:
        """The number of rows of all rounds."""
        return sum(map(self.rows, range(len(self.rounds))))

    @property
    def sent(self) -> int:
        """The number of rows that all partitions together send, padding included."""
        return sum(size * (len(pairs) or self.parts * (self.parts - 1)) for size, pairs in self.rounds)

    @property
    def steps(self) -> tuple[slice, ...]:
        """The rounds of each step of a ring, from the first to the one before the last partition."""
        step = [(pairs[0][1] - pairs[0][0]) % self.parts for _, pairs in self.rounds]
        bounds = np.searchsorted(step, range(1, self.parts + 1)).tolist()
        return tuple(slice(start, end) for start, end in itertools.pairwise(bounds))

    def regions(self) -> tuple[range, ...]:
        """The ranges of the received rows that each step brings."""
        starts = [0, *itertools.accumulate(map(self.rows, range(len(self.rounds))))]
        return tuple(range(starts[of.start], starts[of.stop]) for of in self.steps)

    def slots(self, sender: int, receiver: int) -> tuple[np.ndarray, np.ndarray]:
        """The positions of the rows of a pair: among all rows that the sender sends, and among all that the receiver gets."""
        out, came, start = [np.empty(0, np.int32)], [np.empty(0, np.int32)], 0
        for number, (size, pairs) in enumerate(self.rounds):
            places = np.arange(start, start + size, dtype=np.int32)
            if not pairs:
                out.append(places + receiver * size)
                came.append(places + sender * size)
            elif (sender, receiver) in pairs:
                out.append(places)
                came.append(places)
            start += self.rows(number)
        return np.concatenate(out), np.concatenate(came)


def schedule(capacities: np.ndarray, ring: bool) -> Schedule:
    """Return the collectives that send so many rows.

    Args:
      capacities: `[parts, parts]`, rows from each partition to each; of its own none.
      ring: whether there is no all-to-all.
    """
    parts, rest, rounds = len(capacities), capacities.copy(), []
    base = 0 if ring else _base(capacities)
    if base:
        rounds.append(Round(base, ()))
        rest = np.maximum(rest - base, 0)
    for step in range(1, parts):
        pairs = [(sender, (sender + step) % parts) for sender in range(parts)]
        rounds += _rounds(pairs, [int(rest[pair]) for pair in pairs])
    return Schedule(parts, tuple(rounds))


def _base(capacities: np.ndarray) -> int:
    """Return the largest bucket of an all-to-all that wastes no more than it may."""
    sizes = np.sort(capacities[~np.eye(len(capacities), dtype=bool)])
    for size in sizes[::-1]:
        if size * len(sizes) - np.minimum(sizes, size).sum() <= WASTE * sizes.sum():
            return int(size)
    return 0


def _rounds(pairs: Sequence[tuple[int, int]], sizes: Sequence[int]) -> list[Round]:
    """Return nearly the fewest rounds that send `sizes` and waste no more than they may."""
    levels = sorted({0, *sizes})
    while len(levels) > 2:
        fewer = [levels[:place] + levels[place + 1 :] for place in range(1, len(levels) - 1)]
        best = min(fewer, key=lambda chosen: _waste(chosen, sizes))
        if _waste(best, sizes) > WASTE * sum(sizes):
            break
        levels = best
    return [
        Round(above - below, tuple(pair for pair, size in zip(pairs, sizes) if size > below))
        for below, above in itertools.pairwise(levels)
    ]


def _waste(levels: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the padding where every size is rounded up to a level."""
    return sum(min(level for level in levels if level >= size) - size for size in sizes)
