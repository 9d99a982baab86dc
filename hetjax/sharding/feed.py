"""Batches for a mesh: every partition samples its relations, every replica its share of the seeds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.graph.hetgraph import HetGraph
from hetjax.partition.plan import Plan
from hetjax.sampling.blocks import pad, rows_of
from hetjax.sampling.loader import Batches, Drawn
from hetjax.sampling.local import Local, LocalSample, Share, draw_local, measure_local, pad_local, whole_local
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.mesh import DATA, row

Samples = list[list[LocalSample]]  # of each partition, of each of its replicas


class MeshBatch(NamedTuple):
    """One step's input on a mesh.

    Attributes:
      parts: of each partition, on its devices; the arrays of its replicas one after the other, sharded over `data`.
      labels: as in `Batch`, the replicas' shares one after the other, `[data * seeds, ...]` sharded over `data`.
      weights: float32 `[data * seeds]`, 1 for a seed and 0 for padding.
    """

    parts: tuple[Local, ...]
    labels: jax.Array
    weights: jax.Array


def shares(plan: Plan) -> list[Share]:
    """What each partition of a plan computes."""
    return [Share(part.program, plan.tree.targets[0], plan.tree.exchange == "every") for part in plan.parts]


class MeshBatches(Batches):
    """Mini-batches for a mesh.

    The seeds of a batch, their order and every neighbour are those of `MiniBatches`; replica `d` has the `d`-th share
    of the seeds, and every partition the same shares.

    Args:
      graph: all of it; of each partition only the relations that it folds are read.
      plan: who folds what.
      mesh: `relation` x `data`, as the plan has them.
      in_place, learnable: as in `Sampler`.
      fanouts: as in `MiniBatches`.
      batch_size, seed, limit, capacities: as in `Batches`.
    """

    def __init__(
        self,
        graph: HetGraph,
        plan: Plan,
        mesh: Mesh,
        in_place: frozenset[str],
        learnable: frozenset[str],
        fanouts: Sequence[int],
        batch_size: int,
        seed: int,
        limit: int = 0,
        capacities: Mapping[str, int] | None = None,
    ):
        self.fanouts, self.mesh, self.shares = tuple(fanouts), mesh, shares(plan)
        self.shared = {name: parts for name, parts in plan.shared.items() if name in learnable}
        self.samplers = [Sampler(plan.take(graph, part), in_place, learnable) for part in plan.parts]
        use = "mesh_{relation}x{data}".format(**mesh.shape)
        super().__init__(graph, batch_size, seed, limit, capacities, use)

    def sample(self, seeds: np.ndarray, stream: tuple) -> Samples:
        return [
            [draw_local(sampler, share, ids, self.fanouts, stream) for ids in self._divide(seeds)]
            for sampler, share in zip(self.samplers, self.shares)
        ]

    def _size(self) -> int:
        """Seeds of a replica."""
        return -(-self.batch_size // self.mesh.shape[DATA])

    def _divide(self, seeds: np.ndarray) -> list[np.ndarray]:
        size = self._size()
        return [seeds[d * size : (d + 1) * size] for d in range(self.mesh.shape[DATA])]

    def _use(self, part: int) -> str:
        return f"{self.use}/{part}"

    def measure(self, sample: Samples) -> Iterator[tuple[str, int, int]]:
        for part, replicas in enumerate(sample):
            for replica in replicas:
                yield from measure_local(self._use(part), replica, self.samplers[part].graph)

    def place(self, seeds: np.ndarray, sample: Samples) -> MeshBatch:
        for need in self.measure(sample):
            self.plan.fit(*need)
        self._level()
        parts = tuple(self._local(part, replicas) for part, replicas in enumerate(sample))
        whole = NamedSharding(self.mesh, P(DATA))
        size = self._size() * self.mesh.shape[DATA]
        labels, weights = pad(self.graph.labels[seeds], size, 0), pad(np.ones(len(seeds), np.float32), size, 0)
        return MeshBatch(parts, *jax.device_put((labels, weights), whole))

    def _level(self) -> None:
        """Give shared learnable types the same capacity in all partitions, whose ids and gradients are exchanged."""
        for name, parts in self.shared.items():
            names = [rows_of(self._use(part), 0, name) for part in parts]
            most = max(self.plan.capacities.get(one, 0) for one in names)
            self.plan.capacities |= dict.fromkeys(names, most)

    def _local(self, part: int, replicas: list[LocalSample]) -> Local:
        graph, seeds = self.samplers[part].graph, {self.graph.schema.target: self._size()}
        padded = [pad_local(self.plan, self._use(part), replica, seeds, graph) for replica in replicas]
        joined = jax.tree.map(lambda *arrays: np.concatenate(arrays), *padded)
        return jax.device_put(joined, NamedSharding(row(self.mesh, part), P(DATA)))


class MeshWholeGraph(MeshBatches):
    """The whole graph, one step an epoch: a replica folds all of it for its share of the training nodes."""

    def __init__(self, graph: HetGraph, plan: Plan, mesh: Mesh):
        self.made = None
        super().__init__(graph, plan, mesh, frozenset(), frozenset(), (), len(graph.splits["train"]), 0)

    def sample(self, seeds: np.ndarray, stream: tuple) -> Samples:
        return [
            [whole_local(sampler, share, ids) for ids in self._divide(seeds)]
            for sampler, share in zip(self.samplers, self.shares)
        ]

    def _order(self, epoch: int) -> np.ndarray:
        return self.train

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        for _ in range(first, 1):
            self.made = self.made or self._draw(self.train, 0, 0)._replace(capacities={}, seconds=0.0)
            yield self.made
