"""Features that live in host memory, or in a file mapped into it, the hottest rows of which are kept on the device."""

import functools
import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels import tables
from hetjax.kernels.tables import Table
from hetjax.sampling.blocks import NO_NODE, Capacities, pad
from hetjax.system.arrays import Array
from hetjax.system.mapped import gather, on_host, portions


@dataclass
class Transfers:
    """The costs of fetching and storing.

    Attributes:
      hits, misses: rows read on the device, and rows read on the host.
      sent, returned: bytes to the device, and back, padding included.
      seconds: spent on the host reading and writing rows, whether or not the device waited for it.
    """

    hits: int = 0
    misses: int = 0
    sent: int = 0
    returned: int = 0
    seconds: float = 0.0


class Fetched(NamedTuple):
    """Rows on the way to the device.

    Attributes:
      ids: int32 `[n]` as they were asked for; ids out of range are padding.
      slots: int32 `[n]`, where each row is on the device, or `NO_NODE`.
      places: int32 `[misses]`, which of the rows are the host's.
      missed: the ids of these.
      stale: bool `[misses]`, which of these a step under way is about to change; they are sent when it has.
      sent: on the device, the other ones, then zeros; if no row is on the device or stale, all `n` rows in their places.
    """

    ids: np.ndarray
    slots: np.ndarray
    places: np.ndarray
    missed: np.ndarray
    stale: np.ndarray
    sent: jax.Array


@functools.partial(jax.jit, keep_unused=True)  # without rows nothing is used, and the result would be on another device
def _assemble(cache, slots, *places_and_rows):
    """Return the rows of a fetch: those of the cache, then those that were given, as places and rows."""
    rows = tables.rows_at(cache, slots)
    for places, new in zip(places_and_rows[::2], places_and_rows[1::2], strict=True):
        rows = tables.write(rows, places, new)
    return rows


_read = jax.jit(tables.rows_at, keep_unused=True)
_keep = jax.jit(tables.write, donate_argnums=0, keep_unused=True)


class HostMatrix:
    """A matrix with a row per node in host memory, of which a batch's rows are sent to the device.

    Moving rows computes nothing, so training is the same to the last bit wherever they are.

    Args:
      matrix: `[nodes, width]`, in memory or mapped.
      device: where rows are sent.
      row_ids: int32, which rows of the matrix this has, if not all; they are then numbered as they stand here.
    """

    def __init__(self, matrix: np.ndarray, device: jax.Device, row_ids: np.ndarray | None = None):
        self.matrix, self.device, self.row_ids = matrix, device, row_ids
        self.nodes = len(matrix if row_ids is None else row_ids)
        self.row_bytes = math.prod(matrix.shape[1:]) * matrix.itemsize
        self.slots = np.full(self.nodes, NO_NODE, np.int32)
        self.changing = np.zeros(self.nodes, bool)  # rows that a step under way is about to change
        self.keep(np.zeros(0, np.int32))

    def keep(self, ids: np.ndarray) -> None:
        """Keep the rows of these nodes, and no others, on the device, and count from now on; no step is under way."""
        self.cached = np.sort(ids).astype(np.int32)
        self.slots[:] = NO_NODE
        self.slots[self.cached] = np.arange(len(self.cached), dtype=np.int32)
        self.cache = send(self._gathered(self.cached), self.device)
        self.capacities = Capacities()  # of rows that are sent or returned at a time
        self.moved = Transfers()

    def begin(self, ids: Array) -> Fetched:
        """Read the rows that are not on the device and send them, but for those that a step under way is about to change.

        Args:
          ids: int32 `[n]`, distinct; ids out of range are padding, and give zeros.
        """
        started, ids = time.perf_counter(), on_host(ids)
        real = np.flatnonzero(ids < self.nodes)
        slots = np.full(len(ids), NO_NODE, np.int32)
        slots[real] = self.slots[ids[real]]
        places = real[slots[real] == NO_NODE].astype(np.int32)
        missed = ids[places]
        stale = self.changing[missed]
        if len(self.cached) or stale.any():
            room = self.capacities.fit("early" if stale.any() else "at once", np.sum(~stale), len(ids))
            sent = self._send(missed[~stale], room)
        else:
            sent = self._send(missed, len(ids), places)
        self.moved.hits += len(real) - len(missed)
        self.moved.misses += len(missed)
        self.moved.seconds += time.perf_counter() - started
        return Fetched(ids, slots, places, missed, stale, sent)

    def end(self, fetched: Fetched) -> Any:
        """Return the rows on the device, `[n, width]`, or a `Table` of them. The step that was under way has been stored."""
        started, (_, slots, places, missed, stale, sent) = time.perf_counter(), fetched
        if not len(self.cached) and not stale.any():
            return sent
        places_and_rows = [pad(places[~stale], len(sent), NO_NODE), sent]
        if stale.any():
            late = self._send(missed[stale], self.capacities.fit("late", np.sum(stale), len(slots)))
            places_and_rows += [pad(places[stale], len(late), NO_NODE), late]
        self.moved.seconds += time.perf_counter() - started
        return _assemble(self.cache, slots, *places_and_rows)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Return rows `[n, width]` in host memory, of which nothing is counted."""
        rows, slots = self._gathered(ids), self.slots[ids]
        cached = slots != NO_NODE
        rows[cached] = np.asarray(self.cache)[slots[cached]]
        return rows

    def _send(self, ids: np.ndarray, length: int, places: np.ndarray | None = None) -> jax.Array:
        """Send `length` rows: those of `ids` in their places, or else at the front, and zeros."""
        rows = self._gathered(ids, length, places)
        self.moved.sent += rows.nbytes
        return send(rows, self.device)

    def _gathered(self, ids: np.ndarray, length: int | None = None, places: np.ndarray | None = None) -> np.ndarray:
        return gather(self.matrix, ids if self.row_ids is None else self.row_ids[ids], length, places)


class HostTable(HostMatrix):
    """A learnable table. A row with its moments and count is one record, which is read, sent and written at one place.

    Records are int32 `[nodes, 3 * width + 1]`: as a float a count might be flushed to zero on the way.
    """

    def keep(self, ids: np.ndarray) -> None:
        if (self.slots != NO_NODE).any():
            self._flush()
        super().keep(ids)

    def end(self, fetched: Fetched) -> Table:
        return unpack(super().end(fetched))

    def change(self, fetched: Fetched, changing: bool) -> None:
        """Note that a step is about to change these rows, or has changed them."""
        self.changing[fetched.missed] = changing

    def store(self, fetched: Fetched, table: Table) -> None:
        """Write `n` rows to where `fetched` came from; padded ones are dropped."""
        rows, places = pack(table), fetched.places
        if len(self.cached):
            self.cache = _keep(self.cache, fetched.slots, rows)
            room = self.capacities.fit("returned", len(places), len(fetched.slots))
            rows, places = _read(rows, pad(places, room, NO_NODE)), np.arange(len(places))
        records, started = np.asarray(rows), time.perf_counter()
        for portion in portions(self.matrix, fetched.missed):
            self.matrix[fetched.missed[portion]] = records[places[portion]]
        self.moved.returned += records.nbytes
        self.moved.seconds += time.perf_counter() - started

    def rows(self, ids: np.ndarray) -> np.ndarray:
        return super().rows(ids).view(np.float32)[:, : self.matrix.shape[1] // 3]

    def table(self) -> Table:
        """Return the whole table, after rows on the device were written back. It is not copied, so it goes on changing."""
        self._flush()
        return views(self.matrix)

    def _flush(self) -> None:
        records = np.asarray(self.cache)
        for portion in portions(self.matrix, self.cached):
            self.matrix[self.cached[portion]] = records[portion]


def send(rows: np.ndarray, device: jax.Device, pinned: bool | None = None) -> jax.Array:
    """Return a copy on the device, for which the host need not wait.

    Args:
      pinned: by way of page-locked host memory, from where an accelerator reads by itself; None: if it is one.
    """
    if device.platform != "cpu" if pinned is None else pinned:
        rows = jax.device_put(rows, jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"))
    return jax.device_put(rows, jax.sharding.SingleDeviceSharding(device, memory_kind="device"))


@jax.jit
def pack(table: Table) -> jax.Array:
    """Return the records int32 `[n, 3 * width + 1]` of a table's rows."""
    leaves = [jax.lax.bitcast_convert_type(leaf, jnp.int32) for leaf in table[:3]]
    return jnp.concatenate([*leaves, table.count[:, None]], axis=1)


@jax.jit
def unpack(records: jax.Array) -> Table:
    """Return the inverse of `pack`."""
    leaves = jnp.split(records[:, :-1], 3, axis=1)
    rows, mu, nu = (jax.lax.bitcast_convert_type(leaf, jnp.float32) for leaf in leaves)
    return Table(rows, mu, nu, records[:, -1])


def views(records: np.ndarray) -> Table:
    """Return the inverse of `pack`, as `unpack` does, of a host array and without copying."""
    floats, width = records.view(np.float32), records.shape[1] // 3
    rows, mu, nu = (floats[:, start : start + width] for start in (0, width, 2 * width))
    return Table(rows, mu, nu, records[:, -1])
