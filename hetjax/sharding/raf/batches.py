"""Batches for a mesh: every partition samples its relations, every replica its share of the seeds."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import Key
from hetjax.sampling.blocks import NO_NODE, pad, rows_of
from hetjax.sampling.loader import Batches, Examples, Needs
from hetjax.sampling.regime import Regime
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.mesh import DATA, from_shards, put
from hetjax.sharding.raf.features import MeshFeatureStore, RowRequest, request_rows
from hetjax.sharding.raf.sample import Local, LocalSample, draw_local, measure_local, pad_local, whole_local
from hetjax.sharding.raf.site import Site, partition_models

CAPACITIES = "capacities"  # what processes call it when they agree on a batch's


class Samples(NamedTuple):
    """The samples on which a batch depends.

    Attributes:
      parts: the sample of each replica of this process, by partition.
      hosted: the nodes that any device reads, int32, ascending, per learnable type on the host.
    """

    parts: dict[int, list[LocalSample]]
    hosted: dict[str, np.ndarray]


class MeshBatch(NamedTuple):
    """One step's input on a mesh.

    Attributes:
      parts: the part of each partition of this process, on its devices; the arrays of its replicas one after the other, sharded over
        `data`.
      seeds: int32 ids per root type, the replicas' shares one after the other, `[data * seeds]` sharded over `data`.
      arrays: as in `Batch`, the replicas' shares one after the other, `[data * seeds, ...]` sharded over `data`.
      requests: the rows that the step reads, of every learnable type on the host; the ids in `parts` are then positions among these.
    """

    parts: dict[int, Local]
    seeds: Mapping[str, jax.Array]
    arrays: Any
    requests: Mapping[str, RowRequest] = {}


class RafBatches(Batches):
    """Batches for a mesh.

    The examples of a batch, their order and every neighbour are those of one device; replica `d` has the `d`-th share
    of the examples, and every partition the same shares. A process samples those of its own partitions and replicas. All
    processes have the same capacities, which they agree on in the thread that samples.

    Args:
      site: this process's place.
      read_by_id, learnable, named: as in `Sampler`.
      task, regime, seed: as in `Batches`.
      features: the places of features.
    """

    def __init__(
        self,
        site: Site,
        read_by_id: frozenset[str],
        learnable: frozenset[str],
        task: Examples,
        regime: Regime,
        seed: int,
        features: MeshFeatureStore,
        named: bool = False,
    ):
        self.features, self.site, self.models = features, site, partition_models(site.plan)
        self.shared = {name: parts for name, parts in site.plan.shared.items() if name in learnable}
        self.samplers = {
            part: Sampler(graph, read_by_id, learnable, self.models[0].reads_own, named)
            for part, graph in site.graphs.items()
        }
        use = "mesh_{relation}x{data}".format(**site.mesh.shape)
        super().__init__(next(iter(site.graphs.values())), task, regime, seed, use)

    def sample(self, examples: np.ndarray, stream: tuple) -> Samples:
        parts, seeds = self.site.parts, self._seeds(examples)
        return Samples({p: [self._sample_local(p, seeds[n], stream) for n in self.site.replicas(p)] for p in parts}, {})

    def _shares(self, examples: np.ndarray) -> list[np.ndarray]:
        """Return the examples of each replica."""
        size = self._size()
        return [examples[n * size : (n + 1) * size] for n in range(self.site.mesh.shape[DATA])]

    def _seeds(self, examples: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Return the seeds of each replica."""
        return [self.nodes(share) for share in self._shares(examples)]

    def unite(self, sample: Samples) -> Samples:
        return sample._replace(hosted=self.features.hosted_nodes(sample.parts))

    def reads(self, sample: Samples) -> dict[Key, np.ndarray]:
        return self.features.read(*sample)

    def _sample_local(self, part: int, seeds: Mapping[str, np.ndarray], stream: tuple) -> LocalSample:
        if self.regime.whole:
            return whole_local(self.samplers[part], self.models[part], seeds)
        return draw_local(self.samplers[part], self.models[part], seeds, self.regime.fanouts, stream)

    def _size(self) -> int:
        """The number of examples of a replica."""
        return -(-self.regime.batch_size // self.site.mesh.shape[DATA])

    def _use(self, part: int) -> str:
        return f"{self.use}/{part}"

    def measure(self, sample: Samples) -> Iterator[tuple[str, int, int]]:
        yield from self.measure_seeds([of.seeds for replicas in sample.parts.values() for of in replicas], self._size())
        for part, replicas in sample.parts.items():
            for replica in replicas:
                yield from measure_local(self._use(part), replica, self.samplers[part].graph)
        for name, ids in sample.hosted.items():
            nodes, owners = self.graph.schema.nodes[name], self.features.owners(name)
            yield f"{self.use}/hosted/{name}", len(ids), nodes
            if owners > 1:
                most = np.bincount(ids % owners, minlength=1).max()
                yield f"{self.use}/hosted by {owners}/{name}", most, -(-nodes // owners)

    def agree(self, needs: Needs) -> Needs:
        united: Needs = {}
        for needed in self.site.group.all_gather(CAPACITIES, needs):
            for name, (sizes, most) in needed.items():
                united[name] = united.get(name, ([], most))[0] + sizes, most
        return {name: united[name] for name in sorted(united)}

    def send(self, examples: np.ndarray, sample: Samples) -> MeshBatch:
        parts = {part: self._local(part, replicas, sample.hosted) for part, replicas in sample.parts.items()}
        size, rooms, seeds = self._size(), self.seed_rooms(self._size()), self._seeds(examples)
        of_replicas = [self.arrays(share, size) for share in self._shares(examples)]
        every = {t: np.concatenate([pad(of[t], room, NO_NODE) for of in seeds]) for t, room in rooms.items()}
        stacked = jax.tree.map(lambda *leaves: np.concatenate(leaves), *of_replicas)
        ids, arrays = put(self.site.mesh, P(DATA), (every, stacked))
        requests = {name: self._request(name, nodes) for name, nodes in sample.hosted.items()}
        return MeshBatch(parts, ids, arrays, requests)

    def _request(self, name: str, ids: np.ndarray) -> RowRequest:
        rows, owners = self.capacities.by_name[f"{self.use}/hosted/{name}"], self.features.owners(name)
        each = rows if owners == 1 else self.capacities.by_name[f"{self.use}/hosted by {owners}/{name}"]
        return request_rows(ids, owners, rows, each)

    def fit(self, needs: Needs) -> None:
        super().fit(needs)
        for name, parts in self.shared.items():
            names = [self._rows(part, name) for part in parts]
            most = max(self.capacities.by_name.get(rows, 0) for rows in names)
            self.capacities.by_name |= dict.fromkeys(names, most)  # the partitions exchange their ids and gradients

    def _rows(self, part: int, node_type: str) -> str:
        """Return the name of the capacity of a partition's rows of features."""
        return rows_of(self._use(part), 0, node_type)

    def _local(self, part: int, replicas: list[LocalSample], hosted: Mapping[str, np.ndarray]) -> Local:
        graph, seeds, padded = self.samplers[part].graph, self.seed_rooms(self._size()), []
        for place, replica in zip(self.site.replicas(part), replicas, strict=True):
            placed = {
                t: np.searchsorted(hosted[t], ids).astype(np.int32) for t, ids in replica.inputs.items() if t in hosted
            }
            replica = replica._replace(inputs={**replica.inputs, **placed})
            local = pad_local(self.capacities, self._use(part), replica, seeds, graph)
            rows = self.features.rows(part, place, local.inputs)
            ids = {t: nodes for t, nodes in local.inputs.items() if t not in rows}
            padded.append(local._replace(inputs=ids, rows=rows))
        return from_shards(self.site.row(part), padded)
