"""Where the features of every input type live: on the device, in host memory, or in files mapped into it."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from hetjax.cache import tables
from hetjax.cache.allocate import Kind, Place, Policy, allocate, next_tenth
from hetjax.cache.host import Hosted, HostedTable, release, views
from hetjax.cache.tables import Shape, Table
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.store import open as open_store
from hetjax.sampling.blocks import Batch

COPY = 2**24  # bytes copied at a time


class Features:
    """The features that one device trains with.

    Static features of the place `host` or `disk` stay in the graph's arrays, which are mapped if it was opened from a store.

    Args:
      graph: with the static features.
      widths: of the features of every input type.
      learnable: what the tables of the featureless ones are created from.
      places: of every input type; of those that are not named, the device.
      folder: for mapped tables; made when there are any, and any that is there already is replaced.
      device: that trains.
    """

    def __init__(
        self,
        graph: HetGraph,
        widths: Mapping[str, int],
        learnable: Mapping[str, Shape],
        places: Mapping[str, Place],
        folder: Path | None = None,
        device: jax.Device | None = None,
    ):
        self.learnable, self.folder = learnable, folder
        self.places = {name: places.get(name, "device") for name in widths}
        self.device = device or jax.local_devices()[0]
        self.static, self.away = {}, {}
        for name in widths:
            if name not in learnable and self.places[name] == "device":
                self.static[name] = jax.device_put(graph.features[name], self.device)
            elif name not in learnable:
                self.away[name] = Hosted(graph.features[name], self.device)
        self.changed: dict[str, HostedTable] = {}
        self.kinds: Mapping[str, Kind] = {}

    def new(self, key: jax.Array) -> dict[str, Table | HostedTable]:
        """Tables of before the first step, each where it lives."""
        made = {}
        for name, shape in self.learnable.items():
            own = tables.key_of(key, name)
            parts = (tables.fresh(own, shape, number) for number in range(tables.parts_of(shape)))
            made[name] = self._settle(name, parts)
        return made

    def settle(self, given: Mapping[str, Table]) -> dict[str, Table | HostedTable]:
        """Copies of tables, each where it lives."""
        return {name: self._settle(name, _parts(table)) for name, table in given.items()}

    def _settle(self, name: str, parts) -> Table | HostedTable:
        self.changed.pop(name, None)
        if self.places[name] == "device":
            leaves = zip(*(jax.device_put(part, self.device) for part in parts))
            return Table(*(jax.numpy.concatenate(leaf) if len(leaf) > 1 else leaf[0] for leaf in leaves))
        records, start = self._empty(name), 0
        for part in parts:
            size = len(part.count)
            for leaf, rows in zip(views(records[start : start + size]), part, strict=True):
                leaf[:] = rows
            release(records)
            start += size
        self.changed[name] = HostedTable(records, self.device)
        return self.changed[name]

    def _empty(self, name: str) -> np.ndarray:
        shape = self.learnable[name].nodes, 3 * self.learnable[name].width + 1
        if self.places[name] == "host":
            return np.empty(shape, np.int32)
        if self.folder is None:
            raise InputError(f"the features of {name!r} are to be on disk, and there is no folder for them")
        return mapped(self.folder / str(list(self.learnable).index(name)), shape, np.int32)

    def whole(self, held: Mapping[str, Table | HostedTable]) -> dict[str, Table]:
        """The inverse of `settle`, without copying; host arrays go on changing when training does."""
        return {name: one if isinstance(one, Table) else one.table() for name, one in held.items()}

    def send(self, batch: Batch) -> Batch:
        """A batch for the device, from one of host arrays: with the rows of static features that do not live there.

        The ids of learnable rows that do not live there stay on the host, which reads them when the step comes.
        """
        inputs = dict(batch.inputs)
        rows = {name: self._rows(one, inputs.pop(name, None)) for name, one in self.away.items()}
        ids = {name: inputs.pop(name) for name in list(inputs) if self.places[name] != "device"}
        sent = jax.device_put(batch._replace(inputs=inputs), self.device)
        return sent._replace(inputs=sent.inputs | ids, rows=rows)

    def _rows(self, one: Hosted, ids: np.ndarray | None) -> jax.Array:
        everyone = np.arange(one.nodes, dtype=np.int32)
        return one.end(one.begin(everyone if ids is None else ids))

    def fill(self, kinds: Mapping[str, Kind], budget: int, policy: Policy) -> None:
        """Keep rows on the device, as `allocate` divides the budget."""
        self.kinds = kinds
        for name, ids in allocate(kinds, budget, policy).items():
            self.hosted[name].keep(ids)

    def report(self) -> list[dict]:
        """Of every type that does not live on the device: how many rows are kept there, and what reading the others cost."""
        return [self._about(name, one) for name, one in self.hosted.items()]

    def _about(self, name: str, one: Hosted) -> dict:
        moved, kind = one.moved, self.kinds.get(name)
        reads = moved.hits + moved.misses
        return {
            "node_type": name,
            "place": self.places[name],
            "learnable": name in self.learnable,
            "rows": one.nodes,
            "row_bytes": one.row_bytes,
            "kept": len(one.cached),
            "hits": moved.hits,
            "misses": moved.misses,
            "hit_rate": moved.hits / reads if reads else None,
            "sent_bytes": moved.sent,
            "returned_bytes": moved.returned,
            "host_seconds": moved.seconds,
            "seconds_per_byte": kind and kind.penalty,
            "next_tenth_bytes": kind and next_tenth(kind, len(one.cached)),
        }

    @property
    def hosted(self) -> dict[str, Hosted]:
        """Every type that does not live on the device."""
        return self.away | self.changed

    def close(self) -> None:
        """Delete the mapped files."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def fetch_features(store, node_type: str, ids) -> np.ndarray | jax.Array:
    """Feature rows `[len(ids), width]` of a node type, wherever they live, without a copy that is not needed.

    Args:
      store: the path of a store, a `HetGraph`, a run's `Features`, or a mapping such as a state's `tables`.
      ids: an array of ids, or a slice, of which host arrays give a view.

    Returns:
      An array of the host for features of a store or graph, and of the device for those of a run.

    Raises:
      InputError: the type has no features there.
    """
    held = _held(store)
    if node_type not in held:
        raise InputError(f"no features of {node_type!r}; there are those of {sorted(held)}")
    found = held[node_type]
    if isinstance(found, Hosted):
        ids = np.arange(found.nodes, dtype=np.int32)[ids] if isinstance(ids, slice) else np.asarray(ids, np.int32)
        found, ids = found.end(found.begin(ids)), slice(None)
    return (found.rows if isinstance(found, Table) else found)[ids]


def _held(store) -> Mapping:
    if isinstance(store, Features):
        return store.static | store.hosted
    if isinstance(store, str | os.PathLike):
        store = open_store(store, relations=())
    return store.features if isinstance(store, HetGraph) else store


def mapped(file: Path, shape: tuple[int, ...], dtype) -> np.ndarray:
    """A new file of zeros, mapped into memory; its room on the disk is taken now, so that it cannot run out later.

    Raises:
      InputError: there is not enough.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        size = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        with open(file, "wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, size)
        return np.memmap(file, dtype, "r+", shape=shape) if np.prod(shape) else np.empty(shape, dtype)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}; {size:,} bytes are needed") from None


def _parts(table: Table):
    """A table a few rows at a time, in host memory."""
    step = max(1, COPY // max(1, table.rows.shape[1] * 4))
    for start in range(0, max(1, len(table.count)), step):
        yield Table(*(np.asarray(leaf[start : start + step]) for leaf in table))
        for leaf in table:
            release(leaf)
