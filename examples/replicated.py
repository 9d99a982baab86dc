"""A strategy of your own: every device computes the whole batch, and the gradients are averaged.

    python -m hetjax.train --mesh.strategy examples.replicated:Replicated --mesh.data 2 \\
        --config examples/quickstart.yaml --workdir runs/replicated

Run it where `examples` can be imported: in the folder that holds it. Nothing is gained by it but a strategy to start from.
"""

from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import Features
from hetjax.sampling.blocks import Batch
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import DATA
from hetjax.sharding.single.strategy import make_batches
from hetjax.sharding.spmd import SpmdBatch, SpmdEngine, replicate, to_host
from hetjax.sharding.strategy import Setup, Strategy
from hetjax.sharding.trainer import Rows, TrainState


class ReplicatedEngine(SpmdEngine):
    """Everything lies on every device, so nothing is fetched, and all that crosses the mesh is the average."""

    rows_spec = batch_spec = P()

    def init(self, seed: int) -> TrainState:
        return self.shard(jax.jit(self.trainer.init)(np.int32(seed)))

    def shard(self, state: TrainState) -> TrainState:
        return replicate(self.mesh, state)

    def gather(self, state: TrainState) -> TrainState:
        return jax.tree.map(to_host, state)

    def read(self, state: TrainState, static: Any, batch: SpmdBatch) -> tuple[dict, dict, Any]:
        return static, self.trainer.read(state.tables, batch.local.inputs), None

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        rows = jax.lax.psum(gradients, DATA)  # each is of a loss divided by the number of devices
        return rows, {t: ids for t, ids in batch.local.inputs.items() if t in rows}

    def over_rows(self, value: jax.Array) -> jax.Array:
        return value  # every device has all rows


class Replicated(Strategy):
    """The whole batch on each of `mesh.data` devices."""

    name = "replicated"

    def engine(self, setup: Setup, partitioning: None) -> ReplicatedEngine:
        mesh = meshes.row(meshes.make(1, setup.config.mesh.data), 0)

        def to_devices(batch: Batch) -> SpmdBatch:
            count = np.full(1, batch.weights.sum() * mesh.size, np.float32)
            return meshes.put(mesh, P(), SpmdBatch(batch, None, count))

        features = Features(setup.graph, setup.trainer.widths, setup.trainer.learnable)
        batches = make_batches(setup, features, to_devices)
        return ReplicatedEngine(setup, batches, mesh, replicate(mesh, features.static))
