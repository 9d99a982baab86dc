"""Batches for vanilla execution: every partition samples the neighbourhood of the seeds that it owns.

The seeds of a step, their order and every neighbour are those of one device. Topology is read from the graph that every
process maps, so sampling sends nothing. Systems that keep topology divided too send neighbours from host to host for
it: what is counted here as vanilla's traffic is in its favour by so much. Every process samples for all partitions: so
all know the same capacities without a word, at the price of sampling more.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from hetjax.graph.hetgraph import HetGraph
from hetjax.partition.plan import EdgeCut
from hetjax.sampling.blocks import Block, Sample, measure, pad, pad_sample, rows_of
from hetjax.sampling.loader import Batches, Drawn
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding.exchange import Room, Wanted, want
from hetjax.sharding.mesh import places_here, spread


class VanillaBatch(NamedTuple):
    """One step's input; of every array the partitions' own one after the other, sharded over `data`.

    Attributes:
      blocks: as in `Batch`, of the partition's seeds.
      wanted: per node type the rows that the first layer reads.
      labels, weights: as in `Batch`; a partition's seeds are the first rows of its last layer.
      count: float32 `[1]`, seeds of all partitions.
    """

    blocks: tuple[Block, ...]
    wanted: Mapping[str, Wanted]
    labels: Any
    weights: Any
    count: Any


class Portion(NamedTuple):
    """What one partition samples: its seeds, their sample, and per type how many rows lie at each owner, `[parts]`."""

    seeds: np.ndarray
    sample: Sample
    counts: Mapping[str, np.ndarray]


class VanillaBatches(Batches):
    """Mini-batches for a mesh of one device per partition; all partitions share one plan of capacities.

    Args:
      graph: all of it.
      cut: who owns which node.
      mesh: with the axis `data`, a device per partition.
      learnable: node types whose rows get a gradient.
      flows: node types of whose rows the first layer's edges are turned around; as in `Sampler`.
      fanouts: as in `MiniBatches`.
      batch_size, seed, limit, capacities: as in `Batches`.
      own, named: as in `Sampler`.
    """

    def __init__(
        self,
        graph: HetGraph,
        cut: EdgeCut,
        mesh: Mesh,
        learnable: frozenset[str],
        flows: frozenset[str],
        fanouts: Sequence[int],
        batch_size: int,
        seed: int,
        limit: int = 0,
        capacities: Mapping[str, int] | None = None,
        own: bool = True,
        named: bool = False,
    ):
        self.owned, self.mesh, self.learnable, self.fanouts = cut.owned, mesh, learnable, tuple(fanouts)
        self.sampler = Sampler(graph, frozenset(), flows, own, named)
        super().__init__(graph, batch_size, seed, limit, capacities, f"vanilla_{cut.parts}")

    def sample(self, seeds: np.ndarray, stream: tuple) -> list[Portion]:
        target = self.graph.schema.target
        owners = self.owned.owner[target][seeds]
        return [self._portion(seeds[owners == part], stream) for part in range(self.owned.parts)]

    def _portion(self, seeds: np.ndarray, stream: tuple) -> Portion:
        sample = self.sampler.sample({self.graph.schema.target: seeds}, self.fanouts, stream)
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
        yield self._name("seeds"), len(portion.seeds), self.batch_size
        yield from measure(self.use, portion.sample, self.graph)
        for name, counts in portion.counts.items():
            yield self._name("own", name), int(counts[part]), self.owned.rows[name]
            yield self._name("remote", name), int(np.delete(counts, part).max(initial=0)), self.owned.rows[name]

    def _name(self, *what: str) -> str:
        return "/".join((self.use, *what))

    def place(self, seeds: np.ndarray, sample: list[Portion]) -> VanillaBatch:
        for need in self.measure(sample):
            self.plan.fit(*need)
        return spread(self.mesh, [self._pad(sample[part], part, len(seeds)) for part in places_here(self.mesh)])

    def _pad(self, portion: Portion, part: int, count: int) -> VanillaBatch:
        has, seeds = self.plan.capacities, portion.seeds
        size = has[self._name("seeds")]
        blocks, _ = pad_sample(self.plan, self.use, portion.sample, {self.graph.schema.target: size}, self.graph)
        wanted = {}
        for name, ids in portion.sample.inputs.items():
            room = Room(has[rows_of(self.use, 0, name)], has[self._name("remote", name)], has[self._name("own", name)])
            wanted[name] = want(self.owned, name, ids, part, room, name in self.learnable)
        labels, weights = pad(self.graph.labels[seeds], size, 0), pad(np.ones(len(seeds), np.float32), size, 0)
        return VanillaBatch(blocks, wanted, labels, weights, np.full(1, count, np.float32))


class VanillaWholeGraph(VanillaBatches):
    """The whole graph, one step an epoch: a partition folds the full neighbourhood of the training nodes that it owns."""

    def __init__(
        self, graph: HetGraph, cut: EdgeCut, mesh: Mesh, learnable: frozenset[str], layers: int, own: bool, named: bool
    ):
        self.made = None
        every = frozenset(graph.schema.nodes)
        seeds = len(graph.splits["train"])
        super().__init__(graph, cut, mesh, learnable, every, (ALL,) * layers, seeds, 0, own=own, named=named)

    def _order(self, epoch: int) -> np.ndarray:
        return self.train

    def _estimate(self) -> None:
        """Nothing: there is one batch, and the plan is fit to it when it is drawn."""

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        for _ in range(first, 1):
            self.made = self.made or self._draw(self.train, 0, 0)._replace(capacities={}, seconds=0.0)
            yield self.made
