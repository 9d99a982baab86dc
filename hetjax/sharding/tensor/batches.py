"""The whole graph as one batch: every device has all edges, and a range of the nodes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import NO_NODE, Adjacency, Batch, Block, pad, pad_adjacency
from hetjax.sampling.loader import Batches
from hetjax.sampling.whole import whole_graph
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import FEATURE
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.folds import Divided

BLOCK_SPEC = Block(P(), P(FEATURE), P(FEATURE), P(FEATURE))  # type: ignore[arg-type]  # of all their arrays


def ranges(nodes: Mapping[str, int], parts: int) -> Owned:
    """Who has which nodes: ranges of ids, of each type as many for every device, but for the last ones."""
    return Owned({t: np.arange(count) // max(1, -(-count // parts)) for t, count in nodes.items()}, parts)


class TensorBatches(Batches):
    """The one batch of the whole graph, for a mesh of devices that divide the columns.

    Args:
      setup: of the run.
      mesh: with the axis `feature`.
      owned: who has which nodes.
    """

    def __init__(self, setup: Setup, mesh: Mesh, owned: Owned):
        self.mesh, self.owned, self.reads_own = mesh, owned, setup.trainer.model.reads_own
        super().__init__(setup.graph, setup.regime, setup.config.train.seed, "tensor")

    def sample(self, seeds: np.ndarray, stream: tuple) -> tuple[Block, ...]:
        return whole_graph(self.graph, len(self.regime.fanouts), self.reads_own)

    def measure(self, sample: tuple[Block, ...]) -> Iterator[tuple[str, int, int]]:
        return iter(())  # nothing grows

    def send(self, seeds: np.ndarray, sample: tuple[Block, ...]) -> SpmdBatch:
        target = self.graph.schema.target
        own = self.owned.split(target, seeds)
        size = max(1, *map(len, own))
        rows = np.concatenate([pad(self.owned.local[target][ids], size, NO_NODE) for ids in own])
        labels, weights = (np.concatenate(found) for found in zip(*(self.labels_and_weights(ids, size) for ids in own)))
        local = Batch((), {}, rows, labels, weights)
        sharded: SpmdBatch = meshes.put(
            self.mesh, P(FEATURE), SpmdBatch(local, None, np.full(self.mesh.size, len(seeds), np.float32))
        )
        return sharded._replace(local=sharded.local._replace(blocks=self._blocks(sample)))

    def _blocks(self, sample: tuple[Block, ...]) -> tuple[Block, ...]:
        """The layers' blocks on the mesh; what several of them have is there once."""
        every = {key: edges for block in sample for key, edges in block.adjacency.items()}
        whole = {key: meshes.put(self.mesh, P(), self._divided(key, edges)) for key, edges in every.items()}
        ids = {t: meshes.put(self.mesh, P(FEATURE), self._ids(t)) for t in self.graph.schema.nodes}

        def named(rows: Mapping[str, Any]) -> dict[str, Any]:
            return {t: ids[t] for t in rows}

        def own(rows: Mapping[str, Any]) -> dict[str, Any]:
            return {t: found if found is None else self._nowhere(t) for t, found in rows.items()}

        return tuple(
            Block(
                {key: whole[key] for key in block.adjacency},
                own(block.self_rows),
                named(block.targets),
                named(block.sources),
            )
            for block in sample
        )

    def _divided(self, key: str, edges: Adjacency) -> Divided:
        (relation,) = (r for r in self.graph.schema.relations if r.key == key)
        parts = self.mesh.size
        rows = {t: parts * self.owned.rows[t] for t in (relation.source, relation.target)}
        padded = pad_adjacency(edges, rows[relation.target], rows[relation.source], len(edges.indices))
        return Divided(padded, parts)

    def _ids(self, node_type: str) -> np.ndarray:
        nodes, rows = self.graph.schema.nodes[node_type], self.mesh.size * self.owned.rows[node_type]
        return np.asarray(pad(np.arange(nodes, dtype=np.int32), rows, NO_NODE))

    def _nowhere(self, node_type: str) -> Any:
        return meshes.put(self.mesh, P(FEATURE), np.full(self.mesh.size * self.owned.rows[node_type], NO_NODE))
