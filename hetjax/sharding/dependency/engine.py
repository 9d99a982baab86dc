"""The engine of dependency management: data parallel over partitions of the nodes.

A partition is a device of the mesh axis `data`. Rows of tables and static features lie with the nodes' masters, on their device
or on its host, which gives a step the rows that it reads and takes them back. Before every layer a partition fetches the rows that it reads and does not have; their gradients come back the same way and are summed by
the masters, who apply row-wise Adam. All other traffic on the mesh is one sum of the weights' gradients and the loss.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.cache.ahead import Ahead
from hetjax.cache.features import parts
from hetjax.kernels import tables
from hetjax.kernels.tables import Table
from hetjax.partition import EdgeCut
from hetjax.sampling.blocks import pad
from hetjax.sharding.dependency.batches import DependencyBatches
from hetjax.sharding.dependency.evaluate import DependencyEvaluator
from hetjax.sharding.dependency.exchange import Fetch
from hetjax.sharding.dependency.features import OwnedTable, PartitionFeatures
from hetjax.sharding.dependency.groups import grouped
from hetjax.sharding.dependency.prices import Prices, kept_bytes, seconds
from hetjax.sharding.dependency.work import described
from hetjax.sharding.gathered import Own, whole_tables
from hetjax.sharding.mesh import DATA, from_shards, positions_here, shards
from hetjax.sharding.spmd import Found, SpmdBatch, SpmdEngine, replicate
from hetjax.sharding.strategy import Setup
from hetjax.sharding.trainer import Rows, TrainState
from hetjax.system.eager import eagerly
from hetjax.system.mapped import on_host


class DependencyEngine(SpmdEngine):
    """Training on a mesh of one device per partition, by `DependencyBatch`es; a state has an `OwnedTable` for each table on the host.

    Args:
      setup, batches: as in `Engine`.
      cut: the owner of each node.
      mesh: the mesh with the axis `data`.
      prices: the prices that count what is kept, and by which a hybrid was chosen.
      costs: the origin of the costs by which a hybrid was chosen, "measured" or "reckoned"; empty if none was chosen.
    """

    rows_spec = P(DATA)

    def __init__(
        self,
        setup: Setup,
        batches: DependencyBatches,
        cut: EdgeCut,
        mesh: Mesh,
        prices: Prices,
        costs: str = "",
    ):
        graph, features, self.owned = setup.graph, batches.features, cut.owned
        residents = batches.residents(
            [t for t in setup.trainer.widths if t in graph.features.keys() & features.on_device]
        )
        self.groups, self.prices, self.costs, self.ahead = batches.groups, prices, costs, Ahead()
        least = 0 if setup.regime.whole else 1  # of the whole graph these are the rows here, which capacities count
        size = {t: max(least, *(len(ids[t]) for ids in residents)) for t in residents[0]}

        def static(part: int) -> dict[str, np.ndarray]:
            return {t: np.asarray(pad(graph.features[t][ids], size[t], 0)) for t, ids in residents[part].items()}

        super().__init__(setup, batches, mesh, from_shards(mesh, [static(part) for part in positions_here(mesh)]))
        self.features: PartitionFeatures = features

    def init(self, seed: int) -> TrainState:
        weights, key = eagerly(self.init_weights, np.int32(seed)), eagerly(self.trainer.table_key, np.int32(seed))
        shapes = self.trainer.learnable
        return self._placed(weights, {t: tables.in_parts(key, t, shape) for t, shape in shapes.items()})

    def shard(self, state: TrainState) -> TrainState:
        return self._placed(state._replace(tables={}), {t: parts(table) for t, table in state.tables.items()})

    def _placed(self, state: TrainState, pieces: Mapping[str, Iterable[Table]]) -> TrainState:
        self.ahead = Ahead()
        return replicate(self.mesh, state)._replace(tables=self.features.load(pieces))

    def gather(self, state: TrainState) -> TrainState | None:
        processes, folder = self.setup.processes, self.setup.whole_tables
        if processes.count == 1 and not self.features.held:
            folder = None  # what devices have, one process may have too
        whole = whole_tables(self._own(state), self.owned, processes, folder)
        return None if whole is None else jax.tree.map(np.asarray, state._replace(tables={}))._replace(tables=whole)

    def _own(self, state: TrainState) -> Own:
        """Return the rows of every partition of this process."""
        held = state.tables.items()
        return {t: of.parts() if isinstance(of, OwnedTable) else shards(self.mesh, of) for t, of in held}

    def step(self, state: TrainState, batch: Any, upcoming: Any = None) -> tuple[TrainState, jax.Array]:
        hosted, requests = self.features.held, batch.requests
        fetched = {t: self.ahead.fetched(t, table, requests[t]) for t, table in hosted.items()}
        read = state._replace(tables=state.tables | {t: table.end(fetched[t]) for t, table in hosted.items()})
        for t, table in hosted.items():
            table.change(fetched[t], True)
        if upcoming is not None and self.setup.config.cache.prefetch:
            self.ahead.begin(hosted, upcoming.requests)
        made, loss = self.updated(read, self.static, batch.program, self.seed)
        self.ahead.wait()
        for t, table in hosted.items():
            table.store(fetched[t], made.tables[t])
            table.change(fetched[t], False)
        made, loss = jax.block_until_ready((made, loss))  # collectives of two steps never wait for each other
        return made._replace(tables=made.tables | hosted), loss

    def gradients(self, state: TrainState, batch: Any) -> tuple[jax.Array, Found]:
        rows = {t: table.end(table.begin(batch.requests[t])) for t, table in self.features.held.items()}
        return super().gradients(state._replace(tables=state.tables | rows), batch.program)

    def read(self, state: TrainState, static: Any, batch: SpmdBatch) -> tuple[dict, dict, Any]:
        return static, self.trainer.read(state.tables, batch.rows[0]), None

    def exchanges(self, batch: SpmdBatch) -> Sequence[Fetch]:
        return [Fetch(fetched, groups) for fetched, groups in zip(batch.rows[1], self.groups)]

    def give_back(self, state: TrainState, gradients: Rows, batch: SpmdBatch, kept: Any) -> tuple[dict, dict]:
        return dict(gradients), {t: ids for t, ids in batch.rows[0].items() if t in gradients}

    def over_rows(self, value: jax.Array) -> jax.Array:
        return jax.lax.psum(value, DATA)

    def embed(self, state: TrainState, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        own = self._own(state)
        learned = {part: {t: on_host(of[part].rows) for t, of in own.items()} for part in self.features.here}
        found = self.evaluation.embed(state.params, learned, nodes)
        return found if self.setup.processes.first else None

    @cached_property
    def evaluation(self) -> DependencyEvaluator:
        """Evaluate on all partitions."""
        batches, model, sampling = self.batches, self.trainer.model, self.setup.config.sampling
        assert isinstance(batches, DependencyBatches)
        groups = grouped(self.setup, True)
        return DependencyEvaluator(model, batches.sampler, self.owned, self.mesh, groups, sampling.evaluation_edges)

    def details(self) -> dict[str, Any]:
        batches = self.batches
        assert isinstance(batches, DependencyBatches)
        steps, found, types = max(1, batches.sent), dict[str, Any](), list(batches.graph.schema.nodes)
        if self.setup.regime.whole and batches.sent:
            found["kept_bytes"] = round(float(kept_bytes(batches.done, self.prices, types).max()) / steps)
        if self.costs:
            found["costs"] = self.costs
            predicted = seconds(batches.done, self.prices, types, list(batches.graph.relations))
            found["predicted_milliseconds"] = {
                n: round(1000 * float(of.max()) / steps, 4) for n, of in predicted.items()
            }
        return found | {"layers": described(batches.done, steps), "rows_with_padding": batches.padded}
