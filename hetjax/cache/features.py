"""Features of every input type: on the device, in host memory, or in files mapped into it."""

import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from hetjax.cache.allocate import RowWorth, allocate, next_tenth
from hetjax.cache.host import HostMatrix, HostTable, views
from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels import tables
from hetjax.kernels.sparse import SparseRows, compact
from hetjax.kernels.tables import Shape, Table
from hetjax.options.config import Place, Policy
from hetjax.sampling.blocks import Batch
from hetjax.system.errors import InputError
from hetjax.system.mapped import mapped, release

COPY = 2**24  # bytes copied at a time
Key = tuple[str, int]  # of a cache: the node type, and which of the caches of that type


class FeatureStore:
    """The features that live on the host, and the caches of them on its devices.

    Args:
      learnable: what tables are created from.
      placement: of every input type.
      folder: for mapped tables; made when there are any, and any that is there already is replaced.
    """

    def __init__(self, learnable: Mapping[str, Shape], placement: Mapping[str, Place], folder: Path | None):
        self.learnable, self.placement, self.folder = learnable, placement, folder
        self.kinds: Mapping[Key, RowWorth] = {}

    @property
    def hosted(self) -> dict[Key, HostMatrix]:
        """Return every matrix of which rows are cached, with its cache."""
        raise NotImplementedError

    def resident(self, device: jax.Device, given: Iterable[str]) -> int:
        """Return the bytes of the types that live on a device, without those `given`."""
        raise NotImplementedError

    def records(self, name: str, parts: Iterable[Table]) -> np.ndarray:
        """Return a table as `HostTable` holds it, from the parts in which it is made."""
        records, start = self.empty(name, self.learnable[name].nodes), 0
        for part in parts:
            start = write(records, start, part)
        return records

    def empty(self, name: str, rows: int, number: int = 0) -> np.ndarray:
        """Return records of so many rows of a table, in memory or in a file, to be written.

        Args:
          number: of the file, where a table has several.
        """
        shape = rows, 3 * self.learnable[name].width + 1
        if self.placement[name] == "host":
            return np.empty(shape, np.int32)
        if self.folder is None:
            raise InputError(f"the features of {name!r} are to be on disk, and there is no folder for them")
        file = str(list(self.learnable).index(name)) + f"_{number}" * (number > 0)
        return mapped(self.folder / file, shape, np.int32)

    def fill(self, kinds: Mapping[Key, RowWorth], budgets: Mapping[jax.Device, int], policy: Policy) -> None:
        """Keep rows on the devices, as `allocate` divides the budget of each."""
        self.kinds = kinds
        for device, budget in budgets.items():
            on_device = {key: kind for key, kind in kinds.items() if self.hosted[key].device == device}
            for key, ids in allocate(on_device, max(0, budget), policy).items():
                self.hosted[key].keep(ids)

    def report(self) -> list[dict]:
        """Report, for every type with features on the host, how many rows are kept on the devices, and what reading the others cost."""
        types: dict[str, dict[Key, HostMatrix]] = {}
        for key, matrix in self.hosted.items():
            types.setdefault(key[0], {})[key] = matrix
        return [self._about(name, caches) for name, caches in types.items()]

    def _about(self, name: str, caches: Mapping[Key, HostMatrix]) -> dict:
        moved = [matrix.moved for matrix in caches.values()]
        hits, misses = sum(transfers.hits for transfers in moved), sum(transfers.misses for transfers in moved)
        cached_kinds = [(self.kinds[key], len(matrix.cached)) for key, matrix in caches.items() if key in self.kinds]
        tenths = [next_tenth(kind, cached) for kind, cached in cached_kinds]
        return {
            "node_type": name,
            "place": self.placement[name],
            "learnable": name in self.learnable,
            "devices": sorted({matrix.device.id for matrix in caches.values()}),
            "rows": sum(matrix.nodes for matrix in caches.values()),
            "row_bytes": next(iter(caches.values())).row_bytes,
            "kept": sum(len(matrix.cached) for matrix in caches.values()),
            "hits": hits,
            "misses": misses,
            "hit_rate": hits / (hits + misses) if hits + misses else None,
            "sent_bytes": sum(transfers.sent for transfers in moved),
            "returned_bytes": sum(transfers.returned for transfers in moved),
            "host_seconds": sum(transfers.seconds for transfers in moved),
            "seconds_per_byte": cached_kinds[0][0].penalty if cached_kinds else None,
            "next_tenth_bytes": sum(more or 0 for more in tenths) or None,
        }

    def close(self) -> None:
        """Delete the mapped files."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Features(FeatureStore):
    """The features that one device trains with.

    Static features that do not live on the device stay in the graph's arrays.

    Args:
      graph: with the static features.
      widths: of the features of every input type.
      learnable, folder: as in `FeatureStore`.
      placement: of every input type; of those that are not named, the device. Static features are on disk if the graph was
        opened from a store, and in memory otherwise.
      device: that trains.
      multiplied: types whose features are nothing but multiplied; there, those that are mostly zeros are kept as `SparseRows`.
    """

    def __init__(
        self,
        graph: HetGraph,
        widths: Mapping[str, int],
        learnable: Mapping[str, Shape],
        placement: Mapping[str, Place] | None = None,
        folder: Path | None = None,
        device: jax.Device | None = None,
        multiplied: Container[str] = (),
    ):
        everywhere: dict[str, Place] = dict.fromkeys(widths, "device")
        super().__init__(learnable, everywhere | dict(placement or {}), folder)
        self.device = device or jax.local_devices()[0]
        self.static: dict[str, jax.Array | SparseRows] = {}
        self.away: dict[str, HostMatrix] = {}
        for name in widths:
            if name not in learnable and self.placement[name] == "device":
                matrix = graph.features[name]
                self.static[name] = jax.device_put(compact(matrix) if name in multiplied else matrix, self.device)
            elif name not in learnable:
                self.away[name] = HostMatrix(graph.features[name], self.device)
        self.changed: dict[str, HostTable] = {}

    @property
    def hosted(self) -> dict[Key, HostMatrix]:
        return {(name, 0): matrix for name, matrix in (self.away | self.changed).items()}

    def resident(self, device: jax.Device, given: Iterable[str]) -> int:
        static = sum(matrix.nbytes for name, matrix in self.static.items() if name not in given)
        shapes = (shape for t, shape in self.learnable.items() if self.placement[t] == "device" and t not in given)
        return static + sum(shape.nodes * shape.row_bytes for shape in shapes)

    def init(self, key: jax.Array) -> dict[str, Table | HostTable]:
        """Return the tables before the first step, each where it lives."""
        return {name: self._load(name, tables.in_parts(key, name, shape)) for name, shape in self.learnable.items()}

    def load(self, given: Mapping[str, Table]) -> dict[str, Table | HostTable]:
        """Return tables, each where it lives; those given are not changed."""
        return {name: self._load(name, parts(table)) for name, table in given.items()}

    def _load(self, name: str, pieces: Iterable[Table]) -> Table | HostTable:
        self.changed.pop(name, None)
        if self.placement[name] == "device":
            leaves = zip(*(jax.device_put(piece, self.device) for piece in pieces))
            return Table(*(jax.numpy.concatenate(leaf) if len(leaf) > 1 else leaf[0] for leaf in leaves))
        self.changed[name] = HostTable(self.records(name, pieces), self.device)
        return self.changed[name]

    def whole(self, placed: Mapping[str, Table | HostTable]) -> dict[str, Table]:
        """Return the inverse of `load`, without copying. Host arrays go on changing when training does."""
        return {name: table if isinstance(table, Table) else table.table() for name, table in placed.items()}

    def send(self, batch: Batch) -> Batch:
        """Send a batch of host arrays to the device, with the rows of static features that do not live there.

        The ids of learnable rows that do not live there stay on the host, which reads them when the step comes. A CPU's programs
        take host arrays as they lie, in less time than many small ones are copied in.
        """
        inputs = dict(batch.inputs)
        rows = {name: matrix.end(matrix.begin(inputs.pop(name))) for name, matrix in self.away.items()}
        ids = {name: inputs.pop(name) for name in list(inputs) if self.placement[name] != "device"}
        sent = batch._replace(inputs=inputs)
        if self.device.platform != "cpu":
            sent = jax.device_put(sent, self.device)
        return sent._replace(inputs={**sent.inputs, **ids}, rows=rows)


def write(records: np.ndarray, start: int, rows: Table) -> int:
    """Write rows into records, from row `start` on; returns the row after the last."""
    stop = start + len(rows.count)
    for leaf, new in zip(views(records[start:stop]), rows, strict=True):
        leaf[:] = new
    release(records)
    return stop


def parts(table: Table) -> Iterator[Table]:
    """Yield a table a few rows at a time, in host memory."""
    step = max(1, COPY // max(1, table.rows.shape[1] * 4))
    for start in range(0, max(1, len(table.count)), step):
        yield Table(*(np.asarray(leaf[start : start + step]) for leaf in table))
        for leaf in table:
            release(leaf)
