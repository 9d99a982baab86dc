"""Rows that masters send to their mirrors, and the mirrors' gradients, which go back and are summed.

Who sends which rows to whom is known before the step (`shares`), so nothing but rows is sent. All types of one width go
together, by the collectives of a `Schedule`.
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
from hetjax.sharding.dependency.groups import Group
from hetjax.sharding.dependency.schedule import Schedule
from hetjax.sharding.dependency.shares import Share
from hetjax.sharding.mesh import DATA
from hetjax.sharding.traffic import scope


class Mirrors(NamedTuple):
    """The rows of some types that a partition sends, and those that it reads; `NO_NODE` is padding.

    All types' rows stand one after the other, each with its padding: those that are here, and those that a block reads.

    Attributes:
      schedule: of the collectives.
      send: the rows that go out, round by round, int32 `[rows]`.
      back: the same the other way around: of every row that is here where it stands among those that go out.
      positions: per type int32 `[rows read]`, where each stands among those here, and after them those that come.
      inverse: int32 `[rows here and rows that come]`, the inverse: where each stands among all that are read.
    """

    schedule: Schedule
    send: Array
    back: Rows
    positions: tuple[Array, ...]
    inverse: Array


def counts(shares: Sequence[Share], types: Sequence[str]) -> np.ndarray:
    """Rows of some types that each partition sends to each in one layer, `[parts, parts]`."""
    parts = range(len(shares))
    return np.array([[sum(len(share.sent[t][other]) for t in types) for other in parts] for share in shares])


def mirrors(
    share: Share,
    part: int,
    types: Sequence[str],
    schedule: Schedule,
    here: Mapping[str, int],
    needed: Mapping[str, int],
) -> Mirrors:
    """What a partition sends and reads of some types.

    Args:
      schedule: that has room for it.
      here, needed: the capacities of `Share.here` and `Share.needed`, per type.
    """
    start = dict(zip(types, np.cumsum([0, *(here[t] for t in types)])))
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
    padded = tuple(np.asarray(pad(positions[t], needed[t], NO_NODE)) for t in types)
    every = np.concatenate(padded)
    known = np.flatnonzero(every != NO_NODE).astype(np.int32)
    inverse = np.full(total + schedule.total, NO_NODE)
    inverse[every[known]] = known
    return Mirrors(schedule, send, _back(send, total), padded, inverse)


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
    every = jnp.concatenate([rows, _swap(kind, mirrors.schedule, _read(rows, mirrors.send))])
    return tuple(_read(every, positions) for positions in mirrors.positions)


def _fetch_forward(kind, mirrors, rows):
    return fetch(kind, mirrors, rows), (mirrors, jnp.zeros((len(rows), 0)))


def _fetch_backward(kind, residuals, gradients):
    mirrors, like = residuals
    own, came = jnp.split(_read(jnp.concatenate(gradients), mirrors.inverse), [len(like)])
    return None, own + sum_rows(mirrors.back, _swap(kind, mirrors.schedule, came, back=True))


fetch.defvjp(_fetch_forward, _fetch_backward)


def _read(rows: jax.Array, ids: Array) -> jax.Array:
    return (tables.rows_at if rows.dtype.itemsize >= 4 else tables.read)(rows, ids)


def _swap(kind: str, schedule: Schedule, out: jax.Array, back: bool = False) -> jax.Array:
    """What others send, `[rows, width]`; `back` turns every pair around."""
    starts = np.cumsum([0, *map(schedule.rows, range(len(schedule.rounds)))])
    came = [out[:0]]
    with scope(kind):
        for (size, pairs), start, end in zip(schedule.rounds, starts, starts[1:]):
            rows = out[start:end]
            if pairs:
                came.append(jax.lax.ppermute(rows, DATA, [pair[::-1] for pair in pairs] if back else pairs))
            else:
                lines = rows.reshape(schedule.parts, size, rows.shape[1])
                came.append(jax.lax.all_to_all(lines, DATA, 0, 0, tiled=True).reshape(rows.shape))
    return jnp.concatenate(came)
