"""The engine of push-pull: the first layer is aggregated on slices of the columns, all others by every replica for its own seeds.

Where the first layer cannot be aggregated on slices, replicas are given the rows that they read.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.kernels.tables import write
from hetjax.models.exchange import LOCAL, Exchange
from hetjax.sampling.blocks import Batch
from hetjax.sharding.mesh import DATA, FEATURE, put
from hetjax.sharding.push_pull.batches import REPLICAS, PushBatches, Shared
from hetjax.sharding.push_pull.evaluate import PushEvaluator
from hetjax.sharding.push_pull.first import FirstLayer
from hetjax.sharding.push_pull.slices import joined, sliced
from hetjax.sharding.spmd import SpmdBatch, SpmdEngine, replicate, to_host
from hetjax.sharding.strategy import Setup
from hetjax.sharding.trainer import Rows, TrainState


class PushEngine(SpmdEngine):
    """Training on a mesh `data` x `feature`, whose groups along `feature` divide the columns of features and tables.

    Args:
      setup, batches: as in `Engine`.
      mesh: the mesh.
      first: how its features are divided.
    """

    rows_spec = P(FEATURE)
    batches: PushBatches

    def __init__(self, setup: Setup, batches: PushBatches, mesh: Mesh, first: FirstLayer):
        trainer = setup.trainer
        layers, cut = len(trainer.model.layers), batches.cut
        blocks = (P(DATA),) * cut + (REPLICAS,) * (layers - cut)
        local = Batch(blocks, P(DATA), *([REPLICAS] * (len(Batch._fields) - 2)))  # type: ignore[arg-type]
        self.batch_spec = SpmdBatch(local, Shared(P(DATA), P(), P(DATA)), REPLICAS)  # type: ignore[arg-type]
        self.first = first
        static = {t: setup.graph.features[t] for t in trainer.widths if t in setup.graph.features}
        super().__init__(setup, batches, mesh, put(mesh, self.rows_spec, sliced(static, first.parts)))

    def shard(self, state: TrainState) -> TrainState:
        alike = replicate(self.mesh, state._replace(tables={}))
        return alike._replace(tables=put(self.mesh, self.rows_spec, sliced(state.tables, self.first.parts)))

    def gather(self, state: TrainState) -> TrainState | None:
        whole = jax.tree.map(to_host, state)
        return whole._replace(tables=joined(whole.tables, self.trainer.learnable, self.first.parts))

    def own_weights(self, params: Any) -> Any:
        return self.first.weights(params)

    def exchanges(self, batch: SpmdBatch) -> Sequence[Exchange]:
        return [self.first.exchange(batch.rows.picks)] + [LOCAL] * (len(self.trainer.model.layers) - 1)

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        """Return the gradients of the device's slice by all replicas of its group; those of several groups are summed."""
        if not batch.rows.everyone:
            return dict(gradients), {t: batch.local.inputs[t] for t in gradients}
        ids, found = {t: batch.rows.everyone[t] for t in gradients}, {}
        for t, rows in gradients.items():
            zeros = jnp.zeros((len(ids[t]), rows.shape[1]), rows.dtype)
            found[t] = write(zeros, batch.rows.places[t], rows)
        return jax.lax.psum(found, DATA), ids

    def embed(self, state: TrainState, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        if not self.first.division:
            return super().embed(state, nodes)
        rows = {**self.static, **{t: table.rows for t, table in state.tables.items()}}
        found = self.evaluation.embed(state.params, rows, nodes)
        return found if self.setup.processes.first else None

    @cached_property
    def evaluation(self) -> PushEvaluator:
        """Evaluate on all devices."""
        return PushEvaluator(self.evaluator, self.mesh, self.first)

    def over_rows(self, value: jax.Array) -> jax.Array:
        return jax.lax.psum(value, FEATURE)
