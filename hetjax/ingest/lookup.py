"""Tables from ids to their positions, made once and asked from several threads: whole numbers close together by their place, other ids by hash."""

from typing import Protocol

import numpy as np
import pyarrow as pa

from hetjax.graph import arrow
from hetjax.system.compiled import compiled

SPREAD = 8  # a table by place may have so many places per id
FREE = np.int32(-1)
OFFSET, PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)  # of FNV-1a
MIX = np.uint64(0x9E3779B97F4A7C15)


class Lookup(Protocol):
    """Positions of ids."""

    def find(self, wanted: pa.Array) -> np.ndarray:
        """Return the position of each id, int32 `[wanted]`; -1 where there is no such id, or none."""


def lookup(ids: pa.Array) -> Lookup:
    """Return a table that finds distinct ids, int64 or large_string, at most 2^31 - 1, by values of that type."""
    if not pa.types.is_int64(ids.type):
        return Texts(ids)
    values = arrow.to_numpy(ids)
    spread = int(values.max()) - int(values.min()) + 1 if len(values) else 0
    return Close(values, spread) if spread <= SPREAD * len(values) + 1024 else Wide(values)


class Close:
    """Whole numbers with few others between them."""

    def __init__(self, values: np.ndarray, spread: int):
        self.low = values.min(initial=np.iinfo(np.int64).max)
        self.table = np.full(spread, FREE, np.int32)
        _put_close(values, self.low, self.table)

    def find(self, wanted: pa.Array) -> np.ndarray:
        found = np.empty(len(wanted), np.int32)
        _close(arrow.to_numpy(wanted), self.low, self.table, found)
        return _known(found, wanted)


class Wide:
    """Whole numbers far apart."""

    def __init__(self, values: np.ndarray):
        self.values = np.ascontiguousarray(values)
        self.slots = np.full(_size(len(values)), FREE, np.int32)
        _put_wide(self.values, self.slots)

    def find(self, wanted: pa.Array) -> np.ndarray:
        found = np.empty(len(wanted), np.int32)
        _wide(arrow.to_numpy(wanted), self.values, self.slots, found)
        return _known(found, wanted)


class Texts:
    """Texts; a slot has a part of the hash too, so that few texts are compared in vain."""

    def __init__(self, ids: pa.Array):
        self.ends, self.bytes = arrow.parts(ids)
        self.slots = np.full((_size(len(ids)), 2), FREE, np.int32)
        _put_texts(self.ends, self.bytes, self.slots)

    def find(self, wanted: pa.Array) -> np.ndarray:
        found = np.empty(len(wanted), np.int32)
        _texts(*arrow.parts(wanted), self.ends, self.bytes, self.slots, found)
        return _known(found, wanted)


def _size(count: int) -> int:
    """Return the slots for so many ids: a power of two, at least twice as many."""
    return 1 << max(4, (2 * count - 1).bit_length())


def _known(found: np.ndarray, wanted: pa.Array) -> np.ndarray:
    if wanted.null_count:
        found[wanted.is_null().to_numpy(zero_copy_only=False)] = FREE
    return found


@compiled
def _put_close(values, low, table):
    for number in range(len(values)):
        table[np.uint64(values[number] - low)] = number


@compiled
def _close(wanted, low, table, found):
    size = np.uint64(len(table))
    for row in range(len(wanted)):
        place = np.uint64(wanted[row] - low)  # what is below `low` is far above `size`
        found[row] = table[place] if place < size else FREE


@compiled
def _slot(value, slots):
    """Return the slot at which the search for a whole number begins."""
    mixed = np.uint64(value) * MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(slots - 1))


@compiled
def _put_wide(values, slots):
    for number in range(len(values)):
        slot = _slot(values[number], len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number


@compiled
def _wide(wanted, values, slots, found):
    for row in range(len(wanted)):
        slot = _slot(wanted[row], len(slots))
        while slots[slot] >= 0 and values[slots[slot]] != wanted[row]:
            slot = (slot + 1) & (len(slots) - 1)
        found[row] = slots[slot]


@compiled
def _hash(ends, content, number):
    value = OFFSET
    for place in range(ends[number], ends[number + 1]):
        value = (value ^ np.uint64(content[place])) * PRIME
    return value ^ (value >> np.uint64(29))


@compiled
def _put_texts(ends, content, slots):
    for number in range(len(ends) - 1):
        value = _hash(ends, content, number)
        slot = np.int64(value & np.uint64(len(slots) - 1))
        while slots[slot, 0] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot, 0] = number
        slots[slot, 1] = np.int32(value >> np.uint64(32))


@compiled
def _texts(wanted_ends, wanted, ends, content, slots, found):
    for row in range(len(found)):
        value = _hash(wanted_ends, wanted, row)
        slot, tag = np.int64(value & np.uint64(len(slots) - 1)), np.int32(value >> np.uint64(32))
        while slots[slot, 0] >= 0:
            number = slots[slot, 0]
            if slots[slot, 1] == tag and _same(wanted_ends, wanted, row, ends, content, number):
                break
            slot = (slot + 1) & (len(slots) - 1)
        found[row] = slots[slot, 0]


@compiled
def _same(one_ends, one, row, other_ends, other, number):
    size = one_ends[row + 1] - one_ends[row]
    if size != other_ends[number + 1] - other_ends[number]:
        return False
    for place in range(size):  # noqa: SIM110 (which numba does not compile)
        if one[one_ends[row] + place] != other[other_ends[number] + place]:
            return False
    return True
