"""Features where nodes are divided: every partition has the rows of its own nodes, on its device or on its host.

A device is given the rows of a type on the host that a step reads, and keeps those that are read most often. They are
the whole table that the step's program sees; it computes the same, to the last bit, wherever features live.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import FeatureStore, Key, write
from hetjax.cache.host import Fetched, HostMatrix, HostTable
from hetjax.cache.placement import RowCounts, row_bytes
from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels.tables import Shape, Table
from hetjax.options.config import Place
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import pad
from hetjax.sharding.mesh import DATA, from_shards, join, positions_here, shards
from hetjax.system.mapped import on_host


class OwnedTable:
    """A learnable table on the host: the own rows of each partition that is here, some of them cached on its device.

    Args:
      owners: the tables of the owners, by partition.
      mesh: the mesh with the axis `data`, a device per partition.
    """

    def __init__(self, owners: Mapping[int, HostTable], mesh: Mesh):
        self.owners, self.mesh = owners, mesh

    def begin(self, request: Mapping[int, np.ndarray]) -> dict[int, Fetched]:
        """Begin a step in every partition, as `HostTable.begin`."""
        return {part: owner.begin(request[part]) for part, owner in self.owners.items()}

    def end(self, fetched: Mapping[int, Fetched]) -> Table:
        """Return the rows of a step on the mesh, in the order in which every partition requested them."""
        return join(self.mesh, P(DATA), [owner.end(fetched[part]) for part, owner in self.owners.items()])

    def change(self, fetched: Mapping[int, Fetched], about: bool) -> None:
        """Say that a step is about to change these rows, or has."""
        for part, owner in self.owners.items():
            owner.change(fetched[part], about)

    def store(self, fetched: Mapping[int, Fetched], made: Table) -> None:
        """Write a step's rows, as `end` gave them, to where they came from."""
        rows = shards(self.mesh, made)
        for part, owner in self.owners.items():
            owner.store(fetched[part], rows[part])

    def parts(self) -> dict[int, Table]:
        """The partitions' own rows, one array for each partition of this process, after rows on the device were written back; nothing is copied."""
        return {part: owner.table() for part, owner in self.owners.items()}


class PartitionFeatures(FeatureStore):
    """The features of the partitions that are here, each of its own nodes.

    Static features that do not live on the devices stay in the graph's arrays.

    Args:
      graph: the graph with the static features.
      owned: the owner of each node.
      mesh: the mesh with the axis `data`, a device per partition.
      learnable, placement, folder: as in `FeatureStore`, for all types.

    Attributes:
      here: the partitions that are here.
      on_device: the types that live on the devices.
      tables: the learnable types that do not.
    """

    def __init__(
        self,
        graph: HetGraph,
        owned: Owned,
        mesh: Mesh,
        learnable: Mapping[str, Shape],
        placement: Mapping[str, Place],
        folder: Path | None = None,
    ):
        super().__init__(learnable, placement, folder)
        self.owned, self.mesh, self.here = owned, mesh, positions_here(mesh)
        self.on_device = frozenset(t for t, place in placement.items() if place == "device")
        self.tables = tuple(sorted(learnable.keys() - self.on_device))
        self.row_bytes = row_bytes(graph, placement, learnable)
        self.away = {
            (t, part): HostMatrix(graph.features[t], self._device(part), owned.ids[t][part])
            for t in placement
            if t not in learnable and t not in self.on_device
            for part in self.here
        }
        self.held: dict[str, OwnedTable] = {}

    def _device(self, part: int) -> jax.Device:
        return self.mesh.devices.flat[part]

    @property
    def hosted(self) -> dict[Key, HostMatrix]:
        return self.away | {(t, part): owner for t, table in self.held.items() for part, owner in table.owners.items()}

    def resident(self, device: jax.Device, given: Iterable[str]) -> int:
        return sum(self.owned.rows[t] * self.row_bytes[t] for t in self.on_device.difference(given))

    def load(self, tables: Mapping[str, Iterable[Table]]) -> dict[str, Table | OwnedTable]:
        """Load tables to where they live, from the pieces of whole ones, which are read once."""
        self.held = {}
        return {name: self._load(name, self._own(name, pieces)) for name, pieces in tables.items()}

    def _own(self, name: str, pieces: Iterable[Table]) -> Iterator[dict[int, Table]]:
        """Return the rows of every partition of this process, for each piece."""
        start = 0
        for piece in pieces:
            stop, leaves, found = start + len(piece.count), [on_host(leaf) for leaf in piece], {}
            for part in self.here:
                ids = self.owned.ids[name][part]
                rows = ids[slice(*np.searchsorted(ids, (start, stop)))] - start
                found[part] = Table(*(leaf[rows] for leaf in leaves))
            yield found
            start = stop

    def _load(self, name: str, pieces: Iterable[Mapping[int, Table]]) -> Table | OwnedTable:
        if name in self.on_device:
            return self._placed(name, list(pieces))
        records = {part: self.empty(name, len(self.owned.ids[name][part]), part) for part in self.here}
        start = dict.fromkeys(self.here, 0)
        for piece in pieces:
            start = {part: write(records[part], start[part], rows) for part, rows in piece.items()}
        owners = {part: HostTable(rows, self._device(part)) for part, rows in records.items()}
        self.held[name] = OwnedTable(owners, self.mesh)
        return self.held[name]

    def _placed(self, name: str, pieces: Sequence[Mapping[int, Table]]) -> Table:
        def own(part: int) -> Table:
            leaves = zip(*(piece[part] for piece in pieces))
            return Table(*(pad(np.concatenate(leaf), self.owned.rows[name], 0) for leaf in leaves))

        return from_shards(self.mesh, [own(part) for part in self.here])

    def rows(self, part: int, ids: Mapping[str, np.ndarray]) -> dict[str, jax.Array]:
        """Return the rows of static features on the host that a partition reads, on its device; `ids` count its own nodes."""
        mine = {t: matrix for (t, of), matrix in self.away.items() if of == part}
        return {t: matrix.end(matrix.begin(ids[t])) for t, matrix in mine.items()}

    def read(self, ids: Mapping[int, Mapping[str, np.ndarray]]) -> dict[Key, np.ndarray]:
        """Return the rows of every cache that a step reads, from the rows of every partition's own nodes, by type."""
        return {(t, part): ids[part][t] for t, part in self.hosted}


def row_counts(owned: Owned, mesh: Mesh) -> RowCounts:
    """Return the number of rows that a device has room for, and those of the process whose partitions own most."""
    process = np.array([device.process_index for device in mesh.devices.flat])
    most = {}
    for t, ids in owned.ids.items():
        most[t] = int(np.bincount(process, [len(of) for of in ids]).max())
    return RowCounts(owned.rows, most)
