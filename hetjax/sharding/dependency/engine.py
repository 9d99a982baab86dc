"""The engine of dependency management: data parallel over partitions of the nodes.

A partition is a device of the mesh axis `data`. Rows of tables and static features lie with the nodes' masters. Before every
layer a partition fetches the rows that it reads and does not have; their gradients come back the same way and are summed by
the masters, who apply row-wise Adam. All else that crosses the mesh is one sum of the weights' gradients and the loss.
"""

import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.partition import EdgeCut
from hetjax.sampling.blocks import pad
from hetjax.sharding.dependency.batches import DependencyBatches
from hetjax.sharding.dependency.evaluate import DependencyEvaluator
from hetjax.sharding.dependency.exchange import Fetch
from hetjax.sharding.dependency.gathered import local_rows, whole_tables
from hetjax.sharding.dependency.groups import grouped
from hetjax.sharding.dependency.prices import Prices, seconds
from hetjax.sharding.dependency.work import described
from hetjax.sharding.mesh import DATA, from_shards, positions_here
from hetjax.sharding.spmd import SpmdBatch, SpmdEngine, replicate
from hetjax.sharding.strategy import Setup
from hetjax.sharding.trainer import Rows, TrainState


class DependencyEngine(SpmdEngine):
    """Training on a mesh of one device per partition.

    Args:
      setup, batches: as in `Engine`.
      cut: who owns which node.
      mesh: with the axis `data`.
      prices: by which a hybrid of them was chosen.
    """

    rows_spec = P(DATA)

    def __init__(
        self, setup: Setup, batches: DependencyBatches, cut: EdgeCut, mesh: Mesh, prices: Prices | None = None
    ):
        graph, widths, self.owned = setup.graph, setup.trainer.widths, cut.owned
        residents = batches.residents([t for t in widths if t in graph.features])
        self.groups, self.prices = batches.groups, prices
        self.gathered = setup.folder and setup.folder / "tables"  # files by which processes give rows to process 0
        size = {t: max(1, *(len(ids[t]) for ids in residents)) for t in residents[0]}

        def static(part: int) -> dict[str, np.ndarray]:
            return {t: np.asarray(pad(graph.features[t][ids], size[t], 0)) for t, ids in residents[part].items()}

        super().__init__(setup, batches, mesh, from_shards(mesh, [static(part) for part in positions_here(mesh)]))

    def shard(self, state: TrainState) -> TrainState:
        state = jax.tree.map(np.asarray, state)
        alike = replicate(self.mesh, state._replace(tables={}))
        own = [self._own(state.tables, part) for part in positions_here(self.mesh)]
        return alike._replace(tables=from_shards(self.mesh, own))

    def _own(self, tables: Mapping[str, Any], part: int) -> dict[str, Any]:
        return {t: jax.tree.map(lambda leaf: self.owned.take(t, leaf, part), table) for t, table in tables.items()}

    def gather(self, state: TrainState) -> TrainState | None:
        processes = self.setup.processes
        tables = whole_tables(state.tables, self.owned, self.mesh, processes, self.gathered)
        return None if tables is None else jax.tree.map(np.asarray, state._replace(tables={}))._replace(tables=tables)

    def close(self) -> None:
        if self.gathered and self.setup.processes.first:
            shutil.rmtree(self.gathered, ignore_errors=True)

    def read(self, state: TrainState, static: Any, batch: SpmdBatch) -> tuple[dict, dict, Any]:
        return static, self.trainer.read(state.tables, batch.rows[0]), None

    def exchanges(self, batch: SpmdBatch) -> Sequence[Fetch]:
        return [Fetch(fetched, groups) for fetched, groups in zip(batch.rows[1], self.groups)]

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        return dict(gradients), {t: ids for t, ids in batch.rows[0].items() if t in gradients}

    def over_rows(self, value: jax.Array) -> jax.Array:
        return jax.lax.psum(value, DATA)

    def logits(self, state: TrainState, ids: np.ndarray) -> np.ndarray | None:
        own = {t: local_rows(self.mesh, table.rows) for t, table in state.tables.items()}
        here = {part: {t: rows[part] for t, rows in own.items()} for part in positions_here(self.mesh)}
        found = self.evaluation.logits(state.params, here, ids)
        return found if self.setup.processes.first else None

    @cached_property
    def evaluation(self) -> DependencyEvaluator:
        """By all partitions."""
        batches, model, sampling = self.batches, self.trainer.model, self.setup.config.sampling
        assert isinstance(batches, DependencyBatches)
        groups = grouped(self.setup, True)
        return DependencyEvaluator(model, batches.sampler, self.owned, self.mesh, groups, sampling.evaluation_edges)

    def details(self) -> dict[str, Any]:
        batches = self.batches
        assert isinstance(batches, DependencyBatches)
        steps, found = max(1, batches.sent), {}
        if self.prices:
            schema = batches.graph.schema
            predicted = seconds(batches.done, self.prices, list(schema.nodes), list(batches.graph.relations))
            found["predicted_milliseconds"] = {
                n: round(1000 * float(of.max()) / steps, 4) for n, of in predicted.items()
            }
        return found | {"layers": described(batches.done, steps), "rows_with_padding": batches.padded}
