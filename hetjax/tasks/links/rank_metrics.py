"""Metrics of ranks, from how often each rank occurs: sums of integers, so they do not depend on how examples were divided."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetjax.tasks.links.ranks import Counts
from hetjax.tasks.ranking import average_precision, roc_auc

HITS = (1, 3, 10)


class Ranks(NamedTuple):
    """The ranks of some examples, to be merged with those of others.

    Attributes:
      doubled: twice the ranks that occur, int64, rising.
      times: how often each does, int64.
      others: the sum of the numbers of the examples' other candidates.
    """

    doubled: np.ndarray = np.zeros(0, np.int64)
    times: np.ndarray = np.zeros(0, np.int64)
    others: int = 0

    def merge(self, more: "Ranks") -> "Ranks":
        """Return the ranks of both together."""
        doubled, place = np.unique(np.concatenate([self.doubled, more.doubled]), return_inverse=True)
        times = np.zeros(len(doubled), np.int64)
        np.add.at(times, place, np.concatenate([self.times, more.times]))
        return Ranks(doubled, times, self.others + more.others)

    def finish(self, hits: Sequence[int] = HITS) -> dict[str, float | None]:
        """Return the metrics; None of each where there is no example, or it is not defined.

        Args:
          hits: the ranks `k` of Hits@k.

        Returns:
          `mrr`: the mean of 1 / rank. `hits@k`: the share of ranks up to `k`. `mean_rank`. `amri`: the adjusted mean rank index,
          `1 - (mean rank - 1) / (expected mean rank - 1)`, 0 of a random order and 1 of a perfect one (Berrendorf et al., 2020),
          None where no example has another candidate.
        """
        examples = int(self.times.sum())
        if not examples:
            return dict.fromkeys(("mrr", *(f"hits@{k}" for k in hits), "mean_rank", "amri"))
        doubled = int((self.doubled * self.times).sum())
        found: dict[str, float | None] = {"mrr": float((2 / self.doubled * self.times).sum() / examples)}
        for k in hits:
            found[f"hits@{k}"] = float(self.times[self.doubled <= 2 * k].sum() / examples)
        found["mean_rank"] = doubled / (2 * examples)
        found["amri"] = 1 - (doubled - 2 * examples) / self.others if self.others else None
        return found


def ranks_of(counts: Counts, ties: str = "average") -> Ranks:
    """Return the ranks of examples by their counts; `ties` as of `Counts.doubled_ranks`. For both directions, merge the two."""
    doubled, times = np.unique(counts.doubled_ranks(ties), return_counts=True)
    return Ranks(doubled, times.astype(np.int64), int(counts.others.sum()))


def areas(positive: np.ndarray, negative: np.ndarray) -> dict[str, float | None]:
    """Return `roc_auc` and `average_precision` of links against given negatives, by `hetjax.tasks.ranking`: a tie counts half.

    Args:
      positive: scores of the links, of any shape.
      negative: scores of the negatives, of any shape.
    """
    scores = np.concatenate([positive.ravel(), negative.ravel()])
    labels = np.arange(len(scores)) < positive.size
    return {"roc_auc": roc_auc(scores, labels), "average_precision": average_precision(scores, labels)}
