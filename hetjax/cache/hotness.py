"""Hotness: how often each node's features are read, counted by sampling before the training (Heta, section 6)."""

from collections.abc import Iterable, Mapping

import numpy as np
from tqdm import tqdm

from hetjax.cache.allocate import Name
from hetjax.sampling.loader import Batches


def hotness(
    batches: Batches, nodes: Mapping[tuple[str, int], int], epochs: int, quiet: bool = False
) -> dict[tuple[str, int], np.ndarray]:
    """Count the reads of every row of some caches in the first epochs of the training: same sampler, same seeds.

    Args:
      nodes: how many rows each could hold.
      quiet: show no progress.
    """
    samples = (batches.reads(sample) for epoch in range(epochs) for sample in batches.samples(epoch))
    total = epochs * batches.steps()
    return reads(tqdm(samples, "presampling", total, unit="batch", disable=quiet or None), nodes)


def reads(inputs: Iterable[Mapping[Name, np.ndarray]], nodes: Mapping[Name, int]) -> dict[Name, np.ndarray]:
    """Count the reads of each row, int64 `[nodes]` of each cache or type.

    Args:
      inputs: of every batch the row numbers, of each distinct.
    """
    counts = {name: np.zeros(count, np.int64) for name, count in nodes.items()}
    for rows in inputs:
        for name in counts.keys() & rows.keys():
            counts[name][rows[name]] += 1
    return counts
