"""The engine of tensor parallelism on the whole graph.

Rows of features, tables and embeddings are divided by ranges of ids, and only the aggregations of a layer look beyond them.
"""

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.models.exchange import Exchange
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import Batch, pad
from hetjax.sharding import mesh as meshes
from hetjax.sharding.gathered import whole_tables
from hetjax.sharding.mesh import FEATURE, shard_map
from hetjax.sharding.spmd import SpmdBatch, SpmdEngine, replicate, to_host
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.batches import BLOCK_SPEC, SLICED_SPEC, TensorBatches
from hetjax.sharding.tensor.slices import Slices, heads_folded_by
from hetjax.sharding.tensor.together import Together
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import Rows, TrainState


class TensorEngine(SpmdEngine):
    """Training on a mesh of devices that divide the columns.

    Args:
      setup, batches: as in `Engine`.
      mesh: the mesh with the axis `feature`.
      owned: the owner of each node.
    """

    rows_spec = P(FEATURE)
    batches: TensorBatches

    def __init__(self, setup: Setup, batches: TensorBatches, mesh: Mesh, owned: Owned):
        layers = len(setup.trainer.model.layers)
        block = SLICED_SPEC if setup.trainer.model.decoupled else BLOCK_SPEC
        local = Batch._make([P(FEATURE)] * len(Batch._fields))._replace(blocks=(block,) * layers)
        self.batch_spec = SpmdBatch(local, P(FEATURE), P(FEATURE))
        self.owned, self.gathered = owned, setup.folder and setup.folder / "tables"
        static = {t: setup.graph.features[t] for t in setup.trainer.widths if t in setup.graph.features}
        super().__init__(setup, batches, mesh, self._divided(mesh, static))
        mapped = shard_map(self._embed, mesh, (P(), self.rows_spec, self.rows_spec, self.batch_spec), P(FEATURE))
        self.evaluation = Program("evaluation", mapped, mesh)

    def _divided(self, mesh: Mesh, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Put arrays `[nodes, ...]` of types, or trees of them, on the mesh, each device's own rows on it."""

        def padded(node_type: str, leaf: Any) -> np.ndarray:
            return np.asarray(pad(np.asarray(leaf), mesh.size * self.owned.rows[node_type], 0))

        divided = {t: jax.tree.map(lambda leaf: padded(t, leaf), tree) for t, tree in rows.items()}
        return meshes.put(mesh, P(FEATURE), divided)

    def shard(self, state: TrainState) -> TrainState:
        alike = replicate(self.mesh, state._replace(tables={}))
        return alike._replace(tables=self._divided(self.mesh, state.tables))

    def gather(self, state: TrainState) -> TrainState | None:
        own, processes = {t: meshes.shards(self.mesh, table) for t, table in state.tables.items()}, self.setup.processes
        tables = whole_tables(own, self.owned, processes, self.gathered if processes.count > 1 else None)
        return None if tables is None else jax.tree.map(np.asarray, state._replace(tables={}))._replace(tables=tables)

    def close(self) -> None:
        if self.gathered and self.setup.processes.first:
            shutil.rmtree(self.gathered, ignore_errors=True)

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        return dict(gradients), {}

    def exchanges(self, batch: SpmdBatch) -> Sequence[Exchange]:
        model, given = self.trainer.model, batch.rows
        if not model.decoupled:
            return [Together(given.still, given.sent) for _ in model.layers]
        wanted: list[dict[str, int]] = [{} for _ in model.layers]
        wanted[-1] = dict.fromkeys(model.roots, model.decoupled.widths[-1])
        return [
            Slices(self.mesh.size, layer.widths, not depth, of_layer, heads_folded_by(layer), given.sent)
            for depth, (layer, of_layer) in enumerate(zip(model.layers, wanted))
        ]

    def over_rows(self, value: jax.Array) -> jax.Array:
        return jax.lax.psum(value, FEATURE)

    def embed(self, state: TrainState, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        (drawn,) = self.batches.epoch(0)
        rows = {t: table.rows for t, table in state.tables.items()}
        found = self.evaluation(state.params, rows, self.static, drawn.batch)
        every = {t: to_host(found[t]) for t in sorted(nodes)}
        if not self.setup.processes.first:
            return None
        return {t: np.asarray(every[t][ids], np.float32) for t, ids in nodes.items()}

    def _embed(self, params: Any, learned: Rows, static: Rows, batch: SpmdBatch) -> Mapping[str, jax.Array]:
        given = batch.local.blocks, {**static, **learned}, None, self.exchanges(batch)
        embeddings: Any = self.trainer.model.apply(params, *given, method="embed_roots")
        return embeddings
