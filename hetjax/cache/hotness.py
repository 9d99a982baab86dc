"""How often each node's features are read: counted by sampling ahead of the training (Heta, section 6)."""

from collections.abc import Iterable, Mapping

import numpy as np
from tqdm import tqdm

from hetjax.sampling.loader import Batches

Counts = dict[str, np.ndarray]


def hotness(batches: Batches, nodes: Mapping[str, int], epochs: int) -> Counts:
    """Reads of every node of some types in the first epochs of the training: same sampler, same seeds.

    Args:
      nodes: how many there are of each type.
    """
    samples = (sample.inputs for epoch in range(epochs) for sample in batches.samples(epoch))
    total = epochs * batches.steps()
    return reads(tqdm(samples, "presampling", total, unit="batch", disable=None), nodes)


def reads(inputs: Iterable[Mapping[str, np.ndarray]], nodes: Mapping[str, int]) -> Counts:
    """How often each node occurs, int64 `[nodes]` of each type.

    Args:
      inputs: of every batch the ids, of each type distinct.
    """
    counts = {name: np.zeros(count, np.int64) for name, count in nodes.items()}
    for found in inputs:
        for name in counts.keys() & found.keys():
            counts[name][found[name]] += 1
    return counts
