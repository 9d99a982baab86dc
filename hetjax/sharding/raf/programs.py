"""The programs of a RAF step: local ones, of a partition on its row of the mesh, and those of all partitions together.

A local program returns the partial aggregates of the seeds and the way back (a `jax.vjp`, which is a pytree). The programs of the
mesh combine partial aggregates; the last also finishes, takes the loss and its gradient.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.cache import tables
from hetjax.models.dropout import Masks
from hetjax.models.hgnn import Stack
from hetjax.sampling.blocks import NO_NODE, Block
from hetjax.sharding.mesh import BOTH, DATA, RELATION
from hetjax.sharding.raf.combine import combine
from hetjax.sharding.raf.kinds import PARTIAL, WEIGHTS
from hetjax.sharding.raf.sample import Local, PartitionModel, Roles
from hetjax.sharding.traffic import Program, scope
from hetjax.sharding.trainer import Trainer, cross_entropy, smallest_adjacency

SEEDS = P(RELATION, DATA)  # of arrays [partitions, seeds, ...]; a partition's own are [1, seeds, ...]
SHARE = P(None, DATA)


class PassOutput(NamedTuple):
    """What a pass leaves.

    Attributes:
      partial: of the seeds, partial.
      x: embeddings of the inner nodes, per node type.
      own: the seeds' embeddings that the pass folded with; None where nothing looks at them.
    """

    partial: Any
    x: Mapping[str, jax.Array]
    own: jax.Array | None


class PassGradients(NamedTuple):
    """Gradients that a pass leaves, summed over replicas of what they share.

    Attributes:
      weights: of the weights, by this pass and later ones.
      rows: of the learnable rows that were read; empty but after the first pass.
      x, own, total: of what the pass was given.
    """

    weights: Any
    rows: Mapping[str, jax.Array]
    x: Mapping[str, jax.Array]
    own: Any
    total: Any


def passes(share: PartitionModel) -> list[tuple[int, ...]]:
    """The layers of each pass: all in one, or one in each where partial aggregates are exchanged after every layer."""
    depths = range(len(share.local_model.layers))
    return [(depth,) for depth in depths] if share.exchanged else [tuple(depths)]


def run(
    model: Stack,
    share: PartitionModel,
    depths: tuple[int, ...],
    blocks: Sequence[Roles],
    x,
    own,
    total,
    masks: Masks | None = None,
) -> PassOutput:
    """One pass of a partition; a method of the model, to be given to `model.apply`.

    Args:
      depths: the layers of the pass.
      blocks: of every layer.
      x: embeddings of the inner nodes below the pass; the features for the first.
      own, total: of the pass before, the latter combined; None for the first.
      masks: of the step.
    """
    if depths[0]:
        seeds = masks and masks.of(blocks[depths[0]].seeds.targets[share.target])
        own = model.layers[depths[0] - 1].finish(share.target, total, own, seeds)
    else:
        x = model.enter(x, blocks[0].inner, masks)
    for depth in depths[:-1]:
        x = model.layers[depth](blocks[depth].inner, x, masks)
    layer, folds, top = model.layers[depths[-1]], share.local_model.layers[depths[-1]].seeds, blocks[depths[-1]]
    own = layer.own_embeddings(top.seeds, x).get(share.target, own)
    partial = layer.fold_relations(top.seeds, layer.prepared(x), {share.target: own}, folds.selves, masks)[share.target]
    return PassOutput(partial, layer(top.inner, x, masks), own if share.exchanged else None)


class LocalPrograms:
    """The programs of one partition, on its row of the mesh; replicas run them alike on their shares of the seeds."""

    def __init__(self, trainer: Trainer, share: PartitionModel, mesh: Mesh):
        self.trainer, self.share, self.mesh = trainer, share, mesh
        self.forward = Program(WEIGHTS, self._forward, mesh, static=1)
        self.pull = Program(WEIGHTS, self._pull, mesh, static=1)

    def _forward(self, number: int, params, rows, static, local: Local, x, own, total, when):
        """Pass `number`; returns its outcome, with partial aggregates `[1, seeds, ...]`, and the way back.

        Args:
          rows: per learnable type the rows of the whole table; of one on the host those that the step takes.
          static: per static type the whole feature matrix.
          x, own, total: as in `run`.
          when: the seed, and the updates done before.
        """
        depths = passes(self.share)[number]
        every = self._map(self._read, (P(), P(DATA)), P(DATA))
        learned = {t: every(m, local.inputs[t]) if t in local.inputs else m for t, m in rows.items()}
        kinds = {t: P(DATA) if t in local.inputs else P() for t in rows}

        def one(params, learned, x, own, total, static, local, when):
            if not number:
                x = {t: tables.read(matrix, local.inputs.get(t)) for t, matrix in static.items()} | local.rows | learned
            total = jax.tree.map(lambda leaf: leaf[0], total)
            given = self.share, depths, local.blocks, x, own, total, self.trainer.masks(*when)
            made = self.trainer.model.apply(params, *given, method=run)
            return made._replace(partial=jax.tree.map(lambda leaf: leaf[None], made.partial))

        specs = (P(), kinds, P(DATA), P(DATA), SHARE, P(), P(DATA), P())
        mapped = self._map(one, specs, PassOutput(SHARE, P(DATA), P(DATA)))
        return jax.vjp(lambda *wanted: mapped(*wanted, static, local, when), params, learned, x, own, total)

    def _pull(self, gathered: frozenset[str], back, outcome: PassOutput, so_far) -> PassGradients:
        """Gradients through a pass.

        Args:
          gathered: the learnable types of which rows were read, rather than the whole table.
          back: from `forward`.
          outcome: the gradient of its outcome.
          so_far: the gradient of the weights by later passes, or None.
        """
        weights, learned, x, own, total = back(outcome)
        weights = weights if so_far is None else jax.tree.map(jnp.add, so_far, weights)
        kinds = {t: P(DATA) if t in gathered else P() for t in learned}
        learned = {t: self._keep(leaf, kinds[t]) for t, leaf in learned.items()}
        x, own = self._keep(x, P(DATA)), self._keep(own, P(DATA))
        return PassGradients(self._keep(weights, P()), learned, x, own, self._keep(total, SHARE))

    def _keep(self, tree, spec: P):
        """Gradients sharded as what they are of; XLA would choose for those that are zero."""
        return jax.lax.with_sharding_constraint(tree, NamedSharding(self.mesh, spec)) if jax.tree.leaves(tree) else tree

    def _map(self, function, given, made):
        return jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)

    @staticmethod
    def _read(matrix, ids):
        return tables.rows_at(matrix, ids)


class MeshPrograms:
    """The programs that all partitions run together, in the same order."""

    def __init__(self, trainer: Trainer, mesh: Mesh):
        self.trainer, self.mesh = trainer, mesh
        layers = trainer.model.layers
        self.combined = [Program(PARTIAL, functools.partial(self._combine, layer.monoid), mesh) for layer in layers]
        self.spread, self.conclude = Program(PARTIAL, self._spread, mesh), Program(PARTIAL, self._conclude, mesh)

    def _map(self, function, given, made):
        return jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)

    def _combine(self, monoid, partials):
        """The totals of partial aggregates, both `[partitions, seeds, ...]`, and the way back."""

        def one(partial):
            return jax.tree.map(
                lambda leaf: leaf[None], jax.vjp(lambda c: combine(monoid, c, RELATION), _only(partial))
            )

        return self._map(one, (SEEDS,), (SEEDS, P(BOTH)))(partials)

    def _spread(self, back, totals):
        """The gradient of partial aggregates from that of totals, to which every partition adds what it made of them."""

        def one(back, total):
            gradient = jax.lax.psum(_only(total), RELATION)
            return jax.tree.map(lambda leaf: leaf[None], *_only(back)(gradient))

        return self._map(one, (P(BOTH), SEEDS), SEEDS)(back, totals)

    def _conclude(self, params, partials, own, seeds, labels, weights, when):
        """The loss, and its gradients.

        Args:
          params: the weights that this reads, alike everywhere.
          partials: `[partitions, seeds, ...]` of the last layer.
          own: `[seeds, width]`, the embeddings below it, alike in all partitions; or None.
          seeds, labels, weights: ids, labels and weights of all seeds, sharded over `data`.
          when: as in `LocalPrograms`.

        Returns:
          `(loss, gradient of params, gradient of partial aggregates, gradient of own)`; the first two summed over replicas and
          alike everywhere; of the last each partition has an equal share, as it is summed over them later.
        """
        last, smoothing = self.trainer.model.layers[-1], self.trainer.label_smoothing

        def share(params, partial, own, seeds, labels, weights, when):
            total, masks = combine(last.monoid, partial, RELATION), self.trainer.masks(*when)
            logits = self.trainer.model.apply(params, total, own, masks and masks.of(seeds), method="conclude")
            losses = jnp.where(weights > 0, cross_entropy(logits, labels, smoothing), 0)
            return jnp.sum(losses) / jax.lax.psum(jnp.sum(weights), DATA)

        def one(params, partials, own, *others):
            given = params, _only(partials), own, *others
            loss, (head, partial, own) = jax.value_and_grad(share, (0, 1, 2))(*given)
            with scope(WEIGHTS):
                loss, head = jax.lax.psum((loss, head), DATA)
            own = jax.tree.map(lambda leaf: leaf / self.mesh.shape[RELATION], own)
            return loss, head, jax.tree.map(lambda leaf: leaf[None], partial), own

        given = (P(), SEEDS, P(DATA), P(DATA), P(DATA), P(DATA), P())
        made = self._map(one, given, (P(), P(), SEEDS, P(DATA)))
        return made(params, partials, own, seeds, labels, weights, when)


def _only(tree):
    """Of arrays `[1, ...]` what they hold."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


def weights_of(model: Stack, share: PartitionModel, features: Mapping[str, int]) -> tuple[Any, Any]:
    """The weights that a partition's passes read, and those that the conclusion does, each as a tree of shapes.

    Found by tracing both on a graph of one node per type and one edge per relation.
    """

    def everything(model):
        outcome = PassOutput(None, {t: jnp.zeros((1, width)) for t, width in features.items()}, None)
        for depths in passes(share):
            outcome = run(model, share, depths, blocks, outcome.x, outcome.own, outcome.partial)
        return outcome

    blocks, key = _smallest_blocks(share), jax.random.key(0)
    outcome, local = jax.eval_shape(lambda: model.init_with_output(key, method=everything))
    return local, jax.eval_shape(lambda c, o: model.init(key, c, o, method="conclude"), outcome.partial, outcome.own)


def _smallest_blocks(share: PartitionModel) -> list[Roles]:
    edge = smallest_adjacency()
    blocks = []
    for depth, layer in enumerate(share.local_model.layers):
        own = {share.target: None} if share.reads_seeds(depth) else {}
        inner = {t: None if share.reads_own else jnp.full(1, NO_NODE) for t in share.local_model.types[depth + 1]}
        blocks.append(Roles(*(Block({r.key: edge for r in fold.relations}, i) for fold, i in zip(layer, (own, inner)))))
    return blocks
