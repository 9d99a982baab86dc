"""Division of a device's memory among the rows of several node types: Heta (PVLDB 18(9) 2025), section 6.

A row is worth keeping if it is read often and dear to miss. A type's share of the budget is in proportion to how often its
rows are read times what a missed byte of them costs; within a type the hottest rows are kept. That is `miss_penalty`. The
greedy choice by row, of which it is an approximation, is `optimal`, and our default, where Heta's is `miss_penalty`: the
counts are there in any case, and proportion costs more (experiments/cache/cache_hits.py).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from hetjax.options.config import Place, Policy
from hetjax.system.errors import InputError

Name = TypeVar("Name", bound=Hashable)  # of a type, or of a cache


class RowWorth(NamedTuple):
    """The worth of one node type's rows.

    Attributes:
      counts: int64 `[nodes]`, how often each row was read.
      row_bytes: of the device that a row takes; of a learnable one with its moments and count.
      penalty: seconds that a byte of a missed row costs.
    """

    counts: np.ndarray
    row_bytes: int
    penalty: float


def place_types(
    sizes: Mapping[str, int],
    learnable: Collection[str],
    given: Mapping[str, Place],
    device_bytes: int = -1,
    host_bytes: int = -1,
    together: Sequence[Collection[str]] = (),
    host_sizes: Mapping[str, int] | None = None,
) -> dict[str, Place]:
    """Choose where the features of every input type live.

    Args:
      sizes: bytes of every type's rows on a device, of learnable ones with moments and counts.
      learnable: the types that are learned.
      given: places of some types, which count towards no bound.
      device_bytes: if the others exceed it all of them live on the host, and devices keep a cache; -1 is no bound.
      host_bytes: of learnable types on the host, the largest of which beyond it live on disk; -1 is no bound.
      together: the types that each device reads; if not given, one reads all.
      host_sizes: as `sizes`, of a host's rows, where these are others than a device's.

    Raises:
      InputError: a place for a type that has no features.
    """
    host_sizes = host_sizes or sizes
    for name in given:
        if name not in sizes:
            raise InputError(
                f"cache.placement: {name!r} is no type whose features the model reads; these are {sorted(sizes)}"
            )
    free = {name: size for name, size in sizes.items() if name not in given}
    most = max(sum(free.get(name, 0) for name in types) for types in together or [sizes])
    place: Place = "host" if 0 <= device_bytes < most else "device"
    chosen, room = {name: given.get(name, place) for name in sizes}, host_bytes
    for name in sorted(free.keys() & set(learnable), key=lambda name: (host_sizes[name], name)):
        room -= host_sizes[name]
        if host_bytes >= 0 and room < 0 and place == "host":
            chosen[name] = "disk"
    return chosen


def allocate(kinds: Mapping[Name, RowWorth], budget: int, policy: Policy) -> dict[Name, np.ndarray]:
    """Return the ids of the rows of every type, or cache, that are kept on one device, the hottest first.

    Args:
      budget: bytes, of which no more are used.
      policy: `hotness` shares the budget by how often a type is read, `miss_penalty` by that times its penalty (equation
        3); `optimal` takes rows one by one, by reads times penalty; `none` keeps nothing.
    """
    if policy == "none":
        return {name: np.zeros(0, np.int32) for name in kinds}
    ranked = {name: np.argsort(-kind.counts, kind="stable") for name, kind in kinds.items()}
    rows = _greedy(kinds, budget) if policy == "optimal" else _shares(kinds, budget, policy)
    return {name: ranked[name][: rows[name]].astype(np.int32) for name in kinds}


def next_tenth(kind: RowWorth, rows: int) -> int | None:
    """Return the bytes that would keep, besides the `rows` hottest, what another tenth of all reads hits; None if there is no tenth."""
    hits = np.concatenate([[0], np.cumsum(np.sort(kind.counts)[::-1])])
    goal = hits[rows] + 0.1 * hits[-1]
    return int(np.searchsorted(hits, goal) - rows) * kind.row_bytes if 0 < goal <= hits[-1] else None


def _shares(kinds: Mapping[Name, RowWorth], budget: int, policy: Policy) -> dict[Name, int]:
    """Return the number of rows of each type. What a type cannot use goes to the others, until nothing is left or everything fits."""
    weights = {n: k.counts.sum() * (k.penalty if policy == "miss_penalty" else 1.0) for n, k in kinds.items()}
    table_bytes = {name: len(kind.counts) * kind.row_bytes for name, kind in kinds.items()}
    rows, room, open_ = dict.fromkeys(kinds, 0), budget, [name for name in kinds if table_bytes[name]]
    while open_:
        total = sum(weights[name] for name in open_)
        share = {name: room * (weights[name] / total if total else 1 / len(open_)) for name in open_}
        full = [name for name in open_ if table_bytes[name] <= share[name]]
        for name in full or open_:
            rows[name] = len(kinds[name].counts) if full else int(share[name] // kinds[name].row_bytes)
        room -= sum(rows[name] * kinds[name].row_bytes for name in full or open_)
        open_ = [name for name in open_ if name not in full] if full else []
    for name in sorted(kinds, key=lambda name: -weights[name]):  # what rounding left
        more = min(room // kinds[name].row_bytes, len(kinds[name].counts) - rows[name])
        rows[name], room = rows[name] + int(more), room - int(more) * kinds[name].row_bytes
    return rows


def _greedy(kinds: Mapping[Name, RowWorth], budget: int) -> dict[Name, int]:
    """Return the number of rows of each type, taken by what a byte of them saves, as long as they fit; of equals those of the dearest type."""
    groups = []  # rows that are worth the same
    for name, kind in kinds.items():
        reads, sizes = np.unique(kind.counts, return_counts=True)
        mean = kind.counts.sum() / max(1, len(kind.counts))
        groups += [(kind.penalty * read, kind.penalty * mean, int(size), name) for read, size in zip(reads, sizes)]
    rows, room = dict.fromkeys(kinds, 0), budget
    for _, _, size, name in sorted(groups, key=lambda group: group[:2], reverse=True):
        taken = min(size, room // kinds[name].row_bytes)
        rows[name], room = rows[name] + taken, room - taken * kinds[name].row_bytes
    return rows
