"""Features that live in host memory, or in a file mapped into it, the hottest rows of which are kept on the device."""

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.cache import tables
from hetjax.cache.mapped import gather, portions
from hetjax.cache.tables import Table
from hetjax.sampling.blocks import NO_NODE, pad, round_up


@dataclass
class Moved:
    """What fetching and storing cost.

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
      places: int32 `[misses]`, which of the rows are the host's, padded with `NO_NODE`.
      missed: the ids of these, without padding.
      at: int `[misses]`, where each of these stands in `sent`.
      stale: which of `missed` a step under way is about to change; they are sent when it has.
      sent: `[misses, width]` on the device, zero where padded or stale.
    """

    ids: np.ndarray
    slots: np.ndarray
    places: np.ndarray
    missed: np.ndarray
    at: np.ndarray
    stale: np.ndarray
    sent: jax.Array


@jax.jit
def _assemble(cache, slots, places, sent):
    """The rows of a fetch: those of the cache, then those that were sent, in their places."""
    return tables.write(tables.rows_at(cache, slots), places, sent)


_read, _write, _keep = jax.jit(tables.rows_at), jax.jit(tables.write), jax.jit(tables.write, donate_argnums=0)


class Hosted:
    """A matrix with a row per node in host memory, of which a batch's rows are sent to the device.

    Moving rows computes nothing, so training is the same to the last bit wherever they are.

    Args:
      matrix: `[nodes, width]`, in memory or mapped.
      device: where rows are sent.
    """

    def __init__(self, matrix: np.ndarray, device: jax.Device):
        self.matrix, self.device, self.nodes = matrix, device, len(matrix)
        self.row_bytes = math.prod(matrix.shape[1:]) * matrix.itemsize
        self.slots = np.full(self.nodes, NO_NODE, np.int32)
        self.changing = np.zeros(self.nodes, bool)  # rows that a step under way is about to change
        self.keep(np.zeros(0, np.int32))

    def keep(self, ids: np.ndarray) -> None:
        """Keep the rows of these nodes, and no others, on the device, and count from now on; no step is under way."""
        self.cached = np.sort(ids).astype(np.int32)
        self.slots[:] = NO_NODE
        self.slots[self.cached] = np.arange(len(self.cached), dtype=np.int32)
        self.cache = send(gather(self.matrix, self.cached), self.device)
        self.most = self.latest = 0  # misses, and stale ones, that have been sent at a time: shapes that only grow
        self.moved = Moved()

    def begin(self, ids: np.ndarray) -> Fetched:
        """Read the rows that are not on the device and send them, but for those that a step under way is about to change.

        Args:
          ids: int32 `[n]`, distinct; ids out of range are padding, and give zeros.
        """
        started = time.perf_counter()
        real = np.flatnonzero(ids < self.nodes)
        slots = np.full(len(ids), NO_NODE, np.int32)
        slots[real] = self.slots[ids[real]]
        places = real[slots[real] == NO_NODE].astype(np.int32)
        missed = ids[places]
        self.most = max(self.most, round_up(len(missed)) if len(missed) else 0)
        size, at = (min(self.most, len(ids)), np.arange(len(places))) if len(self.cached) else (len(ids), places)
        stale = self.changing[missed]
        sent = self._send(missed, at, np.flatnonzero(~stale), size)
        self.moved.hits += len(real) - len(missed)
        self.moved.misses += len(missed)
        self.moved.seconds += time.perf_counter() - started
        return Fetched(ids, slots, pad(places, size, NO_NODE), missed, at, np.flatnonzero(stale), sent)

    def end(self, fetched: Fetched) -> jax.Array:
        """The rows on the device, `[n, width]`; the step that was under way has been stored."""
        started, sent = time.perf_counter(), fetched.sent
        if len(fetched.stale):
            ids, at = fetched.missed[fetched.stale], fetched.at[fetched.stale].astype(np.int32)
            self.latest = max(self.latest, round_up(len(ids)))
            late = self._send(ids, np.arange(len(ids)), np.arange(len(ids)), self.latest)
            sent = _write(sent, pad(at, self.latest, NO_NODE), late)
        self.moved.seconds += time.perf_counter() - started
        return _assemble(self.cache, fetched.slots, fetched.places, sent) if len(self.cached) else sent

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Rows `[n, width]` in host memory, of which nothing is counted."""
        found, slots = gather(self.matrix, ids), self.slots[ids]
        kept = slots != NO_NODE
        found[kept] = np.asarray(self.cache)[slots[kept]]
        return found

    def _send(self, ids: np.ndarray, at: np.ndarray, which: np.ndarray, size: int) -> jax.Array:
        rows = np.zeros((size, *self.matrix.shape[1:]), self.matrix.dtype)
        for some in portions(self.matrix, ids[which]):
            rows[at[which[some]]] = self.matrix[ids[which[some]]]
        self.moved.sent += rows.nbytes
        return send(rows, self.device)


class HostedTable(Hosted):
    """A learnable table: a row with its moments and count is one record, which is read, sent and written at one place.

    Records are int32 `[nodes, 3 * width + 1]`: as a float a count might be flushed to zero on the way.
    """

    def keep(self, ids: np.ndarray) -> None:
        if (self.slots != NO_NODE).any():
            self._flush()
        super().keep(ids)

    def end(self, fetched: Fetched) -> Table:
        return unpack(super().end(fetched))

    def change(self, fetched: Fetched, about: bool) -> None:
        """Say that a step is about to change these rows, or has."""
        self.changing[fetched.missed] = about

    def store(self, fetched: Fetched, table: Table) -> None:
        """Write `n` rows to where `fetched` came from; padded ones are dropped."""
        rows = pack(table)
        if len(self.cached):
            self.cache = _keep(self.cache, fetched.slots, rows)
            rows = _read(rows, fetched.places)
        found, started = np.asarray(rows), time.perf_counter()
        for some in portions(self.matrix, fetched.missed):
            self.matrix[fetched.missed[some]] = found[fetched.at[some]]
        self.moved.returned += found.nbytes
        self.moved.seconds += time.perf_counter() - started

    def rows(self, ids: np.ndarray) -> np.ndarray:
        return views(super().rows(ids)).rows

    def table(self) -> Table:
        """All of it, after rows on the device were written back; without copying, so it goes on changing."""
        self._flush()
        return views(self.matrix)

    def _flush(self) -> None:
        kept = np.asarray(self.cache)
        for some in portions(self.matrix, self.cached):
            self.matrix[self.cached[some]] = kept[some]


def send(rows: np.ndarray, device: jax.Device, pinned: bool | None = None) -> jax.Array:
    """A copy on the device, which the host need not wait for.

    Args:
      pinned: by way of page-locked host memory, from where an accelerator reads by itself; None: if it is one.
    """
    if device.platform != "cpu" if pinned is None else pinned:
        rows = jax.device_put(rows, jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"))
    return jax.device_put(rows, jax.sharding.SingleDeviceSharding(device, memory_kind="device"))


@jax.jit
def pack(table: Table) -> jax.Array:
    """Records int32 `[n, 3 * width + 1]` of a table's rows."""
    leaves = [jax.lax.bitcast_convert_type(leaf, jnp.int32) for leaf in table[:3]]
    return jnp.concatenate([*leaves, table.count[:, None]], axis=1)


@jax.jit
def unpack(records: jax.Array) -> Table:
    """The inverse of `pack`."""
    leaves = jnp.split(records[:, :-1], 3, axis=1)
    return Table(*(jax.lax.bitcast_convert_type(leaf, jnp.float32) for leaf in leaves), records[:, -1])


def views(records: np.ndarray) -> Table:
    """As `unpack`, of a host array and without copying."""
    floats, width = records.view(np.float32), records.shape[1] // 3
    return Table(*(floats[:, start : start + width] for start in (0, width, 2 * width)), records[:, -1])
