"""Training by one program on every device of a mesh (single program, multiple data).

Every device has a part of a batch and computes its share of the loss; the weights are alike everywhere, their gradients
are summed. Where a strategy says nothing else, every device has all rows. One that divides them says how arrays are laid
out (`rows_spec`, `init`, `shard`, `gather`), how rows are fetched (`read`), and where the gradients of learnable ones go
(`give_back`); any may say how layers exchange rows (`exchanges`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.kernels import tables
from hetjax.models.exchange import Exchange
from hetjax.sampling.blocks import Batch
from hetjax.sampling.loader import Batches
from hetjax.sharding.mesh import DATA, put, shard_map
from hetjax.sharding.strategy import Engine, Setup
from hetjax.sharding.traffic import GRADIENTS, Program, Sent, per_step, scope
from hetjax.sharding.trainer import Rows, TrainState, squares
from hetjax.system.arrays import Array
from hetjax.system.eager import eagerly


class SpmdBatch(NamedTuple):
    """One step's input on a mesh.

    Attributes:
      local: the part that each device computes; arrays of the devices one after the other, or alike on all.
      rows: the data by which `read` fetches the features that this reads, specific to an engine.
      weight: float32 `[1]` on each device, the weight of all examples of the step; each device's sum of losses is divided by it.
    """

    local: Batch
    rows: Any
    weight: Any


class Found(NamedTuple):
    """The gradients of a step.

    Attributes:
      weights: the gradients of the weights, alike everywhere.
      rows: the gradients `[m, width]` of the rows that any device read, per learnable type, on the devices where these lie.
      ids: int32 `[m]`, the positions of these rows there, each once, the rest out of range; for a type without ids, `rows` has all rows.
    """

    weights: Any
    rows: Mapping[str, jax.Array]
    ids: Mapping[str, Array]


class SpmdEngine(Engine):
    """Training by one program on all devices of a mesh; a state is a `TrainState` on it.

    Args:
      setup, batches: as in `Engine`.
      mesh: a mesh of any axes.
      static: the static features, laid out as `rows_spec` says.

    Attributes:
      rows_spec: the sharding of tables and static features.
      batch_spec: the sharding of a batch, or of each part of one.
    """

    rows_spec: P = P()
    batch_spec: Any = P(DATA)

    def __init__(self, setup: Setup, batches: Batches, mesh: Mesh, static: Any):
        super().__init__(setup, batches)
        self.mesh, self.static, self.state_spec = mesh, static, TrainState._make((P(), P(), P(), self.rows_spec))
        self.found = self._program(self._gradients, (P(), Found._make((P(), self.rows_spec, self.rows_spec))))
        self.updated = self._program(self._step, (self.state_spec, P()), donate_argnums=0)

    def init(self, seed: int) -> TrainState:
        return self.shard(eagerly(self.trainer.init, np.int32(seed)))

    def shard(self, state: TrainState) -> TrainState:
        return replicate(self.mesh, state)

    def gather(self, state: TrainState) -> TrainState | None:
        return jax.tree.map(to_host, state)

    def read(self, state: TrainState, static: Any, batch: SpmdBatch) -> tuple[dict, dict, Any]:
        """Return the rows of features that a device's part of the batch reads; inside the program.

        Returns:
          `(static rows, learnable rows, what give_back needs)`.
        """
        return static, self.trainer.read(state.tables, batch.local.inputs), None

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        """Return `(rows, ids)` as in `Found`, from the gradients of the rows that were read; inside the program.

        In this class all devices read the same rows.
        """
        rows = jax.lax.psum(gradients, self.mesh.axis_names)
        return rows, {t: ids for t, ids in batch.local.inputs.items() if t in rows}

    def over_rows(self, value: jax.Array) -> jax.Array:
        """Return a sum over all rows, from the sum over the rows that lie on a device; inside the program."""
        return value

    def own_weights(self, params: Any) -> Any:
        """Return the weights as this device's layers read them; inside the program."""
        return params

    def exchanges(self, batch: SpmdBatch) -> Sequence[Exchange]:
        """Return the exchanges of the layers, one per layer; an empty sequence exchanges nothing. Inside the program."""
        return ()

    def _program(self, function: Callable[..., Any], out_specs: Any, **options: Any) -> Program:
        in_specs = (self.state_spec, self.rows_spec, self.batch_spec, P())
        return Program(GRADIENTS, shard_map(function, self.mesh, in_specs, out_specs), self.mesh, **options)

    def step(
        self, state: TrainState, batch: SpmdBatch, upcoming: SpmdBatch | None = None
    ) -> tuple[TrainState, jax.Array]:
        result = self.updated(state, self.static, batch, self.seed)
        return jax.block_until_ready(result)  # collectives of two steps never wait for each other

    def traffic(self) -> list[Sent]:
        return per_step([self.updated], max(1, self.updated.calls.total()))

    def gradients(self, state: TrainState, batch: SpmdBatch) -> tuple[jax.Array, Found]:
        """Return the loss with its penalty, and its gradients."""
        return self.found(state, self.static, batch, self.seed)

    def _gradients(self, state: TrainState, static: Any, batch: SpmdBatch, seed: jax.Array) -> tuple[jax.Array, Found]:
        """Compute `gradients` on one of the devices."""
        features, learned, kept = self.read(state, static, batch)
        masks, exchanges = self.trainer.masks(seed, state.step), self.exchanges(batch)

        def share(params: Any, learned: Rows) -> jax.Array:
            weights = self.own_weights(params)
            summed = self.trainer.summed(weights, learned, features, batch.local, masks, exchanges)
            return summed / batch.weight[0]

        loss, (weights, rows) = jax.value_and_grad(share, (0, 1))(state.params, learned)
        with scope(GRADIENTS):
            loss, weights = total((loss, weights), self.mesh.axis_names)
        gradients = Found(weights, *self.give_back(state, rows, batch, kept))
        for node_type, ids in gradients.ids.items():
            chex.assert_shape(gradients.rows[node_type], (*ids.shape, state.tables[node_type].rows.shape[1]))
            chex.assert_type(ids, np.int32)
        return self._penalise(state, loss, gradients) if self.trainer.l2 else (loss, gradients)

    def _penalise(self, state: TrainState, loss: jax.Array, gradients: Found) -> tuple[jax.Array, Found]:
        """Add the penalty: of weights, alike everywhere, and once of every row that is read, on the device where it lies."""
        trainer, parts = self.trainer, self.trainer.penalised(state.params)
        read = {t: tables.read(table.rows, gradients.ids.get(t)) for t, table in state.tables.items()}
        with scope(GRADIENTS):
            loss = loss + trainer.penalty(parts) + self.over_rows(trainer.penalty(read))
        pull, pull_rows = trainer.penalty_gradient(parts), trainer.penalty_gradient(read)
        given = gradients.weights["params"]
        pulled = {name: jax.tree.map(jnp.add, given[name], part) for name, part in pull.items()}
        weights = gradients.weights | {"params": given | pulled}
        return loss, Found(weights, {t: gradients.rows[t] + pull_rows[t] for t in read}, gradients.ids)

    def _step(self, state: TrainState, static: Any, batch: SpmdBatch, seed: jax.Array) -> tuple[TrainState, jax.Array]:
        loss, gradients = self._gradients(state, static, batch, seed)
        weights, rows = gradients.weights, gradients.rows
        if self.trainer.clip:
            with scope(GRADIENTS):
                every = squares(weights) + self.over_rows(squares(rows))
            weights, rows = self.trainer.clipped((weights, rows), every)
        return self.trainer.update(state, weights, rows, gradients.ids), loss


def total(tree: Any, axes: tuple[str, ...]) -> Any:
    """Return the sum of a tree over all devices of some axes, which is sent as one array."""
    vector, unravel = ravel_pytree(tree)
    return unravel(jax.lax.psum(vector, axes))


def replicate(mesh: Mesh, tree: Any) -> Any:
    """Return copies, on every device of a mesh, of arrays that every process has."""
    return put(mesh, P(), jax.tree.map(np.array, tree))


def to_host(array: jax.Array) -> np.ndarray:
    """Return the whole array, in every process."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return multihost_utils.process_allgather(array, tiled=True)
