"""Where the features of every input type live: on the device, in host memory, or in files mapped into it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from hetjax.cache import tables
from hetjax.cache.allocate import Kind, Place, Policy, allocate, next_tenth
from hetjax.cache.host import Hosted, HostedTable, views
from hetjax.cache.mapped import mapped, release
from hetjax.cache.tables import Shape, Table
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.sampling.blocks import Batch

COPY = 2**24  # bytes copied at a time


class Features:
    """The features that one device trains with.

    Static features that do not live on the device stay in the graph's arrays.

    Args:
      graph: with the static features.
      widths: of the features of every input type.
      learnable: what the tables of the featureless ones are created from.
      places: of every input type; of those that are not named, the device. Static features are on disk if the graph was
        opened from a store, and in memory otherwise.
      folder: for mapped tables; made when there are any, and any that is there already is replaced.
      device: that trains.
    """

    def __init__(
        self,
        graph: HetGraph,
        widths: Mapping[str, int],
        learnable: Mapping[str, Shape],
        places: Mapping[str, Place] | None = None,
        folder: Path | None = None,
        device: jax.Device | None = None,
    ):
        self.learnable, self.folder = learnable, folder
        self.places = dict.fromkeys(widths, "device") | dict(places or {})
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
        """Tables, each where it lives; those given are not changed."""
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
        rows = {name: one.end(one.begin(inputs.pop(name))) for name, one in self.away.items()}
        ids = {name: inputs.pop(name) for name in list(inputs) if self.places[name] != "device"}
        sent = jax.device_put(batch._replace(inputs=inputs), self.device)
        return sent._replace(inputs=sent.inputs | ids, rows=rows)

    def device_bytes(self, name: str) -> int:
        """Of a type that lives on the device; 0 for one that does not."""
        if self.places[name] != "device":
            return 0
        shape = self.learnable.get(name)
        return shape.nodes * shape.row_bytes if shape else self.static[name].nbytes

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


def _parts(table: Table):
    """A table a few rows at a time, in host memory."""
    step = max(1, COPY // max(1, table.rows.shape[1] * 4))
    for start in range(0, max(1, len(table.count)), step):
        yield Table(*(np.asarray(leaf[start : start + step]) for leaf in table))
        for leaf in table:
            release(leaf)
