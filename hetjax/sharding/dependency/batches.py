"""Batches whose neighbourhoods the partitions of the nodes share.

The seeds of a step, their order and every neighbour are those of one device. Topology is read from the graph that every
process maps, so sampling sends nothing. Systems that keep topology divided too send neighbours from host to host for
it: what is counted here is in favour of every mode by so much. Every process samples for all partitions: so all know
the same capacities, and who needs which row of whom, without a word, at the price of sampling more.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh

from hetjax.partition import EdgeCut
from hetjax.sampling.blocks import NO_NODE, Batch, Block, edges_of, pad, pad_block, relations_of, rows_of
from hetjax.sampling.loader import Batches
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.dependency.exchange import Mirrors, counts, mirrors
from hetjax.sharding.dependency.groups import Group, Groups
from hetjax.sharding.dependency.schedule import Schedule, schedule
from hetjax.sharding.dependency.shares import Keep, Share, shares
from hetjax.sharding.dependency.work import Work, added, work
from hetjax.sharding.mesh import from_shards, positions_here
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.strategy import Setup


class Parts(NamedTuple):
    """A batch of exact sizes: of every partition its seeds, and its share of every layer."""

    seeds: Sequence[np.ndarray]
    layers: Sequence[tuple[Share, ...]]


class DependencyBatches(Batches):
    """Batches for a mesh of one device per partition; all partitions share capacities.

    On the whole graph a partition computes what training nodes read, and no more.

    Args:
      sampler: of the whole graph.
      cut: who owns which node.
      mesh: with the axis `data`, a device per partition.
      setup: of the run.
      groups: the rows that may be sent.
      keep: what partitions compute of others' nodes.
      ring: the schedule.
    """

    def __init__(
        self, sampler: Sampler, cut: EdgeCut, mesh: Mesh, setup: Setup, groups: Groups, keep: Keep, ring: bool
    ):
        self.sampler, self.owned, self.mesh = sampler, cut.owned, mesh
        self.learnable, self.groups, self.keep, self.ring = frozenset(setup.trainer.learnable), groups, keep, ring
        self.done: list[Work] = []  # in the batches that were sent
        self.sent = 0
        self.all: Parts | None = None  # of the whole graph, which is sampled once
        super().__init__(sampler.graph, setup.regime, setup.config.train.seed, f"dependency_{cut.parts}")

    def sample(self, seeds: np.ndarray, stream: tuple) -> Parts:
        if self.regime.whole and self.all:
            return self.all
        target, regime = self.graph.schema.target, self.regime
        every = self.learnable if regime.whole else frozenset()  # as Adam steps along every row of the whole graph
        layers = shares(self.sampler, self.owned, {target: seeds}, regime.fanouts, stream, self.keep, every)
        owner = self.owned.owner[target][seeds]
        parts = Parts([seeds[owner == part] for part in range(self.owned.parts)], layers)
        if regime.whole:
            self.all, self.groups = parts, [_sending(groups, n, layers) for n, groups in enumerate(self.groups)]
        return parts

    def work(self, sample: Parts) -> list[Work]:
        """What partitions do in a step, layer by layer."""
        return work(self.graph, self.owned, sample.layers, sample.seeds)

    def measure(self, sample: Parts) -> Iterator[tuple[str, int, int]]:
        """Of every capacity the partition that needs most; how partitions differ says nothing of how batches do."""
        largest: dict[tuple[str, int], int] = {}
        for seeds, layers in zip(*sample):
            for name, size, most in self._measure(seeds, layers):
                largest[name, most] = max(size, largest.get((name, most), 0))
        for (name, most), size in largest.items():
            yield name, size, size if self.regime.whole else most  # which comes again as it is
        for depth, groups in enumerate(self.groups):
            for name, (_, types) in groups.items():
                sent = counts([layers[depth] for layers in sample.layers], types)
                for (sender, receiver), size in np.ndenumerate(sent):
                    most = sum(self.owned.rows[t] for t in types)
                    yield (
                        self._sends(depth, name, sender, receiver),
                        int(size),
                        int(size if self.regime.whole else most),
                    )

    def _measure(self, seeds: np.ndarray, layers: Sequence[Share]) -> Iterator[tuple[str, int, int]]:
        nodes = self.graph.schema.nodes
        yield f"{self.use}/seeds", len(seeds), self.regime.batch_size
        for depth, share in enumerate(layers):
            for node_type in share.here:
                yield rows_of(self.use, depth, node_type), len(share.needed[node_type]), nodes[node_type]
                table = not depth and self.regime.whole and node_type in self.learnable  # all rows of it are here
                here = max(len(share.here[node_type]), self.owned.rows[node_type] if table else 0)
                yield self._here(depth, node_type), here, max(here, nodes[node_type])
            for relation in relations_of(share.block, self.graph):
                edges = len(share.block.adjacency[relation.key].indices)
                yield edges_of(self.use, depth, relation), edges, self.graph.relations[relation].edges

    def _here(self, depth: int, node_type: str) -> str:
        return f"{self.use}/{depth}/here/{node_type}"

    def _sends(self, depth: int, name: str, sender: int, receiver: int) -> str:
        return f"{self.use}/{depth}/sent/{name}/{sender}-{receiver}"

    def schedule(self, depth: int, name: str) -> Schedule:
        """Of a group, as the capacities are."""
        parts, has = range(self.owned.parts), self.capacities.by_name
        return schedule(np.array([[has[self._sends(depth, name, i, j)] for j in parts] for i in parts]), self.ring)

    def send(self, seeds: np.ndarray, sample: Parts) -> SpmdBatch:
        here, done = positions_here(self.mesh), self.work(sample)
        self.done, self.sent = added(self.done, done) if self.done else done, self.sent + 1
        return from_shards(self.mesh, [self._pad(sample, part, len(seeds)) for part in here])

    def _pad(self, sample: Parts, part: int, count: int) -> SpmdBatch:
        has, seeds, layers = self.capacities.by_name, sample.seeds[part], sample.layers[part]
        size, target = has[f"{self.use}/seeds"], self.graph.schema.target
        targets: dict[str, int] = {target: size}
        blocks: list[Block] = []
        for depth in reversed(range(len(layers))):
            share = layers[depth]
            needed = {t: has[rows_of(self.use, depth, t)] for t in share.here}
            edges = {r: has[edges_of(self.use, depth, r)] for r in relations_of(share.block, self.graph)}
            block = pad_block(share.block._replace(sources={}), targets, needed, edges)
            targets = {t: has[self._here(depth, t)] for t in share.here}
            sources = {t: pad(ids, targets[t], NO_NODE) for t, ids in share.block.sources.items() if ids is not None}
            blocks.insert(0, block._replace(sources=sources))
        rows = {t: pad(self.owned.local[t][ids], targets[t], NO_NODE) for t, ids in layers[0].here.items()}
        inputs = {} if self.regime.whole else {t: ids for t, ids in rows.items() if t not in self.learnable}
        rows = {} if self.regime.whole else {t: ids for t, ids in rows.items() if t in self.learnable}
        labels = self.labels_and_weights(seeds, size)
        local = Batch(tuple(blocks), inputs, np.arange(size, dtype=np.int32), *labels)
        sent = tuple(self._mirrors(layers[depth], part, depth) for depth in range(len(layers)))
        return SpmdBatch(local, (rows, sent), np.full(1, count, np.float32))

    def _mirrors(self, share: Share, part: int, depth: int) -> dict[str, Mirrors]:
        """Of the groups of types of which any partition sends any row."""
        has, made = self.capacities.by_name, {}
        for name, (_, types) in self.groups[depth].items():
            here = {t: has[self._here(depth, t)] for t in types}
            needed = {t: has[rows_of(self.use, depth, t)] for t in types}
            made[name] = mirrors(share, part, types, self.schedule(depth, name), here, needed)
        return made

    def padding(self) -> list[dict[str, float]]:
        """Per layer and group the rows that a step sends, padding included."""
        return [{name: self.schedule(depth, name).sent for name in groups} for depth, groups in enumerate(self.groups)]

    def residents(self, types: Sequence[str]) -> list[dict[str, np.ndarray]]:
        """Of every partition the nodes of some types whose static features its device has, in order."""
        if self.regime.whole:
            return [
                {t: layers[0].here[t] for t in types} for layers in self.sample(self.train, (self.seed, 0, 0)).layers
            ]
        return [{t: self.owned.ids[t][part] for t in types} for part in range(self.owned.parts)]


def _sending(groups: Mapping[str, Group], depth: int, layers: Sequence[tuple[Share, ...]]) -> dict[str, Group]:
    """The groups of which anybody sends anything, or that are read in another order than they are here."""
    alike = {
        t
        for t in layers[0][depth].here
        if all(np.array_equal(shares[depth].here[t], shares[depth].needed[t]) for shares in layers)
    }
    return {name: group for name, group in groups.items() if not alike.issuperset(group.types)}
