"""Features that live in host memory, or in files mapped into it, the hottest rows of which are kept on the device."""

import math
import mmap
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax.cache import tables
from hetjax.sampling.blocks import NO_NODE, pad, round_up

RELEASE = 2**28  # bytes of a mapped file that are touched before its pages are given back


@dataclass
class Moved:
    """What fetching and storing cost.

    Attributes:
      hits, misses: rows read on the device, and rows read on the host.
      sent, returned: bytes to the device, and back.
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
      at: int `[misses]`, where each of these stands in `rows`.
      rows: a host array per leaf; zero where padded.
      stale: which of `missed` a step under way is about to change.
    """

    ids: np.ndarray
    slots: np.ndarray
    places: np.ndarray
    missed: np.ndarray
    at: np.ndarray
    rows: tuple[np.ndarray, ...]
    stale: np.ndarray


@jax.jit
def _assemble(cache, slots, places, sent):
    """The rows of a fetch: those of the cache, then those that were sent in their places."""
    return tuple(
        tables.read(kept, slots).at[places].set(rows, mode="drop", unique_indices=True)
        for kept, rows in zip(cache, sent, strict=True)
    )


_pick = jax.jit(lambda leaves, places: tuple(tables.read(leaf, places) for leaf in leaves))
_keep = jax.jit(
    lambda cache, slots, leaves: tuple(
        kept.at[slots].set(leaf, mode="drop", unique_indices=True) for kept, leaf in zip(cache, leaves, strict=True)
    ),
    donate_argnums=0,
)


class Hosted:
    """Arrays with a row per node in host memory, of which a batch's rows are sent to the device.

    Reading and writing move rows and compute nothing, so training is the same to the last bit wherever rows are.

    Args:
      leaves: host arrays `[nodes, ...]`, in memory or mapped; `store` changes them in place.
      device: where rows are sent.
    """

    def __init__(self, leaves: tuple[np.ndarray, ...], device: jax.Device):
        self.leaves, self.device, self.nodes = leaves, device, len(leaves[0])
        self.row_bytes = sum(math.prod(leaf.shape[1:]) * leaf.itemsize for leaf in leaves)
        self.slots = np.full(self.nodes, NO_NODE, np.int32)
        self.changing = np.zeros(self.nodes, bool)  # rows that a step under way is about to change
        self.most, self.touched = 0, 0
        self.keep(np.zeros(0, np.int32))

    def keep(self, ids: np.ndarray) -> None:
        """Keep the rows of these nodes on the device, and count from now on; no step is under way."""
        if (self.slots != NO_NODE).any():
            self.flush()
        self.cached = np.sort(ids).astype(np.int32)
        self.slots[:] = NO_NODE
        self.slots[self.cached] = np.arange(len(self.cached), dtype=np.int32)
        self.cache = send(tuple(leaf[self.cached] for leaf in self.leaves), self.device)
        self.moved = Moved()

    def begin(self, ids: np.ndarray) -> Fetched:
        """Read the rows that are not on the device, but for those that a step under way is about to change.

        Args:
          ids: int32 `[n]`, distinct; ids out of range are padding, and give zeros.
        """
        started = time.perf_counter()
        real = np.flatnonzero(ids < self.nodes)
        slots = np.full(len(ids), NO_NODE, np.int32)
        slots[real] = self.slots[ids[real]]
        places = real[slots[real] == NO_NODE].astype(np.int32)
        missed = ids[places]
        self.most = max(self.most, round_up(len(missed)))
        size, at = (min(self.most, len(ids)), np.arange(len(places))) if len(self.cached) else (len(ids), places)
        rows = tuple(np.zeros((size, *leaf.shape[1:]), leaf.dtype) for leaf in self.leaves)
        stale = self.changing[missed]
        fetched = Fetched(ids, slots, pad(places, size, NO_NODE), missed, at, rows, np.flatnonzero(stale))
        self._read(fetched, np.flatnonzero(~stale))
        self.moved.hits += len(real) - len(missed)
        self.moved.misses += len(missed)
        self.moved.seconds += time.perf_counter() - started
        return fetched

    def end(self, fetched: Fetched) -> tuple[jax.Array, ...]:
        """The rows on the device, `[n, ...]` per leaf; the step that was under way has been stored."""
        started = time.perf_counter()
        self._read(fetched, fetched.stale)
        sent = send(fetched.rows, self.device)
        self.moved.sent += sum(leaf.nbytes for leaf in fetched.rows)
        self.moved.seconds += time.perf_counter() - started
        return _assemble(self.cache, fetched.slots, fetched.places, sent) if len(self.cached) else sent

    def change(self, fetched: Fetched, about: bool) -> None:
        """Say that a step is about to change these rows, or has."""
        self.changing[fetched.missed] = about

    def store(self, fetched: Fetched, leaves: tuple[jax.Array, ...]) -> None:
        """Write `[n, ...]` per leaf to where `fetched` came from; padded rows are dropped."""
        if len(self.cached):
            self.cache = _keep(self.cache, fetched.slots, leaves)
            leaves = _pick(leaves, fetched.places)
        found, started = [np.asarray(leaf) for leaf in leaves], time.perf_counter()
        for leaf, rows in zip(self.leaves, found, strict=True):
            leaf[fetched.missed] = rows[fetched.at]
        self.moved.returned += sum(rows.nbytes for rows in found)
        self.moved.seconds += time.perf_counter() - started
        self._touch(found)

    def flush(self) -> tuple[np.ndarray, ...]:
        """The host arrays, after rows that are on the device were written back."""
        if len(self.cached):
            for leaf, kept in zip(self.leaves, self.cache, strict=True):
                leaf[self.cached] = np.asarray(kept)
        return self.leaves

    def _read(self, fetched: Fetched, which: np.ndarray) -> None:
        ids, at = fetched.missed[which], fetched.at[which]
        for leaf, rows in zip(self.leaves, fetched.rows, strict=True):
            rows[at] = leaf[ids]
        self._touch(fetched.rows)

    def _touch(self, leaves: Iterable[np.ndarray]) -> None:
        """Give the pages of mapped files back before long; the system keeps them as long as it has room."""
        self.touched += sum(leaf.nbytes for leaf in leaves)
        if self.touched > RELEASE:
            self.touched = 0
            for leaf in self.leaves:
                release(leaf)


def send(leaves: tuple[np.ndarray, ...], device: jax.Device, pinned: bool | None = None) -> tuple[jax.Array, ...]:
    """Copies on the device, which the host need not wait for.

    Args:
      pinned: by way of page-locked host memory, from where an accelerator reads by itself; None: if it is one.
    """
    if device.platform != "cpu" if pinned is None else pinned:
        leaves = jax.device_put(leaves, jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"))
    return jax.device_put(leaves, jax.sharding.SingleDeviceSharding(device, memory_kind="device"))


def release(array: np.ndarray) -> None:
    """Take the pages of a mapped file out of this process's memory, changed ones too, which are the file's from then on."""
    mapped: Any = getattr(array, "_mmap", None)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)
