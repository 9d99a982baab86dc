"""Batches for a mesh: every partition samples its relations, every replica its share of the seeds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.sampling.blocks import pad, rows_of
from hetjax.sampling.loader import Batches, Drawn, Needs
from hetjax.sampling.local import Local, LocalSample, draw_local, measure_local, pad_local, whole_local
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.mesh import DATA, put, spread
from hetjax.sharding.site import Site, shares

Samples = dict[int, list[LocalSample]]  # of each partition, of each of its replicas; of those that are here


class MeshBatch(NamedTuple):
    """One step's input on a mesh.

    Attributes:
      parts: of each partition that is here, on its devices; the arrays of its replicas one after the other, sharded over
        `data`.
      labels: as in `Batch`, the replicas' shares one after the other, `[data * seeds, ...]` sharded over `data`.
      weights: float32 `[data * seeds]`, 1 for a seed and 0 for padding.
    """

    parts: dict[int, Local]
    labels: jax.Array
    weights: jax.Array


class MeshBatches(Batches):
    """Mini-batches for a mesh.

    The seeds of a batch, their order and every neighbour are those of `MiniBatches`; replica `d` has the `d`-th share
    of the seeds, and every partition the same shares. A process draws those of its own partitions and replicas. All
    processes have the same plan of capacities, which they agree on in the thread that draws.

    Args:
      site: this process's place.
      in_place, learnable: as in `Sampler`.
      fanouts: as in `MiniBatches`.
      batch_size, seed, limit, capacities: as in `Batches`.
    """

    def __init__(
        self,
        site: Site,
        in_place: frozenset[str],
        learnable: frozenset[str],
        fanouts: Sequence[int],
        batch_size: int,
        seed: int,
        limit: int = 0,
        capacities: Mapping[str, int] | None = None,
    ):
        self.fanouts, self.site, self.shares = tuple(fanouts), site, shares(site.plan)
        self.shared = {name: parts for name, parts in site.plan.shared.items() if name in learnable}
        self.samplers = {
            part: Sampler(graph, in_place, learnable, self.shares[0].own) for part, graph in site.graphs.items()
        }
        use = "mesh_{relation}x{data}".format(**site.mesh.shape)
        super().__init__(next(iter(site.graphs.values())), batch_size, seed, limit, capacities, use)

    def sample(self, seeds: np.ndarray, stream: tuple) -> Samples:
        size = self._size()
        return {
            part: [
                self._sample_local(part, seeds[place * size : (place + 1) * size], stream)
                for place in self.site.places(part)
            ]
            for part in self.site.parts
        }

    def _sample_local(self, part: int, seeds: np.ndarray, stream: tuple) -> LocalSample:
        return draw_local(self.samplers[part], self.shares[part], seeds, self.fanouts, stream)

    def _size(self) -> int:
        """Seeds of a replica."""
        return -(-self.batch_size // self.site.mesh.shape[DATA])

    def _use(self, part: int) -> str:
        return f"{self.use}/{part}"

    def measure(self, sample: Samples) -> Iterator[tuple[str, int, int]]:
        for part, replicas in sample.items():
            for replica in replicas:
                yield from measure_local(self._use(part), replica, self.samplers[part].graph)

    def agree(self, needs: Needs) -> Needs:
        found: Needs = {}
        for needed in self.site.peers.share("capacities", needs):
            for name, (sizes, most) in needed.items():
                found[name] = found.get(name, ([], most))[0] + sizes, most
        return {name: found[name] for name in sorted(found)}

    def place(self, seeds: np.ndarray, sample: Samples) -> MeshBatch:
        parts = {part: self._local(part, replicas) for part, replicas in sample.items()}
        size = self._size() * self.site.mesh.shape[DATA]
        labels, weights = pad(self.graph.labels[seeds], size, 0), pad(np.ones(len(seeds), np.float32), size, 0)
        return MeshBatch(parts, *put(self.site.mesh, P(DATA), (labels, weights)))

    def fit(self, needs: Needs) -> None:
        super().fit(needs)
        for name, parts in self.shared.items():
            names = [rows_of(self._use(part), 0, name) for part in parts]
            most = max(self.plan.capacities.get(one, 0) for one in names)
            self.plan.capacities |= dict.fromkeys(names, most)  # the partitions exchange their ids and gradients

    def _local(self, part: int, replicas: list[LocalSample]) -> Local:
        graph, seeds = self.samplers[part].graph, {self.graph.schema.target: self._size()}
        padded = [pad_local(self.plan, self._use(part), replica, seeds, graph) for replica in replicas]
        return spread(self.site.row(part), padded)


class MeshWholeGraph(MeshBatches):
    """The whole graph, one step an epoch: a replica folds all of it for its share of the training nodes."""

    def __init__(self, site: Site):
        self.made = None
        seeds = next(iter(site.graphs.values())).splits["train"]
        super().__init__(site, frozenset(), frozenset(), (), len(seeds), 0)

    def _sample_local(self, part: int, seeds: np.ndarray, stream: tuple) -> LocalSample:
        return whole_local(self.samplers[part], self.shares[part], seeds)

    def _order(self, epoch: int) -> np.ndarray:
        return self.train

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        for _ in range(first, 1):
            self.made = self.made or self._draw(self.train, 0, 0)._replace(capacities={}, seconds=0.0)
            yield self.made
