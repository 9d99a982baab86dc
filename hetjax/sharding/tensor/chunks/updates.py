"""The update of weights, which all devices have, and of tables, of which some rows are on a device at a time."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from hetjax.kernels import tables
from hetjax.kernels.tables import Table
from hetjax.sharding.mesh import FEATURE, shard_map
from hetjax.sharding.spmd import total
from hetjax.sharding.tensor.chunks.programs import ALIKE, DIVIDED
from hetjax.sharding.traffic import GRADIENTS, Program, scope
from hetjax.sharding.trainer import Trainer, TrainState, squares


class Updates:
    """The programs of an update.

    Attributes:
      total: `(parts, parameters, losses)` to the loss and the gradients of all weights.
      measure: `(rows, gradients)` of some of a table to the squares of the gradients with the penalty's, and the penalty.
      weights: `(state, gradients, loss, squares, penalty)` of weights, the last two of all tables, to the state, the squares of all
        gradients, and the loss with its penalty.
      rows: `(some of a table, gradients, step, squares of all gradients)` to these rows after the update.
    """

    def __init__(self, trainer: Trainer, mesh: Mesh):
        self.trainer, two = trainer, (DIVIDED, DIVIDED)
        self.total = Program(GRADIENTS, shard_map(self._total, mesh, (DIVIDED, ALIKE, DIVIDED), ALIKE), mesh)
        self.measure = Program(GRADIENTS, shard_map(self._measure, mesh, two, ALIKE), mesh)
        self.weights = Program(GRADIENTS, self._weights, mesh, donate_argnums=0)
        self.rows = Program(GRADIENTS, shard_map(self._rows, mesh, (*two, ALIKE, ALIKE), DIVIDED), mesh)

    @property
    def all(self) -> list[Program]:
        return [self.total, self.measure, self.weights, self.rows]

    def _total(self, parts: Sequence[Any], params: Any, losses: jax.Array) -> tuple[jax.Array, Any]:
        """Return the loss and the gradients of all weights, from the devices' parts of them."""
        gradients = {"params": jax.tree.map(jnp.zeros_like, params["params"])}
        for part in parts:
            for name, tree in part["params"].items():
                gradients["params"][name] = jax.tree.map(lambda a, b: a + b[0], gradients["params"][name], tree)
        with scope(GRADIENTS):
            loss, weights = total((losses[0], gradients), (FEATURE,))
        return loss, weights

    def _measure(self, rows: jax.Array, gradients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the sum of squares of a block of rows' gradients, with those of the penalty, and the penalty."""
        pull = self.trainer.penalty_gradient(rows)
        with scope(GRADIENTS):
            found = jax.lax.psum(jnp.stack([squares(gradients + pull), self.trainer.penalty(rows)]), FEATURE)
        return found[0], found[1]

    def _weights(
        self, state: TrainState, weights: Any, loss: jax.Array, squared: jax.Array, penalty: jax.Array
    ) -> tuple[TrainState, jax.Array, jax.Array]:
        """Return the state after an update of the weights, the squares of all gradients, and the loss with its penalty."""
        trainer = self.trainer
        if trainer.l2:
            parts = trainer.penalised(state.params)
            loss = loss + trainer.penalty(parts) + penalty
            pulled = trainer.penalty_gradient(parts)
            more = {name: jax.tree.map(jnp.add, weights["params"][name], pull) for name, pull in pulled.items()}
            weights = weights | {"params": weights["params"] | more}
        every = squares(weights) + squared
        if trainer.clip:
            weights = trainer.clipped(weights, every)
        return trainer.update_weights(state, weights), every, loss

    def _rows(self, table: Table, gradients: jax.Array, step: jax.Array, every: jax.Array) -> Table:
        gradients = gradients + self.trainer.penalty_gradient(table.rows)
        if self.trainer.clip:
            gradients = self.trainer.clipped(gradients, every)
        return tables.update(table, None, gradients, self.trainer.adam.at(step))
