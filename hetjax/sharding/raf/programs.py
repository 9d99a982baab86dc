"""The programs of a RAF step: local ones, of a partition on its row of the mesh, and those of all partitions together.

A local program returns the partial aggregates of the seeds and the backward pass (a `jax.vjp`, which is a pytree). The programs of the
mesh combine partial aggregates; the last also finishes, takes the loss and its gradient.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.kernels import tables
from hetjax.kernels.partials import Monoid
from hetjax.models import aggregate
from hetjax.models.dropout import Masks
from hetjax.models.exchange import LOCAL, Exchange
from hetjax.models.hgnn import Stack
from hetjax.models.layer import Layer
from hetjax.sampling.blocks import NO_NODE, Block
from hetjax.sharding.mesh import BOTH, DATA, FEATURE, RELATION, shard_map
from hetjax.sharding.push_pull.first import FirstLayer
from hetjax.sharding.raf.combine import combine
from hetjax.sharding.raf.cut import Pieces, fold_seeds, united
from hetjax.sharding.raf.kinds import PARTIAL, WEIGHTS
from hetjax.sharding.raf.sample import Local, PartitionModel, Roles
from hetjax.sharding.traffic import Program, scope
from hetjax.sharding.trainer import Rows, Trainer, smallest_adjacency, smallest_arrays
from hetjax.system.arrays import Array

SEEDS = P(RELATION, DATA)  # of arrays [partitions, seeds, ...]; a partition's own are [1, seeds, ...]
When = tuple[Array, Array]  # the seed, and the updates done before


class PassOutput(NamedTuple):
    """The output of a pass.

    Attributes:
      partial: the partial aggregates of the seeds, per root type.
      x: embeddings of the inner nodes, per node type.
      own: the seeds' embeddings that the pass aggregated with, per root type; empty where nothing looks at them.
    """

    partial: Mapping[str, Any]
    x: Mapping[str, jax.Array]
    own: Mapping[str, jax.Array]


NOTHING = PassOutput({}, {}, {})


class PassGradients(NamedTuple):
    """The gradients that a pass returns, summed over replicas of what they share.

    Attributes:
      weights: the gradients of the weights, by this pass and later ones.
      rows: the gradients of the learnable rows that were read; empty except for the first pass.
      before: the cotangents of the pass's inputs.
    """

    weights: Any
    rows: Mapping[str, jax.Array]
    before: PassOutput


def passes(share: PartitionModel) -> list[tuple[int, ...]]:
    """Return the layers of each pass: all in one, or one in each where partial aggregates are exchanged after every layer."""
    depths = range(len(share.local_model.layers))
    return [(depth,) for depth in depths] if share.exchanged else [tuple(depths)]


def run(
    model: Stack,
    share: PartitionModel,
    depths: tuple[int, ...],
    blocks: Sequence[Roles],
    before: PassOutput,
    masks: Masks | None = None,
    exchanges: tuple[Exchange, Exchange] | None = None,
) -> PassOutput:
    """Run one pass of a partition; a method of the model, to be given to `model.apply`.

    Args:
      depths: the layers of the pass.
      blocks: the blocks of every layer.
      before: the output of the pass before, its partial aggregates combined; the first pass has only `x`, the features.
      masks: the masks of the step.
      exchanges: the exchanges of the first layer, for the seeds and for the other nodes, where columns are divided.
    """
    totals, x, own = before
    here = LOCAL, Pieces(share)

    def at(depth: int) -> tuple[Exchange, Exchange]:
        return here if depth or exchanges is None else exchanges

    if depths[0]:
        named, below = blocks[depths[0]].seeds.targets, model.layers[depths[0] - 1]
        seeds = {t: masks and masks.of(named[t]) for t in share.roots}
        own = {t: aggregate.finished(below, t, totals.get(t), own[t], seeds[t]) for t in share.roots}
    else:
        x = model.enter(at(0)[1].enter(x), blocks[0].inner, masks)
    for depth in depths[:-1]:
        x = model.layers[depth](blocks[depth].inner, x, masks, at(depth)[1])
    (of_seeds, of_inner), top = at(depths[-1]), blocks[depths[-1]]
    layer, folds = model.layers[depths[-1]], share.local_model.layers[depths[-1]].seeds
    own = {**own, **aggregate.own_embeddings(top.seeds, x)}
    partial = fold_seeds(layer, share, top.seeds, aggregate.source_inputs(layer, x), own, folds.selves, masks, of_seeds)
    totals, finished, _ = of_seeds.after({t: of.total for t, of in partial.items()}, own, {})
    partial = {t: of._replace(total=totals[t]) for t, of in partial.items()}
    return PassOutput(partial, layer(top.inner, x, masks, of_inner), finished if share.exchanged else {})


class LocalPrograms:
    """The programs of one partition, on its row of the mesh; replicas run them alike on their shares of the seeds.

    Args:
      trainer, share: the trainer of the model, and the part of the model that the partition computes.
      mesh: the row, or its groups that divide the columns of the features.
      first: the division of these; None: they are not divided.
    """

    def __init__(self, trainer: Trainer, share: PartitionModel, mesh: Mesh, first: FirstLayer | None = None):
        self.trainer, self.share, self.mesh, self.first = trainer, share, mesh, first
        self.own, self.columns = P(mesh.axis_names), P(FEATURE) if first else P()  # of replicas, of tables
        self.specs = PassOutput._make((P(None, mesh.axis_names), self.own, self.own))
        self.forward = Program(WEIGHTS, self._forward, mesh, static=1)
        self.pull = Program(WEIGHTS, self._pull, mesh, static=1)

    def _forward(
        self, number: int, params: Any, rows: Rows, static: Rows, local: Local, before: PassOutput, when: When
    ) -> tuple[PassOutput, Callable[[PassOutput], Any]]:
        """Run pass `number`; return its outcome, with partial aggregates `[1, seeds, ...]`, and its vjp.

        Args:
          rows: the rows of the whole table per learnable type; for a table on the host those that the step takes.
          static: the whole feature matrix per static type.
          before: as in `run`, without the features; its combined partial aggregates `[1, seeds, ...]`.
        """
        depths = passes(self.share)[number]
        gather = shard_map(tables.rows_at, self.mesh, (self.columns, self.own), self.own)
        learned = {t: gather(m, local.inputs[t]) if t in local.inputs else m for t, m in rows.items()}
        learned_specs = {t: self.own if t in local.inputs else P() for t in rows}

        def fold(params: Any, learned: Rows, before: PassOutput, static: Rows, local: Local, when: When) -> PassOutput:
            if not number:
                read = {t: tables.rows_at(matrix, local.inputs.get(t)) for t, matrix in static.items()}
                before = before._replace(x={**read, **local.rows, **learned})
            before = before._replace(partial=_only(before.partial))
            masks, exchanges = self.trainer.masks(*when), None
            if self.first and not number:
                of_seeds, of_inner = map(self.first.exchange, local.picks)
                params, exchanges = self.first.weights(params), (of_seeds, of_inner)
            given = self.share, depths, local.blocks, before, masks, exchanges
            outcome: Any = self.trainer.model.apply(params, *given, method=run)
            return outcome._replace(partial=_alone(outcome.partial))

        in_specs = (P(), learned_specs, self.specs, self.columns, self.own, P())
        mapped = shard_map(fold, self.mesh, in_specs, self.specs)
        return jax.vjp(lambda *wanted: mapped(*wanted, static, local, when), params, learned, before)

    def _pull(
        self, gathered: frozenset[str], back: Callable[[PassOutput], Any], outcome: PassOutput, so_far: Any
    ) -> PassGradients:
        """Compute the gradients through a pass.

        Args:
          gathered: the learnable types of which rows were read, rather than the whole table.
          back: the vjp, from `forward`.
          outcome: the gradient of its outcome.
          so_far: the gradient of the weights by later passes, or None.
        """
        weights, learned, before = back(outcome)
        weights = weights if so_far is None else jax.tree.map(jnp.add, so_far, weights)
        learned = {t: self._keep(leaf, self.own if t in gathered else P()) for t, leaf in learned.items()}
        before = PassOutput(*(self._keep(tree, spec) for tree, spec in zip(before, self.specs)))  # type: ignore[arg-type]
        return PassGradients(self._keep(weights, P()), learned, before)

    def _keep(self, tree: Any, spec: P) -> Any:
        """Return gradients sharded like their arguments; XLA would choose another sharding for those that are zero."""
        return jax.lax.with_sharding_constraint(tree, NamedSharding(self.mesh, spec)) if jax.tree.leaves(tree) else tree


class MeshPrograms:
    """The programs that all partitions run together, in the same order."""

    def __init__(self, trainer: Trainer, share: PartitionModel, mesh: Mesh):
        self.trainer, self.share, self.mesh = trainer, share, mesh
        layers = trainer.model.layers
        self.combined = [Program(PARTIAL, functools.partial(self._combine, layer), mesh) for layer in layers]
        self.spread, self.conclude = Program(PARTIAL, self._spread, mesh), Program(PARTIAL, self._conclude, mesh)

    def _combine(self, layer: Layer, partials: Any) -> tuple[Any, Any]:
        """Combine partial aggregates `[partitions, seeds, ...]`; return the combined aggregates, of the same shape, and the vjp."""

        def total(partial: Any) -> tuple[Any, Any]:
            return _alone(jax.vjp(lambda own: united(layer, self.share, own, across), _only(partial)))

        return shard_map(total, self.mesh, (SEEDS,), (SEEDS, P(BOTH)))(partials)

    def _spread(self, back: Any, totals: Any) -> Any:
        """Return the cotangents of the partial aggregates from those of the combined ones, to which every partition contributes a part."""

        def pull(back: Any, total: Any) -> Any:
            (gradient,) = _only(back)(jax.lax.psum(_only(total), RELATION))
            return _alone(gradient)

        return shard_map(pull, self.mesh, (P(BOTH), SEEDS), SEEDS)(back, totals)

    def _conclude(
        self,
        params: Any,
        partials: Any,
        own: Mapping[str, jax.Array],
        seeds: Mapping[str, jax.Array],
        arrays: Any,
        when: When,
    ) -> tuple[jax.Array, Any, Any, Mapping[str, jax.Array]]:
        """Compute the loss and its gradients.

        Args:
          params: the weights that this reads, alike everywhere.
          partials: `[partitions, seeds, ...]` of the last layer, per root type.
          own: `[seeds, width]`, the embeddings below it, alike in all partitions, per root type; or empty.
          seeds, arrays: ids of all seeds per root type, and the arrays of the examples, sharded over `data`.

        Returns:
          `(loss, gradient of params, gradient of partial aggregates, gradient of own)`; the first two summed over replicas and
          alike everywhere; each partition has an equal share of the last, because it is summed over them later.
        """
        last, task = self.trainer.model.layers[-1], self.trainer.task

        def share(params: Any, partial: Any, own: Any, seeds: Any, arrays: Any, when: When) -> jax.Array:
            totals, masks = united(last, self.share, partial, across), self.trainer.masks(*when)
            below = {t: own.get(t, jnp.zeros((len(ids), 0))) for t, ids in seeds.items()}
            given = totals, below, {t: masks and masks.of(ids) for t, ids in seeds.items()}, arrays
            outputs: Any = self.trainer.model.apply(params, *given, method="conclude")
            return task.loss(outputs, arrays) / jax.lax.psum(task.weight(arrays), DATA)

        def conclude(params: Any, partials: Any, own: Any, *others: Any) -> tuple[jax.Array, Any, Any, Any]:
            loss, (head, partial, own) = jax.value_and_grad(share, (0, 1, 2))(params, _only(partials), own, *others)
            with scope(WEIGHTS):
                loss, head = jax.lax.psum((loss, head), DATA)
            own = jax.tree.map(lambda leaf: leaf / self.mesh.shape[RELATION], own)
            return loss, head, _alone(partial), own

        in_specs = (P(), SEEDS, P(DATA), P(DATA), P(DATA), P())
        mapped = shard_map(conclude, self.mesh, in_specs, (P(), P(), SEEDS, P(DATA)))
        return mapped(params, partials, own, seeds, arrays, when)


def across(monoid: Monoid, partial: Any, owners: Sequence[int]) -> Any:
    """Return the combined aggregate over the partitions that have partial aggregates; inside the program."""
    return combine(monoid, partial, RELATION, owners)


def _only(tree: Any) -> Any:
    """Return the elements of arrays `[1, ...]` without their first axis."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _alone(tree: Any) -> Any:
    """Return arrays with a first axis of size 1, the inverse of `_only`."""
    return jax.tree.map(lambda leaf: leaf[None], tree)


def weights_of(trainer: Trainer, share: PartitionModel, features: Mapping[str, int]) -> tuple[Any, Any]:
    """Return the weights that a partition's passes read, and those that the conclusion does, each as a tree of shapes.

    They are found by tracing both on a graph of one node per type and one edge per relation.
    """

    def everything(model: Stack) -> PassOutput:
        outcome = NOTHING._replace(x={t: jnp.zeros((1, width)) for t, width in features.items()})
        for depths in passes(share):
            outcome = run(model, share, depths, blocks, outcome)
            total = united(model.layers[depths[-1]], share, outcome.partial, lambda monoid, partial, owners: partial)
            outcome = outcome._replace(partial=total)
        return outcome

    model, blocks, key = trainer.model, _smallest_blocks(share), jax.random.key(0)
    outcome, local = jax.eval_shape(lambda: model.init_with_output(key, method=everything))
    own = {t: outcome.own.get(t, jnp.zeros((1, 0))) for t in share.roots}
    rest = dict.fromkeys(share.roots), smallest_arrays(trainer.task)
    return local, jax.eval_shape(lambda c, o: model.init(key, c, o, *rest, method="conclude"), outcome.partial, own)


def _smallest_blocks(share: PartitionModel) -> list[Roles]:
    edge = smallest_adjacency()
    blocks = []
    for depth, layer in enumerate(share.local_model.layers):
        seeds = Block(
            {r.key: edge for r in layer.seeds.relations},
            dict.fromkeys(share.reads_seeds(depth)),
            {t: np.zeros(1, np.int32) for t in share.roots},
        )
        inner_rows = {t: None if share.reads_own else jnp.full(1, NO_NODE) for t in share.local_model.types[depth + 1]}
        blocks.append(Roles(seeds, Block({r.key: edge for r in layer.inner.relations}, inner_rows)))
    return blocks
