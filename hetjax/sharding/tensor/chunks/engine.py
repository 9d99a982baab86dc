"""The engine of tensor parallelism in chunks: arrays as large as the graph stay on the host."""

import shutil
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from hetjax.kernels.tables import Table
from hetjax.partition.owned import Owned
from hetjax.sharding import mesh as meshes
from hetjax.sharding.gathered import whole_tables
from hetjax.sharding.spmd import replicate
from hetjax.sharding.strategy import Engine, Setup
from hetjax.sharding.tensor.chunks.back import Run
from hetjax.sharding.tensor.chunks.batches import ChunkedBatches
from hetjax.sharding.tensor.chunks.by_rows import ByRows
from hetjax.sharding.tensor.chunks.host import Columns, Repeated, Rows, zeros
from hetjax.sharding.tensor.chunks.layers import Coupled, Read, Round
from hetjax.sharding.tensor.chunks.plan import FEWEST, Plan, sendings
from hetjax.sharding.tensor.chunks.programs import Drawn, Programs, part_of
from hetjax.sharding.tensor.chunks.runs import Given, Kept
from hetjax.sharding.traffic import Sent, per_step
from hetjax.sharding.trainer import TrainState
from hetjax.system.eager import eagerly


class ChunkedEngine(Engine):
    """Training in chunks on a mesh of devices that divide the columns.

    A state is a `TrainState` whose weights are on every device, and whose tables are on the host, each device's own rows.

    Args:
      setup: the setup of the run.
      mesh: the mesh with the axis `feature`.
      plan: the chunks of every type.
      pipelined: whether the data of one chunk travel while another is aggregated.
      pinned: whether the chunks' edges wait in pinned memory; by default, of accelerators.
    """

    def __init__(self, setup: Setup, mesh: Mesh, plan: Plan, pipelined: bool = True, pinned: bool | None = None):
        nodes, self.mesh, self.plan, self.pipelined = setup.graph.schema.nodes, mesh, plan, pipelined
        self.owned = Owned({t: np.arange(count) % mesh.size for t, count in nodes.items()}, mesh.size)
        self.places = meshes.positions_here(mesh)
        batches = ChunkedBatches(setup, self.owned)
        super().__init__(setup, batches)
        self.by_rows = ByRows(setup, mesh, self.owned, batches, plan.share)
        self.folder, model = setup.folder and setup.folder / "tables", self.trainer.model
        self.enters = bool(model.transforms or model.input_dropout)
        still = frozenset() if self.enters else frozenset(t for t in self.trainer.widths if t in setup.graph.features)
        kind = Round if model.decoupled else Coupled
        self.layers = [
            kind(model, depth, setup.graph, mesh.size, frozenset() if depth else still)
            for depth in range(len(model.layers))
        ]
        self.programs = [Programs(self.trainer, layer, mesh) for layer in self.layers]
        self.chunks = {t: list(plan.chunks(t)) for t in plan.into}
        self.static = {
            t: self._own(t, setup.graph.features[t]) for t in self.trainer.widths if t in setup.graph.features
        }
        accelerated = mesh.devices.flat[0].platform != "cpu"
        self.edges = Repeated(mesh, accelerated if pinned is None else pinned)
        self.runs: list[Run] = []
        self.steps = 0

    def _own(self, t: str, matrix: Any) -> Rows:
        rows = [self.owned.take(t, np.asarray(matrix), place) for place in self.places]
        return rows if np.issubdtype(rows[0].dtype, np.floating) else [x.astype(np.float32) for x in rows]

    def init(self, seed: int) -> TrainState:
        return self.shard(eagerly(self.trainer.init, np.int32(seed)))

    def shard(self, state: TrainState) -> TrainState:
        held = {
            t: [Table(*(self.owned.take(t, np.asarray(leaf), place) for leaf in table)) for place in self.places]
            for t, table in state.tables.items()
        }
        return replicate(self.mesh, state._replace(tables={}))._replace(tables=held)

    def gather(self, state: TrainState) -> TrainState | None:
        own = {t: dict(zip(self.places, held)) for t, held in state.tables.items()}
        processes = self.setup.processes
        whole = whole_tables(own, self.owned, processes, self.folder if processes.count > 1 else None)
        return None if whole is None else jax.tree.map(np.asarray, state._replace(tables={}))._replace(tables=whole)

    def details(self) -> dict[str, Any]:
        sizes = {t: of.chunks for t, of in self.plan.sizes.items()}
        return {"chunks": sizes, "pipelined": self.pipelined}

    def close(self) -> None:
        if self.folder and self.setup.processes.first:
            shutil.rmtree(self.folder, ignore_errors=True)

    def step(self, state: TrainState, batch: np.float32, upcoming: Any = None) -> tuple[TrainState, Any]:
        self.steps += 1
        losses, weights, rows = self._gradients(state, batch)
        loss, gradients = self.by_rows.updates.total(weights, state.params, losses)
        squared, penalty = self.by_rows.measured(state.tables, rows)
        alone, now = state._replace(tables={}), np.asarray(state.step)  # the program of the weights takes their memory
        trained, of_all, loss = self.by_rows.updates.weights(
            alone, gradients, loss, np.asarray(squared, loss.dtype), np.asarray(penalty, loss.dtype)
        )
        held = {t: self.by_rows.moved(t, table, rows[t], now, of_all) for t, table in state.tables.items()}
        return trained._replace(tables=held), jax.block_until_ready(loss)

    def embed(self, state: TrainState, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        x = self._forward(state, False)[0]
        every = {t: self.by_rows.whole(t, x[t]) for t in sorted(nodes)}
        first = self.setup.processes.first
        return {t: np.asarray(every[t][ids], np.float32) for t, ids in nodes.items()} if first else None

    def traffic(self) -> list[Sent]:
        programs = [program for of in self.programs for program in of.all]
        return per_step([*programs, *self.by_rows.all], max(1, self.steps))

    # The way there and back.

    def given(self, state: TrainState, depth: int, training: bool) -> Given:
        """Return the inputs that the programs of a layer share."""
        part = part_of(state.params, lambda name: name == f"layers_{depth}")
        return Given(part, Drawn(self.seed, state.step), training)

    def _forward(self, state: TrainState, training: bool) -> tuple[dict[str, Rows], list[Kept], dict[str, Rows]]:
        """Return the root types' last embeddings, the residuals of the backward pass, and the features."""
        learned = {t: [table.rows for table in held] for t, held in state.tables.items()}
        features = {**self.static, **learned}
        x: dict[str, Rows] = self.by_rows.entered(state, features, training) if self.enters else features
        self.prepare(state)
        columns: dict[str, Columns] = {}
        kept = []
        for depth, run in enumerate(self.runs):
            x, columns, of_layer = run.forward(self.given(state, depth, training), x, columns)
            kept.append(of_layer)
        return x, kept, features

    def dtype_of(self, t: str, state: TrainState) -> Any:
        """Return the dtype of a type's features."""
        return self.static[t][0].dtype if t in self.static else self.floats(state)

    def floats(self, state: TrainState) -> Any:
        """Return the dtype of embeddings."""
        return np.dtype(jnp.result_type(jnp.float32, *(leaf.dtype for leaf in jax.tree.leaves(state.params))))

    def prepare(self, state: TrainState) -> None:
        """Find out what layers read, and so in which order nodes are sent; shapes of the state suffice."""
        matrices = self.trainer.model.transforms  # without which what enters are the features, dropped at most
        dtypes = {t: self.floats(state) if matrices else self.dtype_of(t, state) for t in self.trainer.widths}
        if self.runs and self.layers[0].dtypes == dtypes:
            return
        self.runs = []
        nodes = self.setup.graph.schema.nodes
        made: dict[str, Any] = {}
        for depth, (layer, programs) in enumerate(zip(self.layers, self.programs)):
            given = self.given(state, depth, True)
            layer.dtypes = dict(dtypes)
            slots: dict[str, Any] = {}
            for t in layer.widths if layer.sends else ():
                rows = jax.ShapeDtypeStruct((FEWEST * self.mesh.size, layer.widths[t]), dtypes[t])
                slots[t] = programs.send.jitted.eval_shape(True, t, given.params, given.drawn, rows)
            chunks = [chunk for t in layer.targets for chunk in self.chunks[t]]
            order, most = sendings(nodes, self.mesh.size, chunks, layer.asked) if layer.sends else ([], {})
            slots = slots if layer.sends else made
            self.runs.append(Run(programs, chunks, order, most, slots, nodes, self.edges, self.pipelined))
            if not layer.finishes:
                made = {t: self._made(depth, t, slots, given) for t in layer.targets}
            dtypes = dict.fromkeys(layer.targets, self.floats(state))

    def _made(self, depth: int, t: str, slots: Any, given: Given) -> list[Any]:
        """Return the shapes of the columns that a round makes."""
        layer, parts, chunk = self.layers[depth], self.mesh.size, next(iter(self.chunks[t]))
        of_sources, own = layer.wants(t)

        def columns(s: str, places: list[int], rows: int) -> dict[int, Any]:
            return {i: jax.ShapeDtypeStruct((parts * rows, *slots[s][i].shape[1:]), slots[s][i].dtype) for i in places}

        sources = {s: columns(s, of, len(chunk.sources[s])) for s, of in of_sources.items()}
        read, edges = Read(sources, columns(t, own, len(chunk.ids))), jax.tree.map(jnp.asarray, chunk.edges)
        found = self.programs[depth].fold.jitted.eval_shape(True, t, given.params, given.drawn, read, edges)
        return [found[""][0].columns[0]]

    def _gradients(self, state: TrainState, weight: np.float32) -> tuple[Any, list[Any], dict[str, Rows]]:
        """Return each device's share of the loss, its parts of the gradients of weights, and the gradients of its tables' rows."""
        x, kept, features = self._forward(state, True)
        head, (losses, gradients) = self.by_rows.loss(state, weight, {t: x[t] for t in self.trainer.model.roots})
        weights = [head]
        columns: dict[str, Columns] = {}
        for depth in reversed(range(len(self.runs))):
            given = self.given(state, depth, True)
            sums = {stage: zeros(self.mesh, given.params) for stage in ("send", "fold", "finish")}
            gradients, columns = self.runs[depth].backward(given, kept.pop(), gradients, columns, sums)
            weights += sums.values()
        if self.enters:
            entry, gradients = self.by_rows.entered_back(state, features, gradients)
            weights.append(entry)
        nothing = {t: [np.zeros_like(table.rows) for table in held] for t, held in state.tables.items()}
        return losses, weights, {t: gradients.get(t, nothing[t]) for t in state.tables}
