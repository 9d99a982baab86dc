"""Batches whose neighbourhoods the partitions of the nodes share.

The seeds of a step, their order and every neighbour are those of one device. Topology is read from the graph that every
process maps, so sampling sends nothing. Systems that keep topology divided too send neighbours from host to host for
it; the counts here favour every mode by that amount. Every process samples for all partitions: so all know
the same capacities, and who needs which row of whom, without a message, at the price of sampling more.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh

from hetjax.cache.features import Key
from hetjax.partition import EdgeCut
from hetjax.sampling.blocks import NO_NODE, Batch, pad
from hetjax.sampling.loader import Batches, by_owner
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.dependency.features import PartitionFeatures
from hetjax.sharding.dependency.groups import Group, Groups
from hetjax.sharding.dependency.pieces import Piece
from hetjax.sharding.dependency.room import Room, divide, here_of, measure, room
from hetjax.sharding.dependency.shares import Keep, Share, shares
from hetjax.sharding.dependency.work import Work, added, work
from hetjax.sharding.mesh import from_shards
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.strategy import Setup
from hetjax.system.mapped import on_host


class DependencyBatch(NamedTuple):
    """One step's input.

    Attributes:
      program: the input of the program of all devices. `SpmdBatch.rows` has, per learnable type, the rows of a partition that
        it computes itself; those of a type on the host are numbered as they are requested.
      requests: the rows that the step requests, int32, per learnable type on the host and partition of this process; `NO_NODE` is
        padding.
    """

    program: SpmdBatch
    requests: Mapping[str, Mapping[int, np.ndarray]]


class Parts(NamedTuple):
    """A batch of exact sizes.

    Attributes:
      examples: the examples of every partition.
      seeds: their seeds per root type.
      layers: the share of every partition of every layer.
      pieces: the pieces of each partition in every layer.
    """

    examples: Sequence[np.ndarray]
    seeds: Sequence[Mapping[str, np.ndarray]]
    layers: Sequence[tuple[Share, ...]]
    pieces: Sequence[Sequence[Sequence[Piece]]]


class DependencyBatches(Batches):
    """Batches for a mesh of one device per partition; all partitions share capacities.

    On the whole graph a partition computes only what training nodes read.

    Args:
      sampler: the sampler of the whole graph.
      cut: the owner of each node.
      mesh: the mesh with the axis `data`, a device per partition.
      setup: the setup of the run.
      groups: the rows that may be sent.
      keep: the rows of others' nodes that partitions compute.
      schedule: `all_to_all`, `ring`, or `overlap`: a ring, in which received rows are aggregated while the next ones travel, in layers that
        can.
      features: the places of features.
    """

    def __init__(
        self,
        sampler: Sampler,
        cut: EdgeCut,
        mesh: Mesh,
        setup: Setup,
        groups: Groups,
        keep: Keep,
        schedule: str,
        features: PartitionFeatures,
    ):
        self.sampler, self.owned, self.mesh, self.features = sampler, cut.owned, mesh, features
        self.learnable, self.groups, self.keep = frozenset(setup.trainer.learnable), groups, keep
        self.ring = schedule != "all_to_all"
        self.in_steps = [
            schedule == "overlap" and bool(layer.traits.edge_monoid) for layer in setup.trainer.model.layers
        ]
        self.done: list[Work] = []  # in the batches that were sent
        self.sent = 0
        self.padded: list[dict[str, int]] = []  # per layer and group the rows that a step sends, padding included
        self.all: Parts | None = None  # of the whole graph, which is sampled once
        super().__init__(sampler.graph, setup.task, setup.regime, setup.config.train.seed, f"dependency_{cut.parts}")

    def sample(self, examples: np.ndarray, stream: tuple) -> Parts:
        if self.regime.whole and self.all:
            return self.all
        regime = self.regime
        divided_examples = by_owner(self.task, examples, self.owned.owner, self.owned.parts)
        seeds = [self.nodes(own) for own in divided_examples]
        every = self.learnable if regime.whole else frozenset()  # as Adam steps along every row of the whole graph
        layers = shares(self.sampler, self.owned, seeds, regime.fanouts, stream, self.keep, every)
        if regime.whole:
            self.groups = [_sending(groups, n, layers) for n, groups in enumerate(self.groups)]
        divided = zip(zip(*layers), self.groups, self.in_steps)
        pieces = [divide(of, groups, in_steps, self.graph) for of, groups, in_steps in divided]
        parts = Parts(divided_examples, seeds, layers, pieces)
        if regime.whole:
            self.all = parts
        return parts

    def work(self, sample: Parts) -> list[Work]:
        """Return what partitions compute and send in a step, layer by layer."""
        return work(self.graph, self.owned, sample.layers, sample.seeds)

    def measure(self, sample: Parts) -> Iterator[tuple[str, int, int]]:
        """Return every capacity of the partition that needs most; differences between partitions say nothing about differences between batches."""
        whole = self.regime.whole
        most_examples = max(map(len, sample.examples))
        yield f"{self.use}/seeds", most_examples, self.regime.batch_size
        for name, size, most in self.measure_seeds(sample.seeds, most_examples):
            yield name, size, size if whole else most
        for depth, groups in enumerate(self.groups):
            shares = [layers[depth] for layers in sample.layers]
            for name, size, most in measure(self.use, depth, shares, sample.pieces[depth], groups, self.graph):
                yield name, size, size if whole else most  # the whole graph comes again as it is
            for t in sorted(self.learnable & shares[0].here.keys()) if whole and not depth else ():
                yield here_of(self.use, depth, t), self.owned.rows[t], self.owned.rows[t]  # all of a table is here

    def rooms(self, sample: Parts) -> list[Room]:
        """Return the shapes of every layer, as the capacities are."""
        has, layers = self.capacities.by_name, enumerate(zip(sample.layers[0], sample.pieces, self.groups))
        return [
            room(has, self.use, depth, share, pieces[0], groups, self.ring, self.graph)
            for depth, (share, pieces, groups) in layers
        ]

    def reads(self, sample: Parts) -> dict[Key, np.ndarray]:
        return self.features.read({part: self._inputs(sample, part) for part in self.features.here})

    def _inputs(self, sample: Parts, part: int) -> dict[str, np.ndarray]:
        """Return the rows of features that a partition reads on its own device, as it numbers its nodes."""
        return {t: self.owned.local[t][ids] for t, ids in sample.layers[part][0].here.items()}

    def send(self, examples: np.ndarray, sample: Parts) -> DependencyBatch:
        rooms, done = self.rooms(sample), self.work(sample)
        self.done, self.sent = added(self.done, done) if self.done else done, self.sent + 1
        self.padded = [{name: plan.sent for name, plan in layer.schedules.items()} for layer in rooms]
        padded = {part: self._pad(sample, rooms, part, self.weight(examples)) for part in self.features.here}
        requests = {t: {part: asked[t] for part, (_, asked) in padded.items()} for t in self.features.tables}
        return DependencyBatch(from_shards(self.mesh, [program for program, _ in padded.values()]), requests)

    def _pad(
        self, sample: Parts, rooms: Sequence[Room], part: int, weight: np.float32
    ) -> tuple[SpmdBatch, dict[str, np.ndarray]]:
        """Return the input of a partition's program, and the rows that it requests of tables on the host."""
        layers, size = sample.layers[part], self.capacities.by_name[f"{self.use}/seeds"]
        seed_rooms = self.seed_rooms(size)
        targets = [*(layer.here for layer in rooms[1:]), seed_rooms]
        of_part = [pieces[part] for pieces in sample.pieces]
        made = [room.padded(*of, part, target) for room, of, target in zip(rooms, zip(layers, of_part), targets)]
        blocks = [block for block, _ in made]
        named, here = layers[0].block.sources, rooms[0].here
        sources = {t: pad(ids, here[t], NO_NODE) for t, ids in named.items() if ids is not None}
        blocks[0] = blocks[0]._replace(sources=sources)
        read = {} if self.regime.whole else self._inputs(sample, part)  # of the whole graph all, in order
        rows = {t: on_host(pad(ids, here[t], NO_NODE)) for t, ids in read.items()}
        static = self.features.rows(part, rows)
        inputs = {t: ids for t, ids in rows.items() if t not in self.learnable and t not in static}
        seed_rows = {t: np.arange(room, dtype=np.int32) for t, room in seed_rooms.items()}
        local = Batch(tuple(blocks), inputs, seed_rows, self.arrays(sample.examples[part], size), static)
        asked = {t: rows[t] for t in self.features.tables}
        numbers = {t: pad(np.arange(len(read[t]), dtype=np.int32), here[t], NO_NODE) for t in asked}
        learned = {t: ids for t, ids in rows.items() if t in self.learnable} | numbers
        return SpmdBatch(local, (learned, tuple(of for _, of in made)), np.full(1, weight)), asked

    def residents(self, types: Sequence[str]) -> list[dict[str, np.ndarray]]:
        """Return the nodes of some types whose static features are on the device, in order, for every partition."""
        if self.regime.whole:
            return [
                {t: layers[0].here[t] for t in types} for layers in self.sample(self.train, (self.seed, 0, 0)).layers
            ]
        return [{t: self.owned.ids[t][part] for t in types} for part in range(self.owned.parts)]


def _sending(groups: Mapping[str, Group], depth: int, layers: Sequence[tuple[Share, ...]]) -> dict[str, Group]:
    """Return the groups in which any partition sends rows, or whose rows are read in another order than they are stored in."""
    alike = {
        t
        for t in layers[0][depth].here
        if all(np.array_equal(shares[depth].here[t], shares[depth].needed[t]) for shares in layers)
    }
    return {name: group for name, group in groups.items() if not alike.issuperset(group.types)}
