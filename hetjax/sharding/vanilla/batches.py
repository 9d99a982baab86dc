"""Batches for vanilla execution: every partition samples the neighbourhood of the seeds that it owns.

The seeds of a step, their order and every neighbour are those of one device. Topology is read from the graph that every
process maps, so sampling sends nothing. Systems that keep topology divided too send neighbours from host to host for
it: what is counted here as vanilla's traffic is in its favour by so much. Every process samples for all partitions: so
all know the same capacities without a word, at the price of sampling more.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh

from hetjax.partition import EdgeCut
from hetjax.sampling.blocks import Batch, Sample, measure, pad_sample, rows_of
from hetjax.sampling.loader import Batches
from hetjax.sampling.regime import Regime
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.mesh import from_shards, positions_here
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.vanilla.exchange import RowCapacities, request_rows


class Portion(NamedTuple):
    """What one partition samples: its seeds, their sample, and per type how many rows lie at each owner, `[parts]`."""

    seeds: np.ndarray
    sample: Sample
    counts: Mapping[str, np.ndarray]


class VanillaBatches(Batches):
    """Batches for a mesh of one device per partition; all partitions share capacities.

    Args:
      sampler: of the whole graph.
      cut: who owns which node.
      mesh: with the axis `data`, a device per partition.
      learnable: node types whose rows get a gradient.
      regime, seed: as in `Batches`; on the whole graph a partition folds the full neighbourhood of its own seeds.
    """

    def __init__(
        self, sampler: Sampler, cut: EdgeCut, mesh: Mesh, learnable: frozenset[str], regime: Regime, seed: int
    ):
        self.sampler, self.owned, self.mesh, self.learnable = sampler, cut.owned, mesh, learnable
        super().__init__(sampler.graph, regime, seed, f"vanilla_{cut.parts}")

    def sample(self, seeds: np.ndarray, stream: tuple) -> list[Portion]:
        target = self.graph.schema.target
        owners = self.owned.owner[target][seeds]
        return [self._portion(seeds[owners == part], stream) for part in range(self.owned.parts)]

    def _portion(self, seeds: np.ndarray, stream: tuple) -> Portion:
        sample = self.sampler.sample({self.graph.schema.target: seeds}, self.regime.fanouts, stream)
        owners = ((name, self.owned.owner[name][ids]) for name, ids in sample.inputs.items())
        return Portion(seeds, sample, {name: np.bincount(of, minlength=self.owned.parts) for name, of in owners})

    def measure(self, sample: list[Portion]) -> Iterator[tuple[str, int, int]]:
        """Of every capacity the partition that needs most; how partitions differ says nothing of how batches do."""
        largest: dict[tuple[str, int], int] = {}
        for part, portion in enumerate(sample):
            for name, size, most in self._measure(portion, part):
                largest[name, most] = max(size, largest.get((name, most), 0))
        return ((name, size, most) for (name, most), size in largest.items())

    def _measure(self, portion: Portion, part: int) -> Iterator[tuple[str, int, int]]:
        yield self._name("seeds"), len(portion.seeds), self.regime.batch_size
        yield from measure(self.use, portion.sample, self.graph)
        for name, counts in portion.counts.items():
            yield self._name("own", name), int(counts[part]), self.owned.rows[name]
            yield self._name("remote", name), int(np.delete(counts, part).max(initial=0)), self.owned.rows[name]

    def _name(self, *what: str) -> str:
        return "/".join((self.use, *what))

    def send(self, seeds: np.ndarray, sample: list[Portion]) -> SpmdBatch:
        return from_shards(self.mesh, [self._pad(sample[part], part, len(seeds)) for part in positions_here(self.mesh)])

    def _pad(self, portion: Portion, part: int, count: int) -> SpmdBatch:
        has, seeds = self.capacities.by_name, portion.seeds
        size = has[self._name("seeds")]
        blocks, _ = pad_sample(self.capacities, self.use, portion.sample, {self.graph.schema.target: size}, self.graph)
        exchanges = {}
        for name, ids in portion.sample.inputs.items():
            capacities = RowCapacities(
                has[rows_of(self.use, 0, name)], has[self._name("remote", name)], has[self._name("own", name)]
            )
            exchanges[name] = request_rows(self.owned, name, ids, part, capacities, name in self.learnable)
        local = Batch(blocks, {}, np.arange(size, dtype=np.int32), *self.labels_and_weights(seeds, size))
        return SpmdBatch(local, exchanges, np.full(1, count, np.float32))
