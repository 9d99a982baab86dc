"""The parts of a training step, wherever it runs: the model, its loss and penalty, and the update of weights and rows."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hetjax import models
from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels import tables
from hetjax.kernels.adamw import AdamW
from hetjax.kernels.cost_model import CostModel
from hetjax.kernels.grouping import with_together
from hetjax.kernels.tables import RowAdam, Shape, Table
from hetjax.models import hgnn
from hetjax.models.dropout import Masks
from hetjax.models.exchange import Exchange
from hetjax.models.hgnn import Stack
from hetjax.models.packed import opened
from hetjax.options.config import Config, Train
from hetjax.sampling.blocks import Adjacency, Batch, Block
from hetjax.system.arrays import Array
from hetjax.tasks.task import Task

Rows = Mapping[str, jax.Array]  # per node type, `[rows, width]`
FIRST = "layers_0"  # the first layer, among the parameters of a model
DENSE = "dense_"  # before the type and the depth, of a decoupled model's dense layers


class TrainState(NamedTuple):
    """All that training changes.

    Attributes:
      step: int32, updates done.
      params: the model's weights.
      optimizer: the optimizer's state for `params`.
      tables: a `Table` of learnable features with their moments and counts per featureless node type; an engine may have
        something of its own in the place of one that lives on the host.
    """

    step: Array
    params: Any
    optimizer: Any
    tables: dict[str, Any]


class Trainer(NamedTuple):
    """The parts of a step besides state and batch; all of them are fixed when the step is traced.

    Attributes:
      task: the task, which says what is predicted.
      model: gives the task's outputs.
      optimizer: updates the weights; anything with `init` and `step` as `AdamW` has them.
      adam: updates the learnable features.
      widths: the widths of the features of every input type, static or learnable.
      learnable: the shapes of the learnable features of every input type without features.
      l2: the factor of the penalty on squares.
      l2_all: whether the penalty is on all weights; if not, it is on the first layer's.
      clip: largest norm of all gradients together, weights and rows, before the update; 0 is any.
    """

    task: Task
    model: Stack
    optimizer: AdamW
    adam: RowAdam
    widths: Mapping[str, int]
    learnable: Mapping[str, Shape]
    l2: float = 0.0
    l2_all: bool = False
    clip: float = 0.0

    def keys(self, seed: Array) -> jax.Array:
        """Return the random keys of weights, tables and dropout."""
        return jax.random.split(jax.random.key(seed), 3)

    def table_key(self, seed: Array) -> jax.Array:
        """Return the random key of tables."""
        return self.keys(seed)[1]

    def init(self, seed: Array) -> TrainState:
        """Return weights and tables at step 0; a pure function of the seed."""
        return self.weights(seed)._replace(tables=tables.create_all(self.table_key(seed), self.learnable))

    def weights(self, seed: Array) -> TrainState:
        """Return the state of `init` without any table."""
        blocks, features = smallest_input(self.model, self.widths)
        params = self.model.init(self.keys(seed)[0], blocks, features, arrays=smallest_arrays(self.task))
        return TrainState(jnp.int32(0), params, self.optimizer.init(params), {})

    def masks(self, seed: Array, step: Array) -> Masks | None:
        """Return the masks of dropout in the training step after `step` updates; None if the model drops nothing."""
        return Masks(jax.random.fold_in(self.keys(seed)[2], step)) if self.model.drops else None

    def loss(self, params: Any, learned: Rows, static: Rows, batch: Batch, masks: Masks | None = None) -> jax.Array:
        """Return the task's mean loss over the batch's examples, and the penalty if there is one.

        The penalty is `l2` times the sum of squares of the weights that are `penalised` and of the rows in `learned`. The R-GCN
        paper's code penalises the first layer alone; its input is one-hot, so that rows are weights too. A
        mini-batch penalises only the learnable features that it reads.

        Args:
          params: the model's weights.
          learned: the rows that the batch needs, `[rows, width]` per featureless input type.
          static: the whole feature matrix, `[nodes, width]` per other input type.
          masks: the masks of the step, in training; without them nothing is dropped.
        """
        loss = self.summed(params, learned, static, batch, masks) / self.task.weight(batch.arrays)
        return loss + self.penalty((self.penalised(params), learned)) if self.l2 else loss

    def summed(
        self,
        params: Any,
        learned: Rows,
        static: Rows,
        batch: Batch,
        masks: Masks | None = None,
        exchanges: Sequence[Exchange] = (),
    ) -> jax.Array:
        """Return the sum of the losses of the batch's examples; arguments as of `loss`, and of `Stack`."""
        gathered = {name: tables.rows_at(matrix, batch.inputs.get(name)) for name, matrix in static.items()}
        features = {**gathered, **batch.rows, **learned}
        tree, blocks = opened(params, batch.blocks)
        outputs: Any = self.model.apply(tree, blocks, features, masks, exchanges, batch.seeds, batch.arrays)
        return self.task.loss(outputs, batch.arrays)

    def penalised(self, params: Any) -> dict[str, Any]:
        """Return the weights that the penalty is on, by the names of the model's parts."""
        return {name: part for name, part in params["params"].items() if self.penalises(name)}

    def penalises(self, name: str) -> bool:
        """Return whether the penalty is on a part of the model: a layer, a projection or the head."""
        return self.l2_all or name == FIRST or (name.startswith(DENSE) and name.endswith("_0"))

    def penalty(self, penalised: Any) -> jax.Array:
        """Return `l2` times the sum of squares of a tree of arrays."""
        return self.l2 * squares(penalised)

    def penalty_gradient(self, penalised: Any) -> Any:
        """Return the gradient of `penalty`, for each array of the tree."""
        return jax.tree.map(lambda leaf: 2 * self.l2 * leaf, penalised)

    def clipped(self, gradients: Any, total: jax.Array) -> Any:
        """Return gradients scaled down so that the norm of all is at most `clip`, as `optax.clip_by_global_norm`.

        Args:
          total: the sum of squares of all gradients, wherever they are.
        """
        norm = jnp.sqrt(total)
        scale = functools.partial(jnp.where, norm < self.clip)
        return jax.tree.map(lambda leaf: scale(leaf, leaf / norm.astype(leaf.dtype) * self.clip), gradients)

    def gradients(
        self, state: TrainState, static: Rows, batch: Batch, seed: Array
    ) -> tuple[jax.Array, tuple[Any, Any]]:
        """Return the loss of a step, and its gradients with respect to the weights and the rows that the batch reads."""
        learned, masks = self.read(state.tables, batch.inputs), self.masks(seed, state.step)
        return self._gradients(state.params, learned, static, batch, masks)

    def _gradients(
        self, params: Any, learned: Rows, static: Rows, batch: Batch, masks: Masks | None
    ) -> tuple[jax.Array, tuple[Any, Any]]:
        return jax.value_and_grad(self.loss, argnums=(0, 1))(params, learned, static, batch, masks)

    def step(self, state: TrainState, static: Rows, batch: Batch, seed: Array) -> tuple[TrainState, jax.Array]:
        """Run one update; return the new state and the loss before it."""
        learned = self.read(state.tables, batch.inputs)
        trained, loss, rows = self.learn(state, learned, static, batch, seed)
        return trained._replace(tables=self.update_rows(state.tables, rows, batch.inputs, state.step)), loss

    def read(self, held: Mapping[str, Table], ids: Mapping[str, Array]) -> dict[str, jax.Array]:
        """Return the rows that the `ids` of every table name, `[rows, width]`; all rows where it has none."""
        return {t: tables.rows_at(table.rows, ids.get(t)) for t, table in held.items()}

    def learn(
        self, state: TrainState, learned: Rows, static: Rows, batch: Batch, seed: Array
    ) -> tuple[TrainState, jax.Array, Any]:
        """Train on rows that were read before: all of a step but their update.

        Args:
          learned: the rows that the batch needs, as `read` gives them per type; the state's tables are not looked at.
        Returns:
          The state after the update of its weights, without tables; the loss before it; the gradient of `learned`.
        """
        loss, gradients = self._gradients(state.params, learned, static, batch, self.masks(seed, state.step))
        weights, rows = self.clipped(gradients, squares(gradients)) if self.clip else gradients
        return self.update_weights(state, weights), loss, rows

    def update(self, state: TrainState, weights: Any, rows: Rows, ids: Mapping[str, Array]) -> TrainState:
        """Return the state after an update; arguments as of `update_weights` and `update_rows`."""
        held = self.update_rows(state.tables, rows, ids, state.step)
        return self.update_weights(state, weights)._replace(tables=held)

    def update_weights(self, state: TrainState, weights: Any) -> TrainState:
        """Return the state after an update by the gradient of its parameters, without tables."""
        params, optimizer = self.optimizer.step(weights, state.optimizer, state.params)
        return TrainState(state.step + 1, params, optimizer, {})

    def update_rows(
        self, held: Mapping[str, Table], rows: Rows, ids: Mapping[str, Array], step: Array
    ) -> dict[str, Table]:
        """Return the tables after an update.

        Args:
          rows: the gradients of the rows that the `ids` of every table name; of all rows where it has none.
          ids: int32 `[rows]`, distinct; those out of range are ignored.
          step: updates done before.
        """
        adam = self.adam.at(jnp.asarray(step))
        return {t: tables.update(table, ids.get(t), rows[t], adam) for t, table in held.items()}


def squares(tree: Any) -> jax.Array:
    """Return the sum of the squares of all elements of a tree."""
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def smallest_adjacency() -> Adjacency:
    """Return an adjacency of one target with one edge: enough to shape every weight."""
    return Adjacency(np.array([0, 1], np.int32), np.zeros(1, np.int32))


def smallest_arrays(task: Task) -> Any:
    """Return the arrays of one example that is padding: enough to shape every weight of a head."""
    arrays = task.seeds(np.zeros(0, np.int32)).arrays
    return jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype), arrays)


def smallest_input(model: Stack, widths: Mapping[str, int]) -> tuple[tuple[Block, ...], dict[str, jax.Array]]:
    """Return blocks and features with one node per type and one edge per relation: enough to shape every weight."""
    blocks = []
    for layer in model.layers:
        edges = {r.key: smallest_adjacency() for r in layer.relations}
        block = Block(edges, {t: np.zeros(1, np.int32) for t in layer.targets})
        blocks.append(with_together(layer, block, {r.source: 1 for r in layer.relations}))
    return tuple(blocks), {name: jnp.zeros((1, width)) for name, width in widths.items()}


def multiply_in_full() -> None:
    """Have accelerators multiply float32 as a CPU does, unless `JAX_DEFAULT_MATMUL_PRECISION` says otherwise.

    By default JAX lets them round the factors: to TF32 on NVIDIA's, to bfloat16 on TPUs.
    """
    if jax.default_backend() != "cpu" and jax.config.jax_default_matmul_precision is None:  # type: ignore[attr-defined]
        jax.config.update("jax_default_matmul_precision", "highest")


def make_trainer(graph: HetGraph, config: Config, task: Task, steps: int, costs: CostModel | None = None) -> Trainer:
    """Make the model and the optimizers for a graph.

    Args:
      task: the task, which says what is predicted.
      steps: the number of steps of an epoch, by which the learning rates' schedules count.
      costs: the costs by which the model chooses between equal computations; None: the current ones.
    """
    multiply_in_full()
    model, options, schema = config.model, config.train, graph.schema
    features = {name: matrix.shape[1] for name, matrix in graph.features.items()}
    network = hgnn.build(models.find(model.name), schema, features, task, **models.options(model)).clone(costs=costs)
    learned = {name: width for name, width in network.widths.items() if name not in features}
    scales = network.learnable_scales({name: schema.nodes[name] for name in learned})
    learnable = {name: Shape(schema.nodes[name], width, scales[name]) for name, width in learned.items()}
    rate, row_rate = options.learning_rate, options.feature_learning_rate
    adam = RowAdam(schedule(rate if row_rate is None else row_rate, options, steps), weight_decay=options.weight_decay)
    optimizer = AdamW(schedule(rate, options, steps), options.weight_decay)
    return Trainer(
        task,
        network,
        optimizer,
        adam,
        network.widths,
        learnable,
        options.l2,
        options.l2_layers == "all",
        options.gradient_clip,
    )


def schedule(rate: float, options: Train, steps: int) -> optax.ScalarOrSchedule:
    """Return the learning rate by training step, for epochs of `steps` steps."""
    after = _schedule(rate, options, steps)
    if not options.warmup_steps:
        return after
    rates: optax.Schedule = after if callable(after) else optax.constant_schedule(after)
    return lambda step: rates(step) * jnp.minimum(1, (step + 1) / options.warmup_steps)


def _schedule(rate: float, options: Train, steps: int) -> optax.ScalarOrSchedule:
    if options.schedule == "cosine":
        return optax.cosine_decay_schedule(rate, options.epochs * steps)
    if options.schedule == "step":
        return optax.exponential_decay(rate, options.schedule_epochs * steps, options.schedule_factor, staircase=True)
    return rate
