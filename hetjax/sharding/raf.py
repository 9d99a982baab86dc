"""Relation-Aggregation-First (Heta, PVLDB 18(9) 2025, section 6): fold where a relation lives, combine at the seeds.

A step is a chain of passes. In each, every partition folds its relations by a program of its own, and one program on
the whole mesh combines the seeds' carriers. The last one also finishes and takes the loss and its gradient, alike
everywhere, so no partition is special. Back again, each pulls its slice of the gradient through its own passes.

Models whose layers look at no target need one pass of all layers; others one pass a layer, after which every partition
knows the seeds' embeddings. (Heta's paper passes over this; a partition's own relations alone do not give them.)
Weights and learnable rows that several partitions read are replicas: their gradients are summed over these, and all
apply the same update, so replicas stay equal.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.cache import tables
from hetjax.graph.hetgraph import HetGraph
from hetjax.partition.plan import Plan
from hetjax.sharding import mesh as meshes
from hetjax.sharding.feed import MeshBatch, shares
from hetjax.sharding.layout import Layout
from hetjax.sharding.mesh import DATA, join, split
from hetjax.sharding.programs import SEEDS, LocalPrograms, MeshPrograms, Outcome, passes, weights_of
from hetjax.sharding.replicas import Group, Rows, Sums, groups, owners, pack, paths, select, unpack
from hetjax.sharding.single import Trainer, TrainState
from hetjax.sharding.traffic import WEIGHTS, Program, Sent, per_step

ROWS = "rows"  # ("rows", type) stands beside the paths of weights


class Gradients(NamedTuple):
    """Of one partition, summed over all that have the same weights and rows.

    Attributes:
      weights: of its weights.
      rows: per learnable type that it reads; of all rows where there are no ids.
      ids: the rows that any partition read, int32, each once; ids out of range are padding.
      counted: `[1, 2]`, the penalty and the sum of all squares, of weights and rows that no partition before it has.
    """

    weights: Any
    rows: Mapping[str, jax.Array]
    ids: Mapping[str, jax.Array]
    counted: jax.Array


class Raf:
    """Training on a mesh; a state is a list of one `TrainState` per partition, of what that partition reads.

    Args:
      trainer: what a step on one device needs.
      graph: all of it; a partition's devices get the features that it reads.
      plan: who folds what.
      mesh: `relation` x `data`, as the plan has them.
      whole: whether batches are the whole graph.
    """

    def __init__(self, trainer: Trainer, graph: HetGraph, plan: Plan, mesh: Mesh, whole: bool = False):
        self.trainer, self.mesh = trainer, mesh
        self.parts = range(len(plan.parts))
        lines, self.shares = [meshes.row(mesh, part) for part in self.parts], shares(plan)
        reads = [share.program.reads for share in self.shares]
        self.static = [_put({t: graph.features[t] for t in r if t in graph.features}, x) for r, x in zip(reads, lines)]
        widths = [{t: trainer.widths[t] for t in types} for types in reads]
        traced = [weights_of(trainer.model, share, known) for share, known in zip(self.shares, widths)]
        folded, self.head = [paths(local) for local, _ in traced], paths(traced[0][1])
        self.weights = owners([local | self.head for local in folded])
        self.tables = owners([frozenset(types) & frozenset(trainer.learnable) for types in reads])
        self.layout = Layout(self.weights, self.tables, lines)
        self.owners: dict[tuple, Group] = self.weights | {(ROWS, t): parts for t, parts in self.tables.items()}
        self.local = [LocalPrograms(trainer.model, *about) for about in zip(self.shares, lines)]
        self.together = MeshPrograms(trainer, mesh)
        summed = frozenset().union(*folded, {(ROWS, t) for t in self.tables} if whole else ())
        self.replicas = groups({one: parts for one, parts in self.owners.items() if one in summed})
        self.sums = {group: Sums(mesh, group) for group in self.replicas}
        several = {t: parts for t, parts in self.tables.items() if not whole and len(parts) * mesh.shape[DATA] > 1}
        self.merge = {t: Rows(mesh, parts, trainer.learnable[t].nodes) for t, parts in several.items()}
        self.add = Sums(mesh, tuple(self.parts))
        alike = [NamedSharding(line, P()) for line in lines]
        self.packed, self.settled = (
            [Program(WEIGHTS, functools.partial(method, p), lines[p], out_shardings=alike[p]) for p in self.parts]
            for method in (self._pack, self._settle)
        )
        self.updated = [
            Program(WEIGHTS, self._update, line, donate_argnums=0, out_shardings=one) for line, one in zip(lines, alike)
        ]

    def place(self, state: TrainState) -> list[TrainState]:
        """A state on the mesh, from one on one device."""
        return self.layout.divide(state)

    def whole(self, states: Sequence[TrainState]) -> TrainState:
        """The inverse of `place`."""
        return self.layout.whole(states)

    def traffic(self) -> list[Sent]:
        """What a step sent, over the steps of this process."""
        sums = [*self.sums.values(), *self.merge.values(), self.add]
        programs = [add.run for add in sums] + [*self.together.combined, self.together.spread, self.together.conclude]
        programs += [program for one in self.local for program in (one.forward, one.pull)]
        programs += [*self.packed, *self.settled, *self.updated]
        return per_step(programs, max(1, self.updated[0].calls.total()))

    def step(self, states: Sequence[TrainState], batch: MeshBatch) -> tuple[list[TrainState], jax.Array]:
        """One update; returns the new states, in place of those given, which are used up, and the loss before it."""
        loss, found = self.gradients(states, batch)
        counted = [one.counted for one in found]
        if self.trainer.l2 or self.trainer.clip:
            counted = self.add(counted)
            loss = loss + float(counted[0][0, 0])
        found = [one._replace(counted=all) for one, all in zip(found, counted)]
        made = [update(state, one) for update, state, one in zip(self.updated, states, found)]
        return jax.block_until_ready(made), loss  # collectives of two steps never wait for each other

    def gradients(self, states: Sequence[TrainState], batch: MeshBatch) -> tuple[jax.Array, list[Gradients]]:
        """The loss without its penalty, and the gradients with it."""
        loss, weights, rows, head = self._fold(states, batch)
        packed, sums = [self.packed[part](weights[part], rows[part]) for part in self.parts], [{} for _ in self.parts]
        for group, add in self.sums.items():
            for part, total in zip(group, add([packed[part][group] for part in group])):
                sums[part][group] = total
        ids = [
            {t: batch.parts[part].inputs[t] for t in rows[part] if t in batch.parts[part].inputs} for part in self.parts
        ]
        for t, merge in self.merge.items():
            parts = self.tables[t]
            for part, found in zip(parts, merge([(ids[part][t], rows[part][t]) for part in parts])):
                ids[part][t], rows[part][t] = found
        given = zip(self.settled, states, weights, rows, ids, sums, head)
        return loss, [settle(*one) for settle, *one in given]

    def _fold(self, states: Sequence[TrainState], batch: MeshBatch):
        """Forward and back: the loss, and per partition the gradients of weights, rows and the conclusion's weights."""
        outcomes, tape, last = [Outcome(None, {}, None) for _ in self.parts], [], len(passes(self.shares[0])) - 1
        for number in range(last + 1):
            outcomes, back = zip(
                *(self._pass(number, part, states[part], batch, outcomes[part]) for part in self.parts)
            )
            carriers = join(self.mesh, SEEDS, [outcome.carrier for outcome in outcomes])
            tape.append((back, None))
            if number < last:
                totals, way = self.together.combined[number](carriers)
                tape[-1] = back, way
                totals = split(self.mesh, SEEDS, totals)
                outcomes = [outcome._replace(carrier=total) for outcome, total in zip(outcomes, totals)]
        head = join(self.mesh, P(), [select(state.params, self.head) for state in states])
        own = join(self.mesh, P(DATA), [outcome.own for outcome in outcomes])
        loss, head, carriers, own = self.together.conclude(head, carriers, own, batch.labels, batch.weights)
        return loss, *self._back(tape, batch, carriers, own), split(self.mesh, P(), head)

    def _pass(self, number: int, part: int, state: TrainState, batch: MeshBatch, before: Outcome):
        rows = {} if number else {t: table.rows for t, table in state.tables.items()}
        static = {} if number else self.static[part]
        about = state.params, rows, static, batch.parts[part]
        return self.local[part].forward(number, *about, before.x, before.own, before.carrier)

    def _back(self, tape, batch: MeshBatch, carriers, own) -> tuple[list[Any], list[dict[str, jax.Array]]]:
        """From the gradients at the seeds those of the partitions' weights and rows."""
        weights, x, own = [None for _ in self.parts], [{} for _ in self.parts], split(self.mesh, P(DATA), own)
        gathered, totals = [frozenset(local.inputs) for local in batch.parts], ()
        for back, way in reversed(tape):
            if way is not None:
                carriers = self.together.spread(way, join(self.mesh, SEEDS, totals))
            gradients = map(Outcome, split(self.mesh, SEEDS, carriers), x, own)
            pulled = [self.local[p].pull(gathered[p], *about) for p, about in enumerate(zip(back, gradients, weights))]
            weights, rows, x, own, totals = zip(*pulled)
        return list(weights), list(rows)

    def _pack(self, part: int, weights, rows) -> dict[Group, jax.Array]:
        leaves = _leaves(weights, rows)
        return {
            group: pack([leaves[one] for one in things]) for group, things in self.replicas.items() if part in group
        }

    def _settle(self, part: int, state: TrainState, weights, rows, ids, sums, head) -> Gradients:
        leaves, values = (
            _leaves(weights, rows),
            _leaves(state.params, {t: table.rows for t, table in state.tables.items()}),
        )
        for group, packed in sums.items():
            things = self.replicas[group]
            leaves |= zip(things, unpack(packed, [leaves[one] for one in things]))
        leaves |= {path: leaves[path] + leaf for path, leaf in flatten_dict(head).items()}
        penalty = jnp.zeros(())
        if self.trainer.l2:
            rows_at = {(ROWS, t): found for t, found in ids.items()}
            read = {one: tables.read(leaf, rows_at.get(one)) for one, leaf in values.items() if penalised(one)}
            leaves |= {one: leaves[one] + 2 * self.trainer.l2 * leaf for one, leaf in read.items()}
            penalty = self.trainer.l2 * self._squares(part, read)
        counted = jnp.stack([penalty, self._squares(part, leaves)])[None]
        found = {t: leaves.pop((ROWS, t)) for t in rows}
        return Gradients(unflatten_dict(leaves), found, ids, counted)

    def _squares(self, part: int, leaves: Mapping[tuple, jax.Array]) -> jax.Array:
        """The sum of squares of what no partition before this one has."""
        own = (leaf for one, leaf in leaves.items() if self.owners[one][0] == part)
        return sum((jnp.sum(jnp.square(leaf)) for leaf in own), jnp.zeros(()))

    def _update(self, state: TrainState, found: Gradients) -> TrainState:
        weights, rows = found.weights, found.rows
        if self.trainer.clip:
            norm = jnp.sqrt(found.counted[0, 1])
            factor = jnp.where(norm < self.trainer.clip, 1, self.trainer.clip / norm)
            weights, rows = jax.tree.map(lambda leaf: leaf * factor, (weights, rows))
        return self.trainer.update(state, weights, rows, found.ids)


def penalised(one: tuple) -> bool:
    """Whether `l2` penalises a weight or table, as in `Trainer.loss`."""
    return one[0] == ROWS or one[1] == "layers_0"


def _leaves(weights, rows) -> dict[tuple, jax.Array]:
    return flatten_dict(weights) | {(ROWS, t): leaf for t, leaf in rows.items()}


def _put(tree, line: Mesh):
    return jax.device_put(tree, NamedSharding(line, P()))
