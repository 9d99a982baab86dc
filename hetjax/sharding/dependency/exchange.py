"""Rows that masters send to their mirrors, and the mirrors' gradients, which go back and are summed.

The rows that each partition sends to each are known before the step (`shares`), so nothing but rows is sent. All types of one width go
together, by the collectives of a `Schedule`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hetjax.graph.homogeneous import offsets
from hetjax.kernels import tables
from hetjax.kernels.segment import Rows, sum_rows
from hetjax.models.exchange import Exchange
from hetjax.sampling.blocks import NO_NODE, Adjacency, Block, pad
from hetjax.sampling.sampler import group
from hetjax.sharding.dependency.groups import Group
from hetjax.sharding.dependency.pieces import Piece
from hetjax.sharding.dependency.schedule import Schedule
from hetjax.sharding.dependency.shares import Share
from hetjax.sharding.mesh import DATA
from hetjax.sharding.traffic import scope
from hetjax.system.arrays import Array


class Mirrors(NamedTuple):
    """The rows of some types that a partition sends, and those that it reads; `NO_NODE` is padding.

    All types' rows stand one after the other, each with its padding: those that are here, and those that a block reads.

    Attributes:
      schedule: the schedule of the collectives.
      send: the rows that go out, round by round, int32 `[rows]`.
      back: the inverse: the positions of every local row among those that go out.
      positions: int32 `[rows read]` per piece and type, the positions of the rows among those that the piece reads: if there is
        one piece all that are here, and after them those that come; if there are several those that are here, and then those that
        come in each step of a ring.
      inverse: the inverse, int32 per piece: the positions of each of these rows among all that are read.
    """

    schedule: Schedule
    send: Array
    back: Rows
    positions: tuple[tuple[Array, ...], ...]
    inverse: tuple[Array, ...]


class Fetched(struct.PyTreeNode):
    """The rows that a partition fetches before a layer.

    Attributes:
      mirrors: the `Mirrors` per group, by its name.
      adjacency: the edges of every piece after the first, which has the block's.
      own_here: whether all targets' own rows are in the first piece.
    """

    mirrors: Mapping[str, Mirrors]
    adjacency: tuple[Mapping[str, Adjacency], ...] = ()
    own_here: bool = struct.field(pytree_node=False, default=True)


def counts(shares: Sequence[Share], types: Sequence[str]) -> np.ndarray:
    """Return the number of rows of some types that each partition sends to each in one layer, `[parts, parts]`."""
    parts = range(len(shares))
    return np.array([[sum(len(share.sent[t][other]) for t in types) for other in parts] for share in shares])


def mirrors(
    share: Share,
    pieces: Sequence[Piece],
    part: int,
    types: Sequence[str],
    schedule: Schedule,
    here: Mapping[str, int],
    needed: Sequence[Mapping[str, int]],
) -> Mirrors:
    """Return the rows that a partition sends and reads of some types.

    Args:
      pieces: the pieces of the share.
      schedule: a schedule that has room for them.
      here: the capacities of `Share.here`, per type.
      needed: the capacities of every piece's rows, per type.
    """
    start = offsets({t: here[t] for t in types})
    total = sum(here[t] for t in types)
    send = np.full(schedule.total, NO_NODE)
    positions = {t: share.place[t] + np.int32(start[t]) for t in types}
    for other in range(schedule.parts):
        if other != part:
            rows = np.concatenate([share.sent[t][other] + np.int32(start[t]) for t in types])
            send[schedule.slots(part, other)[0][: len(rows)]] = rows
            came, taken = schedule.slots(other, part)[1], 0
            for t in types:
                lacks = np.flatnonzero(share.origin[t] == other)
                positions[t][lacks] = total + came[taken : taken + len(lacks)]
                taken += len(lacks)
    regions = [range(total + schedule.total)]
    if len(pieces) > 1:
        regions = [range(total), *(range(total + rows.start, total + rows.stop) for rows in schedule.regions())]
    padded = tuple(
        tuple(pad(positions[t][piece.rows[t]] - np.int32(region.start), room[t], NO_NODE) for t in types)
        for piece, room, region in zip(pieces, needed, regions)
    )
    inverse = tuple(_inverse(np.concatenate(read), len(region)) for read, region in zip(padded, regions))
    return Mirrors(schedule, send, _back(send, total), padded, inverse)


def _inverse(positions: np.ndarray, rows: int) -> np.ndarray:
    known = np.flatnonzero(positions != NO_NODE).astype(np.int32)
    inverse = np.full(rows, NO_NODE)
    inverse[positions[known]] = known
    return inverse


def _back(send: np.ndarray, rows: int) -> Rows:
    """Return the places at which each row is sent."""
    places = np.flatnonzero(send != NO_NODE).astype(np.int32)
    turned = group(np.arange(len(places) + 1, dtype=np.int32), send[places], rows)
    assert turned.reverse_indptr is not None and turned.reverse_indices is not None
    return Rows(turned.reverse_indptr, pad(places[turned.reverse_indices], len(send), 0))


class Fetch(Exchange):
    """The exchange that fetches a layer's mirrors before it aggregates.

    Args:
      fetched: the rows to fetch, and those that are aggregated.
      groups: the groups of types, by name.
    """

    def __init__(self, fetched: Fetched, groups: Mapping[str, Group]):
        self.fetched, self.groups = fetched, groups

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Any]:
        pieces = [dict(x), *({} for _ in self.fetched.adjacency)]
        for name, mirrored in self.fetched.mirrors.items():
            kind, types = self.groups[name]
            for piece, rows in zip(pieces, fetch(kind, mirrored, jnp.concatenate([x[t] for t in types]))):
                piece |= dict(zip(types, rows))
        own = pieces[0]
        if not self.fetched.own_here:
            own = {t: jnp.concatenate([piece[t] for piece in pieces if t in piece]) for t in own}
        return own, [prepare(piece) for piece in pieces]

    def pieces(self, block: Block, sources: Any) -> Sequence[tuple[Mapping[str, Adjacency], Mapping[str, Any]]]:
        return list(zip((block.adjacency, *self.fetched.adjacency), sources, strict=True))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fetch(kind: str, mirrors: Mirrors, rows: jax.Array) -> tuple[tuple[jax.Array, ...], ...]:
    """Fetch the rows that a partition reads, `[rows read, width]` per piece and type; to be called inside `shard_map`.

    No piece waits for the rows of later pieces, and no gradient of a piece for those of other pieces.

    Args:
      kind: the kind of traffic.
      rows: the local rows, `[rows here, width]`.
    """
    came = _swap(kind, mirrors.schedule, _read(rows, mirrors.send))
    read = _by_piece(mirrors, rows, came)
    return tuple(tuple(_read(piece, ids) for ids in of) for piece, of in zip(read, mirrors.positions))


def _fetch_forward(kind, mirrors, rows):
    return fetch(kind, mirrors, rows), (mirrors, jnp.zeros((len(rows), 0)))


def _fetch_backward(kind, residuals, gradients):
    mirrors, like = residuals
    back = [_read(jnp.concatenate(of), ids) for of, ids in zip(gradients, mirrors.inverse)]
    own, came = jnp.split(jnp.concatenate(back), [len(like)])
    return None, own + sum_rows(
        mirrors.back, jnp.concatenate([came[:0], *_swap(kind, mirrors.schedule, came, back=True)])
    )


fetch.defvjp(_fetch_forward, _fetch_backward)


def _read(rows: jax.Array, ids: Array) -> jax.Array:
    return (tables.rows_at if rows.dtype.itemsize >= 4 else tables.read)(rows, ids)


def _by_piece(mirrors: Mirrors, rows: jax.Array, came: list[jax.Array]) -> list[jax.Array]:
    """Return the rows that every piece reads of the local rows and of those that are received, round by round."""
    if len(mirrors.positions) == 1:
        return [jnp.concatenate([rows, *came])]
    return [rows, *(jnp.concatenate([rows[:0], *came[step]]) for step in mirrors.schedule.steps)]


def _swap(kind: str, schedule: Schedule, out: jax.Array, back: bool = False) -> list[jax.Array]:
    """Exchange the rows of every round, `[rows, width]`; `back` reverses every pair."""
    starts = np.cumsum([0, *map(schedule.rows, range(len(schedule.rounds)))])
    came = []
    with scope(kind):
        for (size, pairs), start, end in zip(schedule.rounds, starts, starts[1:]):
            rows = out[start:end]
            if pairs:
                came.append(jax.lax.ppermute(rows, DATA, [pair[::-1] for pair in pairs] if back else pairs))
            else:
                lines = rows.reshape(schedule.parts, size, rows.shape[1])
                came.append(jax.lax.all_to_all(lines, DATA, 0, 0, tiled=True).reshape(rows.shape))
    return came
