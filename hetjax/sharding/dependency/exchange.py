"""Rows that masters send to their mirrors, and the mirrors' gradients, which go back and are summed.

Who sends which rows to whom is known before the step (`shares`), so nothing but rows is sent. All types of one width go
together. Two schedules: `all_to_all` is one collective, whose buckets are as large as the largest of any two partitions;
`ring` is as many as there are other partitions (NeutronStar, section 4.3): in step `j` worker `i` sends to worker `i + j`, and
the buckets of a step are as large as its largest.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.arrays import Array
from hetjax.cache import tables
from hetjax.models.layer import Exchange
from hetjax.models.segment import Rows, sum_rows
from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sampling.sampler import group
from hetjax.sharding.dependency.shares import Share
from hetjax.sharding.mesh import DATA
from hetjax.sharding.traffic import scope


class Mirrors(NamedTuple):
    """The rows of some types that a partition sends, and those that it reads; `NO_NODE` is padding.

    All types' rows stand one after the other, each with its padding: those that are here, and those that a block reads.

    Attributes:
      send: of every collective the rows that go out, int32 `[parts, capacity]`, or `[capacity]` of a step of a ring.
      back: the same the other way around: of every row that is here where it stands among those that go out.
      positions: per type int32 `[rows read]`, where each stands among those here, and after them those that come.
      inverse: int32 `[rows here and rows that come]`, the inverse: where each stands among all that are read.
    """

    send: tuple[Array, ...]
    back: Rows
    positions: tuple[Array, ...]
    inverse: Array


class Group(NamedTuple):
    """Types whose rows are sent together, being of one width and dtype.

    Attributes:
      kind: of traffic.
      types: in order.
    """

    kind: str
    types: tuple[str, ...]


class Layout(NamedTuple):
    """Where rows for others, and rows of others, stand among all that go out, or come.

    Attributes:
      parts: number of partitions.
      buckets: rows of a bucket: of the one collective, or of every step of the ring.
      ring: whether it is one.
    """

    parts: int
    buckets: tuple[int, ...]
    ring: bool

    def bucket(self, part: int, other: int) -> int:
        """The collective by which a partition sends to another."""
        return (other - part) % self.parts - 1 if self.ring else 0

    def goes(self, part: int, other: int) -> int:
        """Where what a partition sends to another begins."""
        return sum(self.buckets[: self.bucket(part, other)]) if self.ring else other * self.buckets[0]

    def comes(self, part: int, other: int) -> int:
        """Where what a partition gets from another begins."""
        return sum(self.buckets[: self.bucket(other, part)]) if self.ring else other * self.buckets[0]

    @property
    def rows(self) -> int:
        """Rows that go out of a partition, and that come to it, with padding."""
        return sum(self.buckets) if self.ring else self.parts * self.buckets[0]

    def shaped(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """`[rows]` by collective."""
        if not self.ring:
            return (rows.reshape(self.parts, self.buckets[0]),)
        return tuple(np.split(rows, np.cumsum(self.buckets)[:-1]))


def sizes(shares: Sequence[Share], types: Sequence[str], ring: bool) -> tuple[int, ...]:
    """The buckets that hold what all partitions send of some types in one layer."""
    parts = len(shares)
    counts = np.array([[sum(len(share.sent[t][q]) for t in types) for q in range(parts)] for share in shares])
    if not ring:
        return (int(counts.max(initial=0)),)
    return tuple(max(int(counts[i, (i + step) % parts]) for i in range(parts)) for step in range(1, parts))


def mirrors(
    share: Share, part: int, types: Sequence[str], layout: Layout, here: Mapping[str, int], needed: Mapping[str, int]
) -> Mirrors:
    """What a partition sends and reads of some types.

    Args:
      layout: which suffices.
      here, needed: the capacities of `Share.here` and `Share.needed`, per type.
    """
    start = dict(zip(types, np.cumsum([0, *(here[t] for t in types)])))
    total = sum(here[t] for t in types)
    send = np.full(layout.rows, NO_NODE)
    taken = {other: layout.comes(part, other) + total for other in range(layout.parts) if other != part}
    positions = []
    for t in types:
        place = share.place[t].astype(np.int32)
        for other in taken:
            lacks = share.origin[t] == other
            place[lacks] += np.int32(taken[other])
            taken[other] += int(np.count_nonzero(lacks))
        place[share.origin[t] == part] += np.int32(start[t])
        positions.append(pad(place, needed[t], NO_NODE))
    for other in taken:
        rows = np.concatenate([share.sent[t][other] + np.int32(start[t]) for t in types])
        begin = layout.goes(part, other)
        send[begin : begin + len(rows)] = rows
    every = np.concatenate(positions)
    known = np.flatnonzero(every != NO_NODE).astype(np.int32)
    inverse = np.full(total + layout.rows, NO_NODE)
    inverse[every[known]] = known
    return Mirrors(layout.shaped(send), _back(send, total), tuple(positions), inverse)


def _back(send: np.ndarray, rows: int) -> Rows:
    """Of every row the places at which it goes out."""
    places = np.flatnonzero(send != NO_NODE).astype(np.int32)
    turned = group(np.arange(len(places) + 1, dtype=np.int32), send[places], rows)
    assert turned.reverse_indptr is not None and turned.reverse_indices is not None
    return Rows(turned.reverse_indptr, pad(places[turned.reverse_indices], len(send), 0))


class Fetch(Exchange):
    """A layer's mirrors, fetched before it folds.

    Args:
      mirrors: per group, by its name.
      groups: these.
    """

    def __init__(self, mirrors: Mapping[str, Mirrors], groups: Mapping[str, Group]):
        self.mirrors, self.groups = mirrors, groups

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        read = dict(x)
        for name, mirrored in self.mirrors.items():
            kind, types = self.groups[name]
            read |= dict(zip(types, fetch(kind, mirrored, jnp.concatenate([x[t] for t in types]))))
        return read, prepare(read)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fetch(kind: str, mirrors: Mirrors, rows: jax.Array) -> tuple[jax.Array, ...]:
    """The rows that a partition reads, `[rows read, width]` per type; inside `shard_map`.

    Args:
      kind: of traffic.
      rows: those that are here, `[rows here, width]`.
    """
    out = [_read(rows, send) for send in mirrors.send]
    every = jnp.concatenate([rows, *_swap(kind, out)])
    return tuple(_read(every, positions) for positions in mirrors.positions)


def _fetch_forward(kind, mirrors, rows):
    return fetch(kind, mirrors, rows), (mirrors, jnp.zeros((len(rows), 0)))


def _fetch_backward(kind, residuals, gradients):
    mirrors, like = residuals
    every = _read(jnp.concatenate(gradients), mirrors.inverse)
    ends = np.cumsum([len(like), *(send.size for send in mirrors.send)])[:-1]
    own, *came = jnp.split(every, ends)
    shaped = [part.reshape(*send.shape, every.shape[1]) for part, send in zip(came, mirrors.send)]
    returned = jnp.concatenate(_swap(kind, shaped, back=True))
    return None, own + sum_rows(mirrors.back, returned)


fetch.defvjp(_fetch_forward, _fetch_backward)


def _read(rows: jax.Array, ids: Array) -> jax.Array:
    read = tables.rows_at if rows.dtype.itemsize >= 4 else tables.read
    return read(rows, ids.reshape(-1)).reshape(*ids.shape, rows.shape[1])


def _swap(kind: str, out: Sequence[jax.Array], back: bool = False) -> list[jax.Array]:
    """What others send, `[rows, width]` of every collective: to where the answer goes, if `back`."""
    came, parts = [], jax.lax.axis_size(DATA)
    with scope(kind):
        for step, rows in enumerate(out, start=1):
            if rows.ndim == 3:
                rows = jax.lax.all_to_all(rows, DATA, 0, 0, tiled=True) if rows.size else rows
                came.append(rows.reshape(-1, rows.shape[-1]))
            else:
                to = [(part, (part + (-step if back else step)) % parts) for part in range(parts)]
                came.append(jax.lax.ppermute(rows, DATA, to) if rows.size else rows)
    return came
