"""RAF whose partitions divide the columns of their features among their replicas (push-pull within a partition).

The outputs of a pass are the same as without slices: only the first layer's features, their tables and these tables' gradients are sliced.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.kernels.tables import Table
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import BOTH, DATA, FEATURE, RELATION
from hetjax.sharding.push_pull.first import first_layer
from hetjax.sharding.push_pull.slices import joined, sliced
from hetjax.sharding.raf.batches import RafBatches
from hetjax.sharding.raf.engine import ROWS, Gradients, RafEngine
from hetjax.sharding.raf.features import MeshFeatureStore, SharedTable
from hetjax.sharding.raf.kinds import ROWS as SHARED_ROWS
from hetjax.sharding.raf.kinds import WEIGHTS
from hetjax.sharding.raf.programs import LocalPrograms
from hetjax.sharding.raf.replicas import Group, Rows
from hetjax.sharding.raf.site import Site
from hetjax.sharding.strategy import Setup
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import TrainState
from hetjax.system.arrays import Array
from hetjax.system.mapped import on_host

STATE = TrainState._make((P(), P(), P(), P(FEATURE)))
FOUND = Gradients._make((P(), P(FEATURE), P(), P()))


class SlicedRafEngine(RafEngine):
    """The engine of RAF on a mesh `relation` x `data` x `feature`; all devices of a partition are in one process."""

    def __init__(self, setup: Setup, site: Site, batches: RafBatches, features: MeshFeatureStore):
        self.first = first_layer(setup.trainer, site.slices)
        super().__init__(setup, site, batches, features)

    def _given(self, part: int) -> dict[str, jax.Array]:
        return self._sliced(part, self.features.on_device(part))

    def _sliced(self, part: int, rows: Mapping[str, Any]) -> dict[str, Any]:
        return meshes.put(self.site.groups(part), P(FEATURE), sliced(rows, self.site.slices))

    def _folding(self, part: int) -> LocalPrograms:
        return LocalPrograms(self.trainer, self.models[part], self.site.groups(part), self.first)

    def _settling(self, part: int) -> Program:
        finish, groups = functools.partial(self._finish_gradients, part), self.site.groups(part)
        given = STATE, P(), P(FEATURE), P(), P(), P()
        return Program(WEIGHTS, meshes.shard_map(finish, groups, given, FOUND), groups, donate_argnums=(1, 2))

    def _updating(self, part: int) -> Program:
        groups = self.site.groups(part)
        update = meshes.shard_map(self._update, groups, (STATE, FOUND), STATE)
        return Program(WEIGHTS, update, groups, donate_argnums=0)

    def _merging(self, parts: Group, nodes: int) -> Rows:
        return SlicedRows(self.mesh, parts, nodes, self.site.slices)

    def _squares(self, part: int, leaves: Mapping[tuple, jax.Array]) -> jax.Array:
        rows = {path: leaf for path, leaf in leaves.items() if path[0] == ROWS}
        weights = {path: leaf for path, leaf in leaves.items() if path not in rows}
        return super()._squares(part, weights) + jax.lax.psum(super()._squares(part, rows), FEATURE)

    def _placed(
        self, state: TrainState, on_devices: dict[str, Table], hosted: Mapping[str, SharedTable]
    ) -> dict[int, TrainState]:
        states = super()._placed(state, {}, hosted)
        own = {part: {t: of for t, of in on_devices.items() if part in self.tables[t]} for part in states}
        return {part: placed._replace(tables=self._sliced(part, own[part])) for part, placed in states.items()}

    def _joined(self, states: Mapping[int, TrainState]) -> dict[int, TrainState]:
        """Return the states with whole tables, on the host."""
        whole = {}
        for part, state in states.items():
            tables = jax.tree.map(on_host, state.tables)
            whole[part] = state._replace(tables=joined(tables, self.trainer.learnable, self.site.slices))
        return whole

    def gather(self, states: Mapping[int, TrainState]) -> TrainState | None:
        return super().gather(self._joined(states))

    def embed(self, states: Mapping[int, TrainState], nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        return super().embed(self._joined(states), nodes)


class SlicedRows(Rows):
    """The merged gradients of slices of rows, as `Rows`: the devices that have the same slice merge them.

    Args:
      slices: the number of slices.
    """

    def __init__(self, mesh: Mesh, group: Group, nodes: int, slices: int):
        self.mesh, self.nodes, self.slices = meshes.rows(mesh, group), nodes, slices
        devices, every = self.mesh.devices.reshape(len(group), -1, slices), P((RELATION, DATA, FEATURE))
        along = meshes.named(devices, (RELATION, DATA, FEATURE))
        merged = meshes.shard_map(self._merge, along, (every, every), (P(), P(FEATURE)))
        self.run = Program(SHARED_ROWS, merged, along)

    def __call__(self, trees: Mapping[int, tuple[Array, jax.Array]]) -> dict[int, tuple[jax.Array, jax.Array]]:
        ids, sums = self.run(*meshes.join(self.mesh, P(BOTH), list(trees.values())))
        own = zip(meshes.split(self.mesh, P(), ids), meshes.rows_here(self.mesh), strict=True)
        return {part: (mine, self._of_row(number, sums)) for part, (mine, number) in zip(trees, own, strict=True)}

    def _of_row(self, number: int, sums: jax.Array) -> jax.Array:
        """Return the sums on the devices of one partition, `[slices * rows, columns of a slice]`."""
        groups = meshes.grouped(meshes.row(self.mesh, number), self.slices)
        data = {shard.device: shard.data for shard in sums.addressable_shards}
        shards = [data[device] for device in groups.devices.flat]
        return jax.make_array_from_single_device_arrays(sums.shape, NamedSharding(groups, P(FEATURE)), shards)
