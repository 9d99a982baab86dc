"""How often each node's features are read: counted by sampling ahead of the training (Heta, section 6)."""

from collections.abc import Mapping

import numpy as np
from tqdm import tqdm

from hetjax.sampling.loader import Batches, WholeGraph


def hotness(
    batches: Batches | WholeGraph, nodes: Mapping[str, int], epochs: int, hidden: bool = False
) -> dict[str, np.ndarray]:
    """Reads of every node of these types, int64 `[nodes]`, in the first epochs of the training: same sampler, same seeds.

    Args:
      nodes: how many there are of each type.
      hidden: show no progress bar.
    """
    counts = {name: np.zeros(count, np.int64) for name, count in nodes.items()}
    if isinstance(batches, WholeGraph):
        return {name: count + 1 for name, count in counts.items()}
    with tqdm(total=epochs * batches.steps(), unit="batch", desc="presampling", disable=hidden or None) as bar:
        for epoch in range(epochs):
            for sample in batches.samples(epoch):
                for name, count in counts.items():
                    if name in sample.inputs:
                        count[sample.inputs[name]] += 1
                bar.update()
    return counts
