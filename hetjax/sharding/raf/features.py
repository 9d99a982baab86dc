"""Features on the host that the devices of a mesh share: every row is sent to one of them, and from there to the others.

A step's distinct rows of a learnable type are taken together, and are the whole table that its programs see; they are
put back when the step is done. So a step on a mesh is the same whatever the placement of features, the caches and their
budgets, to the last bit. Each device in a process that reads a type owns the nodes `id mod devices` (Heta, section
6): it keeps the hottest of them, is sent those that it does not keep, and writes both back.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import FeatureStore, Key, parts
from hetjax.cache.host import Fetched, HostMatrix, HostTable, views
from hetjax.kernels import tables
from hetjax.kernels.tables import Shape, Table
from hetjax.options.config import Place
from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import BOTH
from hetjax.sharding.raf.kinds import ROWS
from hetjax.sharding.raf.replicas import Group, within
from hetjax.sharding.raf.sample import LocalSample
from hetjax.sharding.raf.site import Site, partition_models
from hetjax.sharding.traffic import Program
from hetjax.system.arrays import Array

HOSTED, UNITED = "nodes that a process reads", "nodes that all read"  # tags of what processes tell each other

_take = jax.jit(tables.take, keep_unused=True)


class RowRequest(NamedTuple):
    """The rows of a learnable type that a step takes; `NO_NODE` is padding.

    Attributes:
      numbers: int32 `[owners, n]`, the row numbers of each owner: node ids divided by the number of owners.
      positions: int32 `[owners, n]`, where these stand among all rows of the step.
      order: int32 `[rows]`, where each row of the step stands in the owners' rows, one owner's after the other's.
    """

    numbers: np.ndarray
    positions: np.ndarray
    order: np.ndarray


def request_rows(ids: np.ndarray, owners: int, rows: int, each: int) -> RowRequest:
    """Return the request to the owners for the rows `ids`, int32 and distinct.

    Args:
      rows, each: the capacities of the step's rows and of an owner's rows.
    """
    numbers, positions = (np.full((owners, each), NO_NODE, np.int32) for _ in range(2))
    order = np.full(rows, NO_NODE, np.int32)
    for owner in range(owners):
        own = np.flatnonzero(ids % owners == owner)
        numbers[owner, : len(own)], positions[owner, : len(own)] = ids[own] // owners, own
        order[own] = owner * each + np.arange(len(own))
    return RowRequest(numbers, positions, order)


class SharedTable:
    """A learnable table on the host, and the caches of it on the devices of this process that read it.

    Args:
      records: int32 `[nodes, 3 * width + 1]`, as of a `HostTable`.
      mesh: the mesh of the partitions that read it, in all processes.
      spread: a `spreading` program of the mesh.
    """

    def __init__(self, records: np.ndarray, mesh: jax.sharding.Mesh, spread: Program):
        self.records, self.mesh, self.spread = records, mesh, spread
        devices = list(spread.mesh.devices.flat)
        self.owners = [HostTable(records[n :: len(devices)], device) for n, device in enumerate(devices)]

    def begin(self, request: RowRequest) -> list[Fetched]:
        """Begin a step for every owner, as `HostTable.begin`."""
        return [owner.begin(numbers) for owner, numbers in zip(self.owners, request.numbers)]

    def end(self, fetched: Sequence[Fetched], request: RowRequest) -> Table:
        """Return the rows of the step in their order, as a table on every device that reads the type."""
        own = [owner.end(rows) for owner, rows in zip(self.owners, fetched)]
        if len(own) == 1:
            return meshes.join(self.mesh, P(), own)
        here, order = self.spread.mesh, meshes.put(self.spread.mesh, P(), request.order)
        return meshes.join(self.mesh, P(), [self.spread(meshes.join(here, P(BOTH), own), order)])

    def change(self, fetched: Sequence[Fetched], about: bool) -> None:
        """Say that a step is about to change these rows, or has."""
        for owner, rows in zip(self.owners, fetched):
            owner.change(rows, about)

    def store(self, fetched: Sequence[Fetched], request: RowRequest, made: Iterable[Table]) -> None:
        """Write a step's rows to where they came from.

        Args:
          made: the new rows of each partition of this process, the same on every device.
        """
        shards = (zip(*(leaf.addressable_shards for leaf in jax.tree.leaves(table))) for table in made)
        copies = {leaves[0].device: Table(*(leaf.data for leaf in leaves)) for some in shards for leaves in some}
        for owner, rows, positions in zip(self.owners, fetched, request.positions):
            copy = copies[owner.device]
            owner.store(rows, copy if len(self.owners) == 1 else _take(copy, positions))

    def table(self) -> Table:
        """Return the whole table, after rows on the devices were written back; it is not copied, so it goes on changing."""
        for owner in self.owners:
            owner.table()
        return views(self.records)


def spreading(mesh: jax.sharding.Mesh) -> Program:
    """Return the program by which the devices of a mesh that are here give each other their rows, `(own rows, order)`."""

    def gather(own: Table, order: jax.Array) -> Table:
        return tables.take(jax.lax.all_gather(own, BOTH, tiled=True), order)

    here = meshes.here(mesh)
    return Program(ROWS, meshes.shard_map(gather, here, (P(BOTH), P()), P()), here)


class MeshFeatureStore(FeatureStore):
    """The features that the devices of this process train with, where partitions aggregate relations.

    Args:
      site: this process's place, its graphs with the static features.
      learnable, placement, folder: as in `FeatureStore`, for all types.
    """

    def __init__(
        self, site: Site, learnable: Mapping[str, Shape], placement: Mapping[str, Place], folder: Path | None = None
    ):
        super().__init__(learnable, placement, folder)
        self.site, self.reads = site, [share.local_model.reads for share in partition_models(site.plan)]
        self.away: dict[Key, HostMatrix] = {}
        self.at: dict[Key, tuple[int, int]] = {}  # of each of these the partition, and which of its replicas
        for t in sorted(t for t, place in placement.items() if place != "device" and t not in learnable):
            here = ((part, place) for part in within(self.readers(t), site.parts) for place in site.replicas(part))
            for number, (part, place) in enumerate(here):
                self.away[t, number] = HostMatrix(site.graphs[part].features[t], site.row(part).devices.flat[place])
                self.at[t, number] = part, place
        readers = {t: self.readers(t) for t in sorted(learnable) if placement[t] != "device"}
        self.shared = {t: group for t, group in readers.items() if within(group, site.parts)}
        self.spread = {t: spreading(meshes.rows(site.mesh, parts)) for t, parts in self.shared.items()}
        self.across = {t for t, group in readers.items() if meshes.processes(meshes.rows(site.mesh, group)) > 1}
        self.held: dict[str, SharedTable] = {}

    def readers(self, node_type: str) -> Group:
        """Return the partitions that read a type."""
        return tuple(part for part, types in enumerate(self.reads) if node_type in types)

    def owners(self, node_type: str) -> int:
        """Return the devices of this process that read a type."""
        return sum(len(self.site.replicas(part)) for part in within(self.readers(node_type), self.site.parts))

    def on_device(self, part: int) -> dict[str, np.ndarray]:
        """Return the static features that live on the devices of a partition."""
        features = self.site.graphs[part].features
        return {t: features[t] for t in self.reads[part] if t in features and self.placement[t] == "device"}

    @property
    def hosted(self) -> dict[Key, HostMatrix]:
        return self.away | {(t, n): owner for t, table in self.held.items() for n, owner in enumerate(table.owners)}

    def resident(self, device: jax.Device, given: Iterable[str]) -> int:
        part = next(part for part in self.site.parts if device in self.site.row(part).devices.flat)
        types = [t for t in self.reads[part] if self.placement[t] == "device" and t not in given]
        shapes = (self.learnable[t] for t in types if t in self.learnable)
        static = self.on_device(part)
        return sum(shape.nodes * shape.row_bytes for shape in shapes) + sum(
            static[t].nbytes for t in types if t in static
        )

    def init(self, key: jax.Array) -> dict[str, SharedTable]:
        """Return the tables on the host as they are before the first step."""
        return self._hold({t: tables.in_parts(key, t, self.learnable[t]) for t in self.shared})

    def load(self, given: Mapping[str, Table]) -> dict[str, SharedTable]:
        """Load the tables that live on the host from whole ones, which are not changed."""
        return self._hold({t: parts(given[t]) for t in self.shared})

    def _hold(self, new: Mapping[str, Iterable[Table]]) -> dict[str, SharedTable]:
        self.held = {}
        for name, pieces in new.items():
            mesh = meshes.rows(self.site.mesh, self.shared[name])
            self.held[name] = SharedTable(self.records(name, pieces), mesh, self.spread[name])
        return self.held

    def rows(self, part: int, place: int, inputs: Mapping[str, Array]) -> dict[str, jax.Array]:
        """Return the rows of static features on the host that a replica reads, on its device."""
        mine = {key[0]: matrix for key, matrix in self.away.items() if self.at[key] == (part, place)}
        return {t: matrix.end(matrix.begin(inputs[t])) for t, matrix in mine.items()}

    def read(
        self, samples: Mapping[int, Sequence[LocalSample]], hosted: Mapping[str, np.ndarray]
    ) -> dict[Key, np.ndarray]:
        """Return the rows of every cache that a step reads.

        Args:
          samples: the samples of each partition of this process, one per replica of this process.
          hosted: the nodes that any device reads, of every learnable type on the host.
        """
        read = {}
        for key, (part, place) in self.at.items():
            read[key] = samples[part][self.site.replicas(part).index(place)].inputs[key[0]]
        for t, ids in hosted.items():
            count = self.owners(t)
            read |= {(t, n): ids[ids % count == n] // count for n in range(count)}
        return read

    def hosted_nodes(self, samples: Mapping[int, Sequence[LocalSample]]) -> dict[str, np.ndarray]:
        """Return the nodes that any device of any process reads, int32, ascending, per learnable type on the host."""
        here = {
            t: _united(sample.inputs[t] for part in within(parts, samples) for sample in samples[part])
            for t, parts in self.shared.items()
        }
        if not self.across:
            return here
        group = self.site.group
        every = group.gather(HOSTED, {f"{group.number} {t}": here[t] for t in self.across & here.keys()}) or {}
        types = self.across if group.first else ()
        united = group.broadcast(
            UNITED, {t: _united(ids for name, ids in every.items() if name.split(" ", 1)[1] == t) for t in types}
        )
        return here | {t: united[t] for t in self.across & here.keys()}


def _united(ids: Iterable[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(list(ids)))
