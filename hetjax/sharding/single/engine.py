"""The plain path on one device, which every other way of running equals: loss, gradients, parameters."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hetjax.cache import tables
from hetjax.cache.features import Features
from hetjax.cache.host import Fetched, HostedTable
from hetjax.cache.tables import RowAdam, Shape, Table
from hetjax.models.dropout import Masks
from hetjax.models.hgnn import Stack
from hetjax.sampling.blocks import Adjacency, Batch, Block
from hetjax.sharding.traffic import Sent


class TrainState(NamedTuple):
    """All that training changes.

    Attributes:
      step: int32, updates done.
      params: the model's weights.
      optimizer: the optimizer's state for `params`.
      tables: learnable features with their moments and counts, per featureless node type; of those that live on the host
        `OneDevice` has a `HostedTable`, and `Raf` a `SharedTable`.
    """

    step: jax.Array
    params: Any
    optimizer: Any
    tables: dict[str, Table]


class Trainer(NamedTuple):
    """What a step needs besides state and batch; all of it is fixed when the step is traced.

    Attributes:
      model: gives logits.
      optimizer: updates the weights.
      adam: updates the learnable features.
      widths: of the features of every input type, static or learnable.
      learnable: of the learnable features of every input type without features.
      l2: factor of the penalty on squares.
      label_smoothing: share of every label that is spread evenly: over all classes, or, of several labels, over yes and no.
      clip: largest norm of all gradients together, weights and rows, before the update; 0 is any.
    """

    model: Stack
    optimizer: optax.GradientTransformation
    adam: RowAdam
    widths: Mapping[str, int]
    learnable: Mapping[str, Shape]
    l2: float = 0.0
    label_smoothing: float = 0.0
    clip: float = 0.0

    def keys(self, seed: jax.Array) -> jax.Array:
        """Of weights, tables and dropout."""
        return jax.random.split(jax.random.key(seed), 3)

    def init(self, seed: jax.Array) -> TrainState:
        """Weights and tables at step 0; a pure function of the seed."""
        return self.weights(seed)._replace(tables=tables.create_all(self.keys(seed)[1], self.learnable))

    def weights(self, seed: jax.Array) -> TrainState:
        """As `init`, without any table."""
        params = self.model.init(self.keys(seed)[0], *_smallest_input(self.model, self.widths))
        return TrainState(jnp.int32(0), params, self.optimizer.init(params), {})

    def masks(self, seed: jax.Array, step: jax.Array) -> Masks | None:
        """What training draws dropout from, in the step after `step` updates; None if the model drops nothing."""
        return Masks(jax.random.fold_in(self.keys(seed)[2], step)) if self.model.drops else None

    def loss(self, params, learned, static, batch: Batch, masks: Masks | None = None) -> jax.Array:
        """Mean `cross_entropy` over the batch's seeds, and the penalty if there is one.

        The penalty is `l2` times the sum of squares of the first layer's weights and of the rows in `learned`. The R-GCN
        paper's code penalises the first layer alone; its input is one-hot, so that rows are weights too. A
        mini-batch pulls only at the learnable features that it reads.

        Args:
          params: the model's weights.
          learned: per featureless input type the rows that the batch needs, `[rows, width]`.
          static: per other input type the whole feature matrix, `[nodes, width]`.
          masks: of the step, in training; without them nothing is dropped.
        """
        loss = self.summed(params, learned, static, batch, masks) / jnp.sum(batch.weights)
        return loss + self.penalty((params["params"]["layers_0"], learned)) if self.l2 else loss

    def summed(self, params, learned, static, batch: Batch, masks: Masks | None = None) -> jax.Array:
        """The sum of `cross_entropy` over the batch's seeds; arguments as of `loss`."""
        gathered = {name: tables.read(matrix, batch.inputs.get(name)) for name, matrix in static.items()} | batch.rows
        logits = self.model.apply(params, batch.blocks, gathered | learned, masks)
        picked = logits.at[batch.seeds].get(mode="fill", fill_value=0)
        losses = cross_entropy(picked, batch.labels, self.label_smoothing)
        return jnp.sum(jnp.where(batch.weights > 0, losses, 0))

    def penalty(self, penalised) -> jax.Array:
        """`l2` times the sum of squares of a tree of arrays."""
        return self.l2 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(penalised))

    def gradients(self, state: TrainState, static, batch: Batch, seed: jax.Array):
        """The loss of a step, and its gradients with respect to the weights and the rows that the batch reads."""
        learned, masks = self.read(state.tables, batch.inputs), self.masks(seed, state.step)
        return self._gradients(state.params, learned, static, batch, masks)

    def _gradients(self, params, learned, static, batch: Batch, masks: Masks | None):
        return jax.value_and_grad(self.loss, argnums=(0, 1))(params, learned, static, batch, masks)

    def step(self, state: TrainState, static, batch: Batch, seed: jax.Array) -> tuple[TrainState, jax.Array]:
        """One update; returns the new state and the loss before it."""
        learned = self.read(state.tables, batch.inputs)
        made, loss, rows = self.learn(state, learned, static, batch, seed)
        return made._replace(tables=self.update_rows(state.tables, rows, batch.inputs, state.step)), loss

    def read(self, held: Mapping[str, Table], ids: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Of every table the rows that its `ids` name, `[rows, width]`; all rows where it has none."""
        return {t: tables.rows_at(table.rows, ids.get(t)) for t, table in held.items()}

    def learn(self, state: TrainState, learned, static, batch: Batch, seed: jax.Array):
        """Train on rows that were read before: all of a step but their update.

        Args:
          learned: per type the rows that the batch needs, as `read` gives them; the state's tables are not looked at.
        Returns:
          The state after the update of its weights, without tables; the loss before it; the gradient of `learned`.
        """
        loss, gradients = self._gradients(state.params, learned, static, batch, self.masks(seed, state.step))
        if self.clip:
            gradients, _ = optax.clip_by_global_norm(self.clip).update(gradients, optax.EmptyState())
        weights, rows = gradients
        return self.update_weights(state, weights), loss, rows

    def update(self, state: TrainState, weights, rows, ids: Mapping[str, jax.Array]) -> TrainState:
        """The state after an update; arguments as of `update_weights` and `update_rows`."""
        held = self.update_rows(state.tables, rows, ids, state.step)
        return self.update_weights(state, weights)._replace(tables=held)

    def update_weights(self, state: TrainState, weights) -> TrainState:
        """The state after an update by the gradient of its parameters, without tables."""
        updates, optimizer = self.optimizer.update(weights, state.optimizer, state.params)
        return TrainState(state.step + 1, optax.apply_updates(state.params, updates), optimizer, {})

    def update_rows(self, held: Mapping[str, Table], rows, ids: Mapping[str, jax.Array], step) -> dict[str, Table]:
        """Tables after an update.

        Args:
          rows: of every table the gradient of the rows that its `ids` name; of all rows where it has none.
          ids: int32 `[rows]`, distinct; those out of range are ignored.
          step: updates done before.
        """
        adam = self.adam.at(step)
        return {t: tables.update(table, ids.get(t), rows[t], adam) for t, table in held.items()}


class OneDevice:
    """Training on one device, which is given the rows that a step reads, wherever they live.

    A step reads rows, trains on them, and updates them where they are. The program that trains sees nothing else of a table, so
    its results are the same to the last bit whatever the places, the cache and its budget.

    Args:
      trainer: what a step needs.
      features: where those of every input type live.
      seed: of weights and dropout.
      prefetch: read the rows of the next batch while this one is trained on.
    """

    def __init__(self, trainer: Trainer, features: Features, seed: int, prefetch: bool = True):
        self.trainer, self.features, self.seed, self.prefetch = trainer, features, np.int32(seed), prefetch
        self.static, self.ahead = features.static, {}
        self.read, self.compiled = jax.jit(trainer.read), jax.jit(trainer.learn, donate_argnums=0)
        self.updated = jax.jit(  # `done` counts this step too, as the number before it was given away
            lambda held, rows, ids, done: trainer.update_rows(held, rows, ids, done - 1), donate_argnums=0
        )

    def new(self, seed: int) -> TrainState:
        """The state before the first step, as this trains it."""
        self.ahead = {}
        state = jax.jit(self.trainer.weights)(np.int32(seed))
        return state._replace(tables=self.features.new(jax.jit(self.trainer.keys)(np.int32(seed))[1]))

    def place(self, state: TrainState) -> TrainState:
        """A state with all of its tables, as this trains it."""
        self.ahead = {}
        placed = jax.device_put(state._replace(tables={}), self.features.device)
        return placed._replace(tables=self.features.settle(state.tables))

    def whole(self, state: TrainState) -> TrainState:
        """The inverse of `place`; the next step changes what it gives."""
        return state._replace(tables=self.features.whole(state.tables))

    def traffic(self) -> list[Sent]:
        """What a step sent."""
        return []

    def step(self, state: TrainState, batch: Batch, following: Batch | None = None) -> tuple[TrainState, jax.Array]:
        """One update; the state given is used up.

        Args:
          following: the batch of the next step, if it is known.
        """
        away = {t: table for t, table in state.tables.items() if isinstance(table, HostedTable)}
        here = {t: table for t, table in state.tables.items() if t not in away}
        ids = {t: batch.inputs[t] for t in here if t in batch.inputs}  # of the others every row is read
        fetched = {t: self._fetched(t, table, batch) for t, table in away.items()}
        held = here | {t: away[t].end(one) for t, one in fetched.items()}
        for t, one in fetched.items():
            away[t].change(one, True)
        others = {t: found for t, found in batch.inputs.items() if t not in state.tables}
        learned = {t: held[t].rows for t in held if t not in ids} | self.read({t: held[t] for t in ids}, ids)
        state, batch = state._replace(tables={}), batch._replace(inputs=others)
        made, loss, rows = self.compiled(state, learned, self.static, batch, self.seed)
        held = self.updated(held, rows, ids, made.step)
        if following is not None and self.prefetch:
            self.ahead = {t: table.begin(following.inputs[t]) for t, table in away.items()}
        for t, one in fetched.items():
            away[t].store(one, held[t])
            away[t].change(one, False)
        return made._replace(tables=held | away), loss

    def _fetched(self, node_type: str, table: HostedTable, batch: Batch) -> Fetched:
        ids, ahead = batch.inputs[node_type], self.ahead.pop(node_type, None)
        return ahead if ahead is not None and ahead.ids is ids else table.begin(ids)


def cross_entropy(logits: jax.Array, labels: jax.Array, smoothing: float = 0.0) -> jax.Array:
    """Of every node, `[nodes]`: the softmax's, or the mean over the classes of the sigmoid's where nodes have several labels.

    Args:
      logits: `[nodes, classes]`.
      labels: class ids `[nodes]`, or 0 and 1 `[nodes, classes]`.
      smoothing: share of every label that is spread evenly (Szegedy et al. 2016).
    """
    if labels.ndim == 2:
        labels = labels * (1 - smoothing) + smoothing / 2
        return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, labels), axis=1)
    if not smoothing:
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    smooth = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype), smoothing)
    return optax.softmax_cross_entropy(logits, smooth)


def _smallest_input(model: Stack, widths: Mapping[str, int]):
    """Blocks and features with one node per type and one edge per relation: enough to shape every weight."""
    edge = Adjacency(jnp.array([0, 1], jnp.int32), jnp.zeros(1, jnp.int32))
    blocks = tuple(
        Block({r.key: edge for r in layer.relations}, {t: None for t in layer.targets}) for layer in model.layers
    )
    return blocks, {name: jnp.zeros((1, width)) for name, width in widths.items()}
