"""Batches for one device."""

from collections.abc import Callable, Iterator, Mapping

import jax
import numpy as np

from hetjax.sampling.blocks import Batch, Sample, measure, pad_sample
from hetjax.sampling.loader import Batches, Examples
from hetjax.sampling.regime import Regime
from hetjax.sampling.sampler import Sampler
from hetjax.sampling.whole import count_edges, needed_graph
from hetjax.sharding.single.folded_together import FoldedTogether
from hetjax.system.arrays import Array


class SingleBatches(Batches):
    """Batches of examples with sampled neighbourhoods, or of all that the training examples depend on, on one device.

    Args:
      sampler: the sampler of the graph.
      task, regime, seed: as in `Batches`.
      to_device: puts a batch of host arrays on the device.
      together: the relations that mini-batches aggregate together.

    Attributes:
      edges: the number of edges that a step on the whole graph reads; 0 until its batch is sampled.
    """

    def __init__(
        self,
        sampler: Sampler,
        task: Examples,
        regime: Regime,
        seed: int,
        to_device: Callable[[Batch], Batch] = jax.device_put,
        together: FoldedTogether | None = None,
    ):
        self.sampler, self.to_device, self.together = sampler, to_device, together
        self.edges = 0
        super().__init__(sampler.graph, task, regime, seed, "train")

    def sample(self, examples: np.ndarray, stream: tuple) -> Sample:
        seeds = self.nodes(examples)
        if self.regime.whole:
            blocks = needed_graph(self.sampler, seeds, len(self.regime.fanouts))
            self.edges = count_edges(blocks)
            return Sample(blocks, {}, (), seeds)
        sample = self.sampler.sample(seeds, self.regime.fanouts, stream)
        return self.together.paired(sample) if self.together else sample

    def measure(self, sample: Sample) -> Iterator[tuple[str, int, int]]:
        if not self.regime.whole:
            yield from self.measure_seeds([sample.seeds], self.regime.batch_size)
        yield from measure(self.use, sample, self.graph)
        if self.together:
            yield from self.together.measure(sample)

    def reads(self, sample: Sample) -> dict[tuple[str, int], np.ndarray]:
        return {(node_type, 0): ids for node_type, ids in sample.inputs.items()}

    def send(self, examples: np.ndarray, sample: Sample) -> Batch:
        size, blocks = self.regime.batch_size, sample.blocks
        inputs: Mapping[str, Array] = {}
        if self.regime.whole:  # in which nothing is padded, and targets are in the order of their ids
            rows = {t: np.unique(ids, return_inverse=True)[1].astype(np.int32) for t, ids in sample.seeds.items()}
        else:
            room = self.seed_rooms(size)
            rows = {t: np.arange(count, dtype=np.int32) for t, count in room.items()}
            blocks, inputs = pad_sample(self.capacities, self.use, sample, room, self.graph)
            if self.together:
                blocks = self.together.filled(self.capacities, blocks, sample, room)
        return self.to_device(Batch(blocks, inputs, rows, self.arrays(examples, size)))
