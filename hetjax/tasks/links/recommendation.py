"""Metrics of recommendation: the best `k` candidates of every user, known training pairs left out, against those of the test."""

from typing import NamedTuple

import numpy as np

from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.tasks.links.known import Rows, is_known
from hetjax.tasks.links.ranks import MEMORY, Scores, blocks

NONE = -1  # in place of a candidate, where fewer than `k` are left


def top(scores: np.ndarray, k: int, rows: Rows | None = None) -> np.ndarray:
    """Return the candidates with the highest scores, best first, of equal ones the lower number first.

    A score that is not a number comes last.

    Args:
      scores: `[n, m]`.
      k: how many.
      rows: the known links of each example, which are left out.

    Returns:
      int32 `[n, k]`, filled up with `NONE`.
    """
    nothing = np.zeros(len(scores), np.int64)
    start, stop, others = rows or Rows(nothing, nothing, np.zeros(0, np.int32))
    best = np.full((len(scores), k), NONE, np.int32)
    _top(scores, start, stop, others, best)
    return best


@compiled
def _top(scores, start, stop, others, best):
    k = best.shape[1]
    kept = np.empty(k, scores.dtype)
    for i in range(len(scores)):
        row, filled, known = scores[i], 0, start[i]
        for j in range(len(row)):
            while known < stop[i] and others[known] < j:
                known += 1
            if known < stop[i] and others[known] == j:
                continue
            score = row[j] if row[j] == row[j] else -np.inf
            if filled == k and (k == 0 or score <= kept[k - 1]):
                continue
            filled = min(filled + 1, k)
            place = filled - 1
            while place and kept[place - 1] < score:
                kept[place], best[i, place] = kept[place - 1], best[i, place - 1]
                place -= 1
            kept[place], best[i, place] = score, j


class Recommended(NamedTuple):
    """Recommendations to some users, to be merged with those to others.

    Attributes:
      users: integers `[n]`, distinct.
      best: candidates, int32 `[n, k]`, as `top` returns them.
      hits: whether each is one of the test's, bool `[n, k]`.
      relevant: how many the test has of each user, int64 `[n]`.
      candidates: the number of all candidates.
    """

    users: np.ndarray
    best: np.ndarray
    hits: np.ndarray
    relevant: np.ndarray
    candidates: int

    def merge(self, more: "Recommended") -> "Recommended":
        """Return what was recommended to the users of both."""
        users, best, hits, relevant = (
            np.concatenate([getattr(self, name), getattr(more, name)]) for name in self._fields[:4]
        )
        return Recommended(users, best, hits, relevant, self.candidates)

    def finish(self, k: int | None = None) -> dict[str, float | None]:
        """Return the metrics of the best `k`, means over the users that the test has something of; None of each without such a user.

        Args:
          k: at most as many as were kept; None: all.

        Returns:
          `recall@k`: hits / relevant. `precision@k`: hits / k. `ndcg@k`: the sum of 1 / log2(place + 1) of hits, divided by the largest
          there can be (Jarvelin and Kekalainen 2002, with gains 0 and 1). `map@k`: the sum of the precisions at the places of hits,
          divided by the smaller of `k` and relevant. `coverage@k`: the share of the candidates that are recommended to any user.

        Raises:
          InputError: `k` exceeds what was kept.
        """
        k = self.best.shape[1] if k is None else k
        if not 1 <= k <= self.best.shape[1]:
            raise InputError(f"metrics of the best {k}, and {self.best.shape[1]} were kept")
        order = np.argsort(self.users, kind="stable")  # sums are the same however users were divided
        order = order[self.relevant[order] > 0]
        names = ("recall", "precision", "ndcg", "map", "coverage")
        if not len(order):
            return dict.fromkeys(f"{name}@{k}" for name in names)
        hits, relevant = self.hits[order, :k], self.relevant[order]
        places = np.arange(1, k + 1)
        gains, most = 1 / np.log2(places + 1), np.minimum(relevant, k)
        precision = np.cumsum(hits, axis=1) / places
        shown = np.unique(self.best[order, :k])
        values = (
            hits.sum(axis=1) / relevant,
            hits.sum(axis=1) / k,
            (hits * gains).sum(axis=1) / np.cumsum(gains)[most - 1],
            (precision * hits).sum(axis=1) / most,
        )
        found: dict[str, float | None] = {f"{name}@{k}": float(value.mean()) for name, value in zip(names, values)}
        return found | {f"coverage@{k}": float((shown != NONE).sum() / self.candidates)}


def recommend(
    scores: Scores, users: np.ndarray, candidates: int, k: int, relevant: Rows, train: Rows | None, memory: int = MEMORY
) -> Recommended:
    """Return the best `k` candidates of every user, some users at a time.

    Args:
      scores: as of `hetjax.tasks.links.ranks.rank`, by the place of a user in `users`.
      users: integers `[n]`, distinct.
      candidates: their number.
      k: how many.
      relevant: the candidates of the test for each user.
      train: known pairs, which are not recommended.
      memory: as of `rank`.
    """
    best = np.empty((len(users), k), np.int32)
    for start, stop in blocks(len(users), candidates, memory):
        some = None if train is None else Rows(train.start[start:stop], train.stop[start:stop], train.others)
        best[start:stop] = top(scores(start, stop), k, some)
    return Recommended(users, best, is_known(relevant, best), relevant.stop - relevant.start, candidates)
