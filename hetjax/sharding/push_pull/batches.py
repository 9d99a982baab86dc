"""Mini-batches for groups of replicas that divide the columns of the input among them.

The seeds of a step, their order and every neighbour are those of one device; each replica has a share of the seeds. Every process
samples for all replicas, so all know who reads what, and nothing is sent to agree on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.sampling.blocks import NO_NODE, Batch, pad
from hetjax.sampling.loader import Batches
from hetjax.sampling.sampler import Role, Sampler
from hetjax.sharding.mesh import DATA, FEATURE, put
from hetjax.sharding.push_pull.sample import GroupSample, Nodes, draw_group, measure_group, pad_group
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.strategy import Setup

REPLICAS = P((DATA, FEATURE))  # of arrays of all replicas, group after group; of a group's, `P(DATA)`


class Shared(NamedTuple):
    """The data that a group shares.

    Attributes:
      picks: int32 `[replicas, rows]` per type, the rows at the cut of the group that each replica has.
      everyone: distinct int32 ids that any group reads, per learnable type; none where there is one group.
      places: the position of each row that this group reads among these.
    """

    picks: Mapping[str, Any]
    everyone: Mapping[str, Any]
    places: Mapping[str, Any]


class PushBatches(Batches):
    """Batches for a mesh `data` x `feature`: groups of replicas.

    Args:
      setup: the setup of the run.
      mesh: the mesh.
      cut: the number of layers that a group aggregates together, 1; or 0, where replicas are given whole rows.
    """

    def __init__(self, setup: Setup, mesh: Mesh, cut: int):
        model = setup.trainer.model
        self.mesh, self.cut, self.learnable = mesh, cut, frozenset(setup.trainer.learnable)
        self.sampler = Sampler(setup.graph, frozenset(), setup.flowing, model.reads_own, model.drops)
        self.groups, self.each = mesh.shape[DATA], mesh.shape[FEATURE]
        super().__init__(
            setup.graph, setup.task, setup.regime, setup.config.train.seed, f"push_{self.groups}x{self.each}"
        )

    @property
    def size(self) -> int:
        """The number of examples of a replica."""
        return -(-self.regime.batch_size // self.mesh.size)

    def shares(self, examples: np.ndarray) -> list[np.ndarray]:
        """Return the examples of each replica."""
        return [examples[start : start + self.size] for start in range(0, self.mesh.size * self.size, self.size)]

    def sample(self, examples: np.ndarray, stream: tuple) -> list[GroupSample]:
        own: list[Nodes] = [self.nodes(share) for share in self.shares(examples)]
        every = [own[start : start + self.each] for start in range(0, self.mesh.size, self.each)]
        drawn = self.regime.fanouts, stream
        return [draw_group(self.sampler, self._roles, of, of, self.cut, *drawn) for of in every]

    def _roles(self, depth: int, seeds: Nodes, nodes: Nodes) -> Sequence[Role]:
        return (Role(nodes, self.graph.schema.relations),)

    def measure(self, sample: list[GroupSample]) -> Iterator[tuple[str, int, int]]:
        """Return every capacity of the replica or group that needs most; differences between these say nothing about differences between batches."""
        yield from self.measure_seeds([seeds for group in sample for seeds in group.seeds], self.size)
        most: dict[str, tuple[int, int]] = {}
        for group in sample:
            for name, size, bound in measure_group(self.use, group, self.cut, self.graph):
                most[name] = max(size, most.get(name, (0, 0))[0]), bound
        for t, ids in self._everyone(sample).items():
            most[f"{self.use}/everyone/{t}"] = len(ids), self.graph.schema.nodes[t]
        yield from ((name, size, bound) for name, (size, bound) in most.items())

    def _everyone(self, sample: list[GroupSample]) -> dict[str, np.ndarray]:
        """Return the rows that any group reads, per learnable type."""
        if self.groups == 1:
            return {}
        read = [group.below.bottom for group in sample]
        return {t: np.unique(np.concatenate([of[t] for of in read])) for t in read[0] if t in self.learnable}

    def send(self, examples: np.ndarray, sample: list[GroupSample]) -> SpmdBatch:
        fit, rooms = self.capacities, self.seed_rooms(self.size)
        padded = [pad_group(fit, self.use, group, rooms, rooms, self.graph) for group in sample]
        above = [tuple(block for (block,) in blocks) for group in padded for blocks in group.above]
        below = [tuple(block for (block,) in group.below) for group in padded]
        of_groups = stacked(below), stacked([group.inputs for group in padded]), stacked([g.picks[1] for g in padded])
        everyone, places = self._together(sample, padded)
        arrays = stacked([self.arrays(share, self.size) for share in self.shares(examples)])
        rows = {t: np.tile(np.arange(room, dtype=np.int32), self.mesh.size) for t, room in rooms.items()}
        weight = np.full(self.mesh.size, self.weight(examples))
        of_replicas = stacked(above), rows, arrays, weight
        together, inputs, picks, places = put(self.mesh, P(DATA), (*of_groups, places))
        own, seed_rows, arrays, weight = put(self.mesh, REPLICAS, of_replicas)
        local = Batch((*together, *own), inputs, seed_rows, arrays)
        return SpmdBatch(local, Shared(picks, put(self.mesh, P(), everyone), places), weight)

    def _together(self, sample: list[GroupSample], padded: Sequence[Any]) -> tuple[dict, dict]:
        """Return `everyone` and `places` as `Shared` has them, the places of all groups one after the other."""
        every, places = self._everyone(sample), {}
        for t, ids in every.items():
            placed = [np.searchsorted(ids, of.below.bottom[t]).astype(np.int32) for of in sample]
            places[t] = np.concatenate([pad(at, len(of.inputs[t]), NO_NODE) for at, of in zip(placed, padded)])
        room = self.capacities.by_name
        return {t: pad(ids, room[f"{self.use}/everyone/{t}"], NO_NODE) for t, ids in every.items()}, places


def stacked(trees: Sequence[Any]) -> Any:
    """Return trees of arrays as one, concatenated along the first axis."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)
