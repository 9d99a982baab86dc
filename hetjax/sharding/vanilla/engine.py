"""Vanilla execution: data parallel over an edge-cut of the nodes, as DistDGL and most systems train.

A partition is a device of the mesh axis `data`. It folds all relations for the seeds that it owns, fetches the feature
rows of other partitions that this reads, and gives their gradients back to the owners, who apply row-wise Adam. What
crosses the mesh is: row numbers there, rows back, gradients of learnable rows there (all by all-to-all), and one sum of
the weights' gradients and the loss.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.partition import EdgeCut
from hetjax.sharding.mesh import DATA, from_shards, positions_here
from hetjax.sharding.spmd import SpmdBatch, SpmdEngine, replicate, to_host
from hetjax.sharding.strategy import Setup
from hetjax.sharding.traffic import scope
from hetjax.sharding.trainer import Rows, TrainState
from hetjax.sharding.vanilla.batches import VanillaBatches
from hetjax.sharding.vanilla.exchange import fetch, give_back

FEATURES, LEARNABLE = "remote_features", "remote_learnable_rows"  # kinds of traffic


class VanillaEngine(SpmdEngine):
    """Training on a mesh of one device per partition; tables and static features lie with their owners.

    Args:
      setup, batches: as in `Engine`; a partition's device gets the features of its own nodes.
      cut: who owns which node.
      mesh: with the axis `data`.
    """

    rows_spec = P(DATA)

    def __init__(self, setup: Setup, batches: VanillaBatches, cut: EdgeCut, mesh: Mesh):
        self.owned, self.every_row = cut.owned, batches.regime.whole
        graph = setup.graph
        static = self._divide(mesh, {t: graph.features[t] for t in setup.trainer.widths if t in graph.features})
        super().__init__(setup, batches, mesh, static)

    def _divide(self, mesh: Mesh, matrices: Mapping[str, Any]) -> dict[str, Any]:
        """Of every type the rows of each partition, on its device; an entry is an array `[nodes, ...]` or a tree of such."""

        def own(part: int) -> dict[str, Any]:
            return {t: jax.tree.map(lambda leaf: self.owned.take(t, leaf, part), m) for t, m in matrices.items()}

        return from_shards(mesh, [own(part) for part in positions_here(mesh)])

    def init(self, seed: int) -> TrainState:
        return self.shard(jax.jit(self.trainer.init)(np.int32(seed)))

    def shard(self, state: TrainState) -> TrainState:
        state = jax.tree.map(np.asarray, state)
        alike = replicate(self.mesh, state._replace(tables={}))
        return alike._replace(tables=self._divide(self.mesh, state.tables))

    def gather(self, state: TrainState) -> TrainState:
        state = jax.tree.map(to_host, state)
        whole = {t: jax.tree.map(lambda leaf: self.owned.whole(t, leaf), table) for t, table in state.tables.items()}
        return jax.device_put(state._replace(tables=whole), jax.local_devices()[0])

    def read(self, state: TrainState, static: Any, batch: SpmdBatch) -> tuple[dict, dict, Any]:
        with scope(FEATURES):
            features, _ = fetch(static, batch.rows, DATA)
        with scope(LEARNABLE):
            learned, requested = fetch({t: table.rows for t, table in state.tables.items()}, batch.rows, DATA)
        return features, learned, requested

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        rows, ids = {}, {}
        with scope(LEARNABLE):
            for t, gradient in gradients.items():
                ids[t], rows[t] = give_back(gradient, batch.rows[t], kept[t], self.owned.rows[t], DATA)
        if not self.every_row:
            return rows, ids
        return {t: jnp.zeros_like(state.tables[t].rows).at[ids[t]].add(rows[t], mode="drop") for t in rows}, {}

    def over_rows(self, value: jax.Array) -> jax.Array:
        return jax.lax.psum(value, DATA)
