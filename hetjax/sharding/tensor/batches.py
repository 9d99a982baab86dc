"""The whole graph as one batch: every device has all edges, and a range of the nodes."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.graph.schema import Relation
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import NO_NODE, Adjacency, Batch, Block, pad, pad_adjacency
from hetjax.sampling.loader import Batches, by_owner
from hetjax.sampling.whole import whole_graph
from hetjax.sharding import mesh as meshes
from hetjax.sharding.columns import slice_of
from hetjax.sharding.mesh import FEATURE
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.folds import Divided
from hetjax.sharding.tensor.seeds import are_shared, given, places, stacked

BLOCK_SPEC = Block(P(), P(FEATURE), P(FEATURE), P(FEATURE))  # type: ignore[arg-type]  # of all their arrays
SLICED_SPEC = Block(P(), P(), P(), P(FEATURE))  # type: ignore[arg-type]  # whose targets are all nodes on every device


class Given(NamedTuple):
    """The data of a step besides the batch.

    Attributes:
      still: the columns of each device of features that never change, as of `Together`.
      sent: the rows of the last embeddings that devices send, as of `seeds.gathered`.
    """

    still: Mapping[str, Any]
    sent: Mapping[str, Any]


def ranges(nodes: Mapping[str, int], parts: int) -> Owned:
    """Return the owners of nodes: ranges of ids, of equal sizes for every device in each type, except for the last ones."""
    return Owned({t: np.arange(count) // max(1, -(-count // parts)) for t, count in nodes.items()}, parts)


class TensorBatches(Batches):
    """The one batch of the whole graph, for a mesh of devices that divide the columns.

    Args:
      setup: the setup of the run.
      mesh: the mesh with the axis `feature`.
      owned: the owner of each node.
      still: the types whose features the first layer's relations read as they are, at every step the same.
    """

    def __init__(self, setup: Setup, mesh: Mesh, owned: Owned, still: Container[str]):
        self.mesh, self.owned, self.reads_own = mesh, owned, setup.trainer.model.reads_own
        self.still = [t for t in setup.trainer.widths if t in still]
        self.decoupled = setup.trainer.model.decoupled is not None
        super().__init__(setup.graph, setup.task, setup.regime, setup.config.train.seed, "tensor")

    def sample(self, examples: np.ndarray, stream: tuple) -> tuple[Block, ...]:
        return whole_graph(self.graph, self.task.roots, len(self.regime.fanouts), self.reads_own)

    def measure(self, sample: tuple[Block, ...]) -> Iterator[tuple[str, int, int]]:
        return iter(())  # nothing grows

    def send(self, examples: np.ndarray, sample: tuple[Block, ...]) -> SpmdBatch:
        own = by_owner(self.task, examples, self.owned.owner, self.owned.parts)
        size = max(1, *map(len, own))
        seeds = [self.nodes(share) for share in own]
        rows, sent = self._seed_rows(seeds)
        arrays = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(self.arrays(share, size) for share in own))
        local = Batch((), {}, rows, arrays)
        weight = np.full(self.mesh.size, self.weight(examples))
        kept = {t: self._columns(self.graph.features[t]) for t in self.still}
        sharded: SpmdBatch = meshes.put(self.mesh, P(FEATURE), SpmdBatch(local, Given(kept, sent), weight))
        return sharded._replace(local=sharded.local._replace(blocks=self._blocks(sample)))

    def _seed_rows(self, seeds: Sequence[Mapping[str, np.ndarray]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the rows of every device's seeds, and the rows that devices send; none where each has its own seeds' rows."""
        shared = are_shared(seeds, self.owned)
        nodes = given(seeds, self.owned, shared)
        sizes = {t: max(1, *map(len, parts)) for t, parts in nodes.items()}
        local = {t: stacked([self.owned.local[t][ids] for ids in parts], sizes[t]) for t, parts in nodes.items()}
        if not shared:
            return local, {}
        rooms = {t: max(1, *(len(own[t]) for own in seeds)) for t in nodes}
        return {t: stacked(of, rooms[t]) for t, of in places(seeds, nodes, sizes, shared).items()}, local

    def _blocks(self, sample: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return the layers' blocks on the mesh; arrays that several of them have are there once."""
        every = {key: edges for block in sample for key, edges in block.adjacency.items()}
        whole = {key: meshes.put(self.mesh, P(), self._divided(key, edges)) for key, edges in every.items()}
        ids = {t: meshes.put(self.mesh, P(FEATURE), self._ids(t)) for t in self.graph.schema.nodes}

        def named(rows: Mapping[str, Any]) -> dict[str, Any]:
            return {t: ids[t] for t in rows}

        def own(rows: Mapping[str, Any]) -> dict[str, Any]:
            return {t: found if found is None else self._nowhere(t) for t, found in rows.items()}

        if self.decoupled:
            return tuple(
                Block(
                    {key: whole[key].adjacency for key in block.adjacency},
                    own(block.self_rows),
                    block.targets,
                    named(block.sources),
                )
                for block in sample
            )
        return tuple(
            Block(
                {key: self._as_read(depth, key, whole[key]) for key in block.adjacency},  # type: ignore[misc]
                own(block.self_rows),
                named(block.targets),
                named(block.sources),
            )
            for depth, block in enumerate(sample)
        )

    def _as_read(self, depth: int, key: str, edges: Divided) -> Divided:
        """Return a relation's edges as a layer reads them; they say if their sources never change."""
        source = self._relation(key).source
        return replace(edges, still=source) if source in self.still and not depth else edges

    def _relation(self, key: str) -> Relation:
        (found,) = (relation for relation in self.graph.schema.relations if relation.key == key)
        return found

    def _columns(self, matrix: np.ndarray) -> np.ndarray:
        """Return a slice of the columns of all rows for every device, one after the other."""
        parts = self.mesh.size
        rows, columns = (slice_of(count, parts) * parts for count in matrix.shape)
        padded = np.pad(matrix, [(0, rows - len(matrix)), (0, columns - matrix.shape[1])])
        return np.concatenate(np.split(padded, parts, axis=1))

    def _divided(self, key: str, edges: Adjacency) -> Divided:
        relation, parts = self._relation(key), self.mesh.size
        rows = {t: parts * self.owned.rows[t] for t in (relation.source, relation.target)}
        padded = pad_adjacency(edges, rows[relation.target], rows[relation.source], len(edges.indices))
        return Divided(padded, parts)

    def _ids(self, node_type: str) -> np.ndarray:
        nodes, rows = self.graph.schema.nodes[node_type], self.mesh.size * self.owned.rows[node_type]
        return np.asarray(pad(np.arange(nodes, dtype=np.int32), rows, NO_NODE))

    def _nowhere(self, node_type: str) -> Any:
        spec = P() if self.decoupled else P(FEATURE)
        return meshes.put(self.mesh, spec, np.full(self.mesh.size * self.owned.rows[node_type], NO_NODE))
