"""Relation-Aggregation-First (Heta, PVLDB 18(9) 2025, section 6): aggregate where a relation lives, combine at the seeds.

A step is a chain of passes. In each, every partition aggregates its relations by a program of its own, and one program on
the whole mesh combines the seeds' partial aggregates. The last one also finishes and takes the loss and its gradient, alike
everywhere, so no partition is special. In the backward pass each applies its own vjps to its slice of the gradient.

Models whose layers look at no target need one pass of all layers; others one pass a layer, after which every partition
knows the seeds' embeddings. (Heta's paper passes over this; a partition's own relations alone do not give them.)
Weights and learnable rows that several partitions read are replicas: their gradients are summed over these, and all
apply the same update, so replicas stay equal.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.cache.ahead import Ahead
from hetjax.cache.host import Fetched
from hetjax.kernels import tables
from hetjax.kernels.tables import Shape, Table
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import DATA, RELATION, join, split
from hetjax.sharding.raf.batches import CAPACITIES, MeshBatch, RafBatches
from hetjax.sharding.raf.evaluate import RafEvaluator, on_first
from hetjax.sharding.raf.features import HOSTED, UNITED, MeshFeatureStore, SharedTable
from hetjax.sharding.raf.kinds import SAMPLING, WEIGHTS
from hetjax.sharding.raf.layout import Layout
from hetjax.sharding.raf.programs import (
    NOTHING,
    SEEDS,
    LocalPrograms,
    MeshPrograms,
    PassGradients,
    PassOutput,
    passes,
    weights_of,
)
from hetjax.sharding.raf.replicas import Group, Rows, Sums, groups, owners, pack, paths, select, unpack, within
from hetjax.sharding.raf.site import Site, partition_models
from hetjax.sharding.strategy import Engine, Setup
from hetjax.sharding.traffic import MESSAGE, PROCESSES, Program, Sent, per_step
from hetjax.sharding.trainer import TrainState, squares
from hetjax.system.arrays import Array
from hetjax.system.eager import eagerly

ROWS = "rows"  # ("rows", type) stands beside the paths of weights


class Gradients(NamedTuple):
    """The gradients of one partition, summed over all that have the same weights and rows.

    Attributes:
      weights: the gradients of its weights.
      rows: the gradients of rows per learnable type that it reads; of all rows where there are no ids.
      ids: the rows that any partition read, int32, each once; ids out of range are padding.
      counted: `[1, 2]`, the penalty and the sum of all squares, of weights and rows that no partition before it has; zeros
        where neither is asked for.
    """

    weights: Any
    rows: Mapping[str, jax.Array]
    ids: Mapping[str, Array]
    counted: jax.Array


class RafEngine(Engine):
    """Training on a mesh; a state is a `TrainState` for each partition of this process, with what that partition reads.

    Args:
      setup: as in `Engine`.
      site: this process's place; a partition's devices get the features that it reads.
      batches, features: as in `Engine`.
    """

    features: MeshFeatureStore

    def __init__(self, setup: Setup, site: Site, batches: RafBatches, features: MeshFeatureStore):
        super().__init__(setup, batches, features)
        trainer, whole = self.trainer, batches.regime.whole
        self.site, self.mesh, self.prefetch = site, site.mesh, setup.config.cache.prefetch
        self.ahead = Ahead()
        self.models = partition_models(site.plan)
        reads = [share.local_model.reads for share in self.models]
        widths = [{t: trainer.widths[t] for t in types} for types in reads]
        traced = [weights_of(trainer, share, known) for share, known in zip(self.models, widths)]
        folded, self.head = [paths(local) for local, _ in traced], paths(traced[0][1])
        self.weights = owners([local | self.head for local in folded])
        self.tables = owners([frozenset(types) & frozenset(trainer.learnable) for types in reads])
        self.layout = Layout(self.weights, self.tables, site)
        self.owners: dict[tuple, Group] = self.weights | {(ROWS, t): parts for t, parts in self.tables.items()}
        self._make_replicas(frozenset().union(*folded, {(ROWS, t) for t in self.tables} if whole else ()), whole)
        rows = {part: site.row(part) for part in site.parts}
        self.static = {part: self._given(part) for part in rows}
        self.together = MeshPrograms(trainer, self.models[0], site.mesh)
        self.local = {part: self._folding(part) for part in rows}
        self.packed = {part: self._program(row, functools.partial(self._pack, part)) for part, row in rows.items()}
        self.settled = {part: self._settling(part) for part in rows}
        self.updated = {part: self._updating(part) for part in rows}

    def _program(self, row: Mesh, function: Callable[..., Any], **options: Any) -> Program:
        """Return a program of a partition, whose devices have the results alike."""
        return Program(WEIGHTS, function, row, out_shardings=NamedSharding(row, P()), **options)

    def _given(self, part: int) -> dict[str, jax.Array]:
        """Return the static features on the devices of a partition."""
        return meshes.put(self.site.row(part), P(), self.features.on_device(part))

    def _folding(self, part: int) -> LocalPrograms:
        return LocalPrograms(self.trainer, self.models[part], self.site.row(part))

    def _settling(self, part: int) -> Program:
        """Return the program that finishes the gradients of a partition."""
        finish = functools.partial(self._finish_gradients, part)
        return self._program(self.site.row(part), finish, donate_argnums=(1, 2))

    def _updating(self, part: int) -> Program:
        return self._program(self.site.row(part), self._update, donate_argnums=0)

    def _make_replicas(self, summed: frozenset[tuple], whole: bool) -> None:
        """Find the weights and tables of which several partitions have copies, and make the programs that sum them, for the groups of this process."""
        mesh, learnable = self.mesh, self.trainer.learnable
        every = groups({path: parts for path, parts in self.owners.items() if path in summed})
        self.replicas = {group: things for group, things in every.items() if within(group, self.site.parts)}
        self.sums = {group: Sums(mesh, group) for group in self.replicas}
        self.merge = {
            t: self._merging(parts, learnable[t].nodes)
            for t, parts in self.tables.items()
            if not whole and len(parts) * mesh.shape[DATA] > 1 and within(parts, self.site.parts)
        }
        self.add = Sums(mesh, tuple(range(mesh.shape[RELATION])))

    def _merging(self, parts: Group, nodes: int) -> Rows:
        """Return the program that merges the gradients of rows that several devices read."""
        return Rows(self.mesh, parts, nodes)

    def init(self, seed: int) -> dict[int, TrainState]:
        state, key = eagerly(self.init_weights, np.int32(seed)), eagerly(self.trainer.table_key, np.int32(seed))
        on_devices = {t: tables.drawn(key, t, shape) for t, shape in self._on_devices().items()}
        return self._placed(state, on_devices, self.features.init(key))

    def shard(self, state: TrainState) -> dict[int, TrainState]:
        return self._placed(state, {t: state.tables[t] for t in self._on_devices()}, self.features.load(state.tables))

    def _on_devices(self) -> dict[str, Shape]:
        """Return the tables that live on devices of this process."""
        here = {t for t, parts in self.tables.items() if within(parts, self.site.parts)}
        return {
            t: shape
            for t, shape in self.trainer.learnable.items()
            if t in here and self.features.placement[t] == "device"
        }

    def _placed(
        self, state: TrainState, on_devices: dict[str, Table], hosted: Mapping[str, SharedTable]
    ) -> dict[int, TrainState]:
        self.ahead, states = Ahead(), self.layout.shard(state._replace(tables=on_devices))
        mine = {part: {t: table for t, table in hosted.items() if part in self.tables[t]} for part in states}
        return {part: own._replace(tables=own.tables | mine[part]) for part, own in states.items()}

    def gather(self, states: Mapping[int, TrainState]) -> TrainState | None:
        hosted = {t: table.table() for t, table in _hosted(states).items()}
        return self.layout.gather({part: _replaced(state, hosted) for part, state in states.items()})

    def embed(self, states: Mapping[int, TrainState], nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        return self.mesh_evaluator.embed(states, nodes)

    def params(self, states: Mapping[int, TrainState]) -> Any:
        return jax.tree.map(on_first, next(iter(states.values())).params)

    @functools.cached_property
    def mesh_evaluator(self) -> RafEvaluator:
        """The evaluator on all partitions together."""
        return RafEvaluator(self.trainer.model, self.site, self.setup.config.sampling.evaluation_edges)

    def traffic(self) -> list[Sent]:
        sums: list[Sums | Rows] = [*self.sums.values(), *self.merge.values(), self.add]
        programs = [add.run for add in sums] + [*self.together.combined, self.together.spread, self.together.conclude]
        programs += [program for local in self.local.values() for program in (local.forward, local.pull)]
        updates = list(self.updated.values())
        programs += [*self.packed.values(), *self.settled.values(), *updates]
        programs += self.features.spread.values()
        told = self.site.group.sent(CAPACITIES, HOSTED, UNITED)
        said = [Sent(SAMPLING, MESSAGE, PROCESSES, told)] if told else []
        return [*per_step(programs, max(1, updates[0].calls.total())), *said]

    def step(
        self, states: Mapping[int, TrainState], batch: MeshBatch, upcoming: MeshBatch | None = None
    ) -> tuple[dict[int, TrainState], np.ndarray]:
        hosted = _hosted(states)
        read, fetched = self.fetch(states, batch)
        for t, rows in fetched.items():
            hosted[t].change(rows, True)
        if upcoming is not None and self.prefetch:
            self.ahead.begin(hosted, upcoming.requests)
        loss, gradients = self.gradients(read, batch)
        updated, penalised_loss = self._updated(read, loss, gradients)
        self.ahead.wait()
        for t, rows in fetched.items():
            copies = [state.tables[t] for state in updated.values() if t in state.tables]
            hosted[t].store(rows, batch.requests[t], copies)
            hosted[t].change(rows, False)
        # collectives of two steps never wait for each other
        ready = {part: jax.block_until_ready(state) for part, state in updated.items()}
        return {part: _replaced(state, hosted) for part, state in ready.items()}, penalised_loss

    def fetch(
        self, states: Mapping[int, TrainState], batch: MeshBatch
    ) -> tuple[dict[int, TrainState], dict[str, list[Fetched]]]:
        """Return the states as the programs see them, with the requested rows in place of tables on the host; and the places of these rows."""
        hosted = _hosted(states)
        taken: dict[int, dict[str, Table]] = {part: {} for part in states}
        fetched = {t: self.ahead.fetched(t, table, batch.requests[t]) for t, table in hosted.items()}
        for t, table in hosted.items():
            mesh, parts = meshes.rows(self.mesh, self.tables[t]), within(self.tables[t], states)
            for part, rows in zip(parts, split(mesh, P(), table.end(fetched[t], batch.requests[t])), strict=True):
                taken[part][t] = rows
        return {part: _replaced(state, taken[part]) for part, state in states.items()}, fetched

    def _updated(
        self, states: Mapping[int, TrainState], loss: jax.Array, gradients: dict[int, Gradients]
    ) -> tuple[dict[int, TrainState], np.ndarray]:
        """Return the states after the update, and the loss with its penalty."""
        value = np.asarray(loss)
        if self.trainer.l2 or self.trainer.clip:
            counted = self.add({part: own.counted for part, own in gradients.items()})
            gradients = {part: own._replace(counted=counted[part]) for part, own in gradients.items()}
            value = value + np.asarray(next(iter(counted.values())))[0, 0]
        return {part: self.updated[part](states[part], gradients[part]) for part in gradients}, value

    def gradients(self, states: Mapping[int, TrainState], batch: MeshBatch) -> tuple[jax.Array, dict[int, Gradients]]:
        """Return the loss without its penalty, and the gradients with it, for states as `fetch` gives them."""
        loss, weights, rows, head = self._fold(states, batch)
        packed = {p: self.packed[p](weights[p], rows[p]) for p in states}
        sums: dict[int, dict[Group, jax.Array]] = {p: {} for p in states}
        for group, add in self.sums.items():
            for part, total in add({p: packed[p][group] for p in within(group, states)}).items():
                sums[part][group] = total
        ids = {p: {t: local.inputs[t] for t in rows[p] if t in local.inputs} for p, local in batch.parts.items()}
        for t, merge in self.merge.items():
            here = within(self.tables[t], states)
            for part, merged in merge({p: (ids[p][t], rows[p][t]) for p in here}).items():
                ids[part][t], rows[part][t] = merged
        return loss, {
            p: self.settled[p](state, weights[p], rows[p], ids[p], sums[p], head[p]) for p, state in states.items()
        }

    def _fold(
        self, states: Mapping[int, TrainState], batch: MeshBatch
    ) -> tuple[jax.Array, dict[int, Any], dict[int, dict[str, jax.Array]], dict[int, Any]]:
        """Run a step forward and backward: the loss, and per partition the gradients of weights, rows and the conclusion's weights."""
        outcomes, last = dict.fromkeys(states, NOTHING), len(passes(self.models[0])) - 1
        tape: list[tuple[dict[int, Any], Any]] = []
        for number in range(last + 1):
            passed = {p: self._pass(number, p, state, batch, outcomes[p]) for p, state in states.items()}
            outcomes, back = (
                {p: outcome for p, (outcome, _) in passed.items()},
                {p: way for p, (_, way) in passed.items()},
            )
            partials = join(self.mesh, SEEDS, [outcome.partial for outcome in outcomes.values()])
            if number == last:
                tape.append((back, None))
            else:
                combined, way = self.together.combined[number](partials)
                tape.append((back, way))
                totals = self._split(SEEDS, combined)
                outcomes = {p: outcome._replace(partial=totals[p]) for p, outcome in outcomes.items()}
        head = join(self.mesh, P(), [select(state.params, self.head) for state in states.values()])
        own = join(self.mesh, P(DATA), [outcome.own for outcome in outcomes.values()])
        when = self.seed, join(self.mesh, P(), [state.step for state in states.values()])
        loss, head, partials, own = self.together.conclude(head, partials, own, batch.seeds, batch.arrays, when)
        return loss, *self._back(tape, batch, partials, own), self._split(P(), head)

    def _split(self, spec: P, tree: Any) -> dict[int, Any]:
        """Return the parts of a tree on the mesh, by partition."""
        return dict(zip(self.site.parts, split(self.mesh, spec, tree), strict=True))

    def _pass(
        self, number: int, part: int, state: TrainState, batch: MeshBatch, before: PassOutput
    ) -> tuple[PassOutput, Callable[[PassOutput], Any]]:
        rows = {} if number else {t: table.rows for t, table in state.tables.items()}
        static = {} if number else self.static[part]
        when = self.seed, state.step
        return self.local[part].forward(number, state.params, rows, static, batch.parts[part], before, when)

    def _back(
        self, tape: Sequence[tuple[dict[int, Any], Any]], batch: MeshBatch, partials: Any, own: Any
    ) -> tuple[dict[int, Any], dict[int, dict[str, jax.Array]]]:
        """Return the gradients of the partitions' weights and rows, from the gradients at the seeds."""
        below = self._split(P(DATA), own)
        pulled = {p: PassGradients(None, {}, NOTHING._replace(own=below[p])) for p in self.site.parts}
        for back, way in reversed(tape):
            if way is not None:
                totals = join(self.mesh, SEEDS, [so_far.before.partial for so_far in pulled.values()])
                partials = self.together.spread(way, totals)
            partial = self._split(SEEDS, partials)
            for part, so_far in pulled.items():
                gathered, outcome = frozenset(batch.parts[part].inputs), so_far.before._replace(partial=partial[part])
                pulled[part] = self.local[part].pull(gathered, back[part], outcome, so_far.weights)
        return {p: own.weights for p, own in pulled.items()}, {p: dict(own.rows) for p, own in pulled.items()}

    def _pack(self, part: int, weights: Any, rows: Mapping[str, jax.Array]) -> dict[Group, jax.Array]:
        leaves = _leaves(weights, rows)
        return {
            group: pack([leaves[path] for path in shared]) for group, shared in self.replicas.items() if part in group
        }

    def _finish_gradients(
        self,
        part: int,
        state: TrainState,
        weights: Any,
        rows: Mapping[str, jax.Array],
        ids: Mapping[str, Array],
        sums: Mapping[Group, jax.Array],
        head: Any,
    ) -> Gradients:
        leaves = _leaves(weights, rows)
        values = _leaves(state.params, {t: table.rows for t, table in state.tables.items()})
        for group, packed in sums.items():
            shared = self.replicas[group]
            leaves |= zip(shared, unpack(packed, [leaves[path] for path in shared]))
        leaves |= {path: leaves[path] + leaf for path, leaf in flatten_dict(head).items()}
        penalty = jnp.zeros(())
        if self.trainer.l2:
            rows_at = {(ROWS, t): nodes for t, nodes in ids.items()}
            pulled = {path: leaf for path, leaf in values.items() if path[0] == ROWS or self.trainer.penalises(path[1])}
            read = {path: tables.read(leaf, rows_at.get(path)) for path, leaf in pulled.items()}
            pull = self.trainer.penalty_gradient(read)
            leaves |= {path: leaves[path] + leaf for path, leaf in pull.items()}
            penalty = self.trainer.l2 * self._squares(part, read)
        asked = self.trainer.l2 or self.trainer.clip
        counted = jnp.stack([penalty, self._squares(part, leaves) if asked else jnp.zeros(())])[None]
        of_rows = {t: leaves.pop((ROWS, t)) for t in rows}
        return Gradients(unflatten_dict(leaves), of_rows, ids, counted)

    def _squares(self, part: int, leaves: Mapping[tuple, jax.Array]) -> jax.Array:
        """Return the sum of squares of the arrays that no partition before this one has."""
        return squares([leaf for path, leaf in leaves.items() if self.owners[path][0] == part])

    def _update(self, state: TrainState, gradients: Gradients) -> TrainState:
        weights, rows = gradients.weights, gradients.rows
        if self.trainer.clip:
            weights, rows = self.trainer.clipped((weights, rows), gradients.counted[0, 1])
        return self.trainer.update(state, weights, rows, gradients.ids)


def _hosted(states: Mapping[int, TrainState]) -> dict[str, SharedTable]:
    """Return the tables of some states that live on the host."""
    every = (item for state in states.values() for item in state.tables.items())
    return {t: table for t, table in every if isinstance(table, SharedTable)}


def _replaced(state: TrainState, others: Mapping[str, Any]) -> TrainState:
    """Return a state with these tables in place of its own of the same types."""
    return state._replace(tables={t: others.get(t, table) for t, table in state.tables.items()})


def _leaves(weights: Any, rows: Mapping[str, jax.Array]) -> dict[tuple, jax.Array]:
    return flatten_dict(weights) | {(ROWS, t): leaf for t, leaf in rows.items()}
