"""The engine of model averaging: the plain path for every partition, and now and then the average (CATGNN, section 3.3).

Between two averages partitions send nothing. A device has its first partition's state and features for good if that is its only
one; if it has several, those of the one whose turn it is, and the host has the others'.

The average of the local models is evaluated, and is the state in a checkpoint. A checkpoint between two averages
also has the local ones, so that the run goes on with the same bits; in another division of the graph it goes on from the average.
"""

import shutil
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from hetjax.checkpoints.checkpoint import Checkpoint
from hetjax.checkpoints.progress import Progress
from hetjax.kernels.tables import Table
from hetjax.partition import EdgeCut
from hetjax.partition.owned import Owned
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.averaging.average import Averages, Local
from hetjax.sharding.averaging.batches import AveragingBatches, Turn
from hetjax.sharding.averaging.rows import drawn, own_rows
from hetjax.sharding.dependency.evaluate import DependencyEvaluator
from hetjax.sharding.dependency.groups import grouped
from hetjax.sharding.gathered import whole_tables
from hetjax.sharding.spmd import replicate
from hetjax.sharding.strategy import Engine, Setup
from hetjax.sharding.traffic import Sent, per_step
from hetjax.sharding.trainer import TrainState
from hetjax.system.arrays import Array
from hetjax.system.eager import eagerly
from hetjax.system.mapped import gather, on_host

Locals = dict[int, Local]  # by partition


class AveragingState(NamedTuple):
    """The state of the partitions that are here, after so many steps of the run."""

    step: int
    parts: Locals


class Whole(NamedTuple):
    """The state that a checkpoint holds: a `TrainState`, and in `own` the states of all partitions where they differ from it."""

    step: Array
    params: Any
    optimizer: Any
    tables: Any
    own: Any


class AveragingEngine(Engine):
    """The engine that trains partitions on their own.

    Args:
      setup, batches: as in `Engine`.
      cut: the partition that trains each node.
      mesh: the mesh, with the axis `data`.
      averages: the programs that average.
      every: the number of epochs from one average to the next.
      about: the summary's entries about every partition.
    """

    batches: AveragingBatches

    def __init__(
        self,
        setup: Setup,
        batches: AveragingBatches,
        cut: EdgeCut,
        mesh: Mesh,
        averages: Averages,
        every: int,
        about: list[dict],
    ):
        super().__init__(setup, batches)
        self.same_losses = setup.processes.count == 1
        self.members, self.turns, self.seated = batches.members, batches.turns, batches.seated
        self.cut, self.mesh, self.averages, self.about = cut, mesh, averages, about
        self.interval, self.steps = every * self.turns.epoch, 0
        self.last: Array = np.zeros(())
        self.viewed: tuple[AveragingState, Locals] | None = None
        self.present: dict[int, int] = {}  # of every device the partition that is there
        self.owned = Owned({t: of % self.turns.devices for t, of in cut.nodes.items()}, self.turns.devices)

    def init(self, seed: int) -> AveragingState:
        key = eagerly(self.trainer.table_key, np.int32(seed))
        held = drawn(key, self.trainer.learnable, self.members)
        return self._placed(0, eagerly(self.init_weights, np.int32(seed)), held)

    def shard(self, state: TrainState) -> AveragingState:
        held = {
            part: {
                t: jax.tree.map(lambda leaf: gather(leaf, member.sub.nodes[t]), of) for t, of in state.tables.items()
            }
            for part, member in self.members.items()
        }
        return self._placed(int(state.step), state, held)

    def _placed(self, step: int, state: TrainState, held: Mapping[int, dict[str, Table]]) -> AveragingState:
        """Return local states that are all the same."""
        made = {}
        for part, own in held.items():
            done = np.array(self.turns.done(part, step), np.int32)
            params = jax.tree.map(np.asarray, state.params)
            optimizer = jax.tree.map(lambda leaf: _counted(leaf, done), state.optimizer)
            made[part] = Local(TrainState(done, params, optimizer, own), {t: of.count for t, of in own.items()})
        return self._begun(step, made)

    def _begun(self, step: int, made: Locals) -> AveragingState:
        """Return the state of a run after `step` steps from local states on the host, which move to the devices if they stay there."""
        for part in self.present.values():
            self.members[part].leave()
        self.present = {}
        return AveragingState(step, {p: self._there(p, of) if self.seated else of for p, of in made.items()})

    def _there(self, part: int, local: Local) -> Local:
        """Put a state on the partition's device; no array that is donated here is used elsewhere."""
        device = self.members[part].device
        placed = jax.tree.map(lambda leaf: jax.device_put(np.array(leaf), device), local.state)
        return Local(placed, local.begun)

    def step(
        self, state: AveragingState, batch: Mapping[int, Turn], upcoming: Any = None
    ) -> tuple[AveragingState, Array]:
        self.viewed, parts, losses = None, dict(state.parts), {}
        for part, turn in batch.items():
            self._seat(parts, part)
            member, local = self.members[part], parts[part]
            trained, losses[part] = member.engine.step(local.state, jax.device_put(turn.batch, member.device))
            parts[part] = local._replace(state=trained)
        jax.block_until_ready([parts[part].state for part in losses])  # a collective finds its devices free
        step, self.steps = state.step + 1, self.steps + 1
        if step % self.interval == 0:
            parts = self._averaged(parts)
        seeds = sum(turn.seeds for turn in batch.values())
        if len(losses) == 1:
            self.last = next(iter(losses.values()))
        elif losses:
            self.last = np.array(sum(float(loss) * batch[part].seeds for part, loss in losses.items()) / seeds)
        return AveragingState(step, parts), self.last

    def _seat(self, parts: Locals, part: int) -> None:
        """Bring a partition to its device, in place of the one that is there."""
        device = part % self.turns.devices
        before = self.present.get(device)
        if self.seated or before == part:
            return
        if before is not None:
            self._away(parts, before)
        self.members[part].enter()
        parts[part], self.present[device] = self._there(part, parts[part]), part

    def _away(self, parts: Locals, part: int) -> None:
        parts[part] = parts[part]._replace(state=jax.tree.map(np.array, parts[part].state))
        self.members[part].leave()
        del self.present[part % self.turns.devices]

    def _averaged(self, parts: Locals) -> Locals:
        """Return the states with which partitions continue; the arguments are unchanged, except for where they lie."""
        sums: dict[int, Any] = {}
        for part in sorted(parts):
            self._seat(parts, part)
            device = part % self.turns.devices
            sums[device] = self.averages.part(sums.get(device), part, parts[part])
        totals, made = self.averages.totals(jax.block_until_ready(sums)), dict(parts)
        for part in sorted(parts):
            self._seat(made, part)
            made[part] = self.averages.averaged(part, made[part], totals[part % self.turns.devices])
        return jax.block_until_ready(made)

    def _view(self, state: AveragingState) -> Locals:
        """Return the local states as an average would leave them; computed once for all callers before the next step."""
        if state.step % self.interval == 0:
            return state.parts
        if self.viewed is None or self.viewed[0] is not state:
            self.viewed = state, self._averaged(dict(state.parts))
        return self.viewed[1]

    def gather(self, state: AveragingState) -> Any:
        processes, view = self.setup.processes, self._view(state)
        first, held = next(iter(view.values())).state, own_rows(view, self.trainer.learnable, self.members, self.turns)
        folder = self.setup.whole_tables if processes.count > 1 else None
        whole = whole_tables(held, self.owned, processes, folder)
        kept = state.step % self.interval or not self.averages.moments
        own = processes.gather("local states", self._named(state.parts)) if kept else None
        if whole is None:
            return None
        params, optimizer = jax.tree.map(np.asarray, (first.params, first.optimizer))
        step = np.array(state.step, np.int32)
        return Whole(step, params, optimizer, whole, own) if kept else TrainState(step, params, optimizer, whole)

    def _named(self, parts: Locals) -> dict[str, np.ndarray]:
        """Return the arrays of local states by names that are theirs alone, in this division of the graph."""
        named: dict[str, np.ndarray] = {}
        for part, local in parts.items():
            leaves = jax.tree.leaves((local.state.params, local.state.optimizer, local.state.tables, local.begun))
            named |= {f"{self.cut.digest[:12]} {part} {n}": np.atleast_1d(leaf) for n, leaf in enumerate(leaves)}
        return named

    def restored(self, checkpoint: Checkpoint) -> AveragingState:
        state = super().restored(checkpoint)
        found = checkpoint.own(self._named(state.parts))
        if found is None:
            return state
        made = {}
        for part, (plain, begun) in state.parts.items():
            leaves, form = jax.tree.flatten((plain.params, plain.optimizer, plain.tables, begun))
            arrays = [np.array(found[name]) for name in self._named({part: Local(plain, begun)})]
            shaped = [array.reshape(np.shape(leaf)) for array, leaf in zip(arrays, leaves, strict=True)]
            params, optimizer, held, begun = jax.tree.unflatten(form, shaped)
            made[part] = Local(TrainState(np.asarray(plain.step), params, optimizer, held), begun)
        return self._begun(state.step, made)

    def embed(self, state: AveragingState, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        view = self._view(state)
        held = own_rows(view, self.trainer.learnable, self.members, self.turns)
        devices = sorted({part % self.turns.devices for part in view})
        learned = {device: {t: on_host(of[device].rows) for t, of in held.items()} for device in devices}
        params = replicate(self.mesh, next(iter(view.values())).state.params)
        found = self.evaluation.embed(params, learned, nodes)
        return found if self.setup.processes.first else None

    def params(self, state: AveragingState) -> Any:
        return next(iter(self._view(state).values())).state.params

    @cached_property
    def evaluation(self) -> DependencyEvaluator:
        """Evaluate on all devices, each of which evaluates the nodes that its partitions own."""
        setup, model = self.setup, self.trainer.model
        sampler = Sampler(setup.graph, frozenset(), setup.flowing, model.reads_own, model.drops)
        edges = setup.config.sampling.evaluation_edges
        return DependencyEvaluator(model, sampler, self.owned, self.mesh, grouped(setup, True), edges)

    def tell_progress(self, progress: Progress) -> None:
        mine = [progress.loss_sum, progress.nodes, self.batches.known()]
        every = self.setup.processes.all_gather("progress", mine)
        first = self.setup.processes.first
        progress.loss_sum, progress.nodes = (sum(one[n] for one in every) if first else 0 for n in range(2))
        progress.capacities = {name: size for one in every for name, size in one[2].items()}

    def traffic(self) -> list[Sent]:
        return per_step([self.averages.total], max(1, self.steps))

    def close(self) -> None:
        if self.setup.tables:
            shutil.rmtree(self.setup.tables, ignore_errors=True)

    def details(self) -> dict[str, Any]:
        nodes = sum(self.setup.graph.schema.nodes.values())
        return {"partitions": self.about, "replication_factor": sum(row["nodes"] for row in self.about) / nodes}


def _counted(leaf: Any, steps: np.ndarray) -> np.ndarray:
    """Return a leaf of an optimizer's state; a step counter gets the count of the partition."""
    return np.asarray(leaf) if np.ndim(leaf) else steps.astype(np.asarray(leaf).dtype)
