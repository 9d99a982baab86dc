"""Rows fetched from their owners, and gradients given back to them: the two sides of vanilla execution's all-to-all.

Every partition sorts the rows that it wants by owner, on the host (`request_rows`), and in the step sends each owner the row
numbers and gets the rows (`fetch`). Gradients go the same way back; the owner adds up those of the same row
(`give_back`). What a partition owns itself it reads in position: it has no part in the all-to-all, whose buckets are as
large as the largest of any two partitions and would otherwise be as large as what partitions keep to themselves.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.arrays import Array
from hetjax.cache import tables
from hetjax.compiled import compiled
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding.trainer import Rows


class RowExchange(NamedTuple):
    """The rows of one node type that a partition reads in a step; `NO_NODE` is padding.

    Attributes:
      remote: int32 `[parts, capacity]`, numbers of rows at each other partition; its own line is padding.
      own: int32 `[own capacity]`, numbers of rows that it has.
      positions: int32 `[n]`, where each of the rows, in the order of the batch, stands among those that come: the lines of
        `remote` one after the other, then `own`.
      back: int32 `[parts * capacity + own capacity]`, the inverse, for gradients; None of static features.
    """

    remote: Array
    own: Array
    positions: Array
    back: "Array | None"


class RowCapacities(NamedTuple):
    """Capacities of a `RowExchange`: rows of the batch, of any one other owner, of the partition itself."""

    rows: int
    remote: int
    own: int


def request_rows(
    owned: Owned, name: str, ids: np.ndarray, part: int, capacities: RowCapacities, learnable: bool
) -> RowExchange:
    """What a partition asks for to have the rows `ids`, int32, distinct; there must be capacities."""
    remote, own = np.full((owned.parts, capacities.remote), NO_NODE), np.full(capacities.own, NO_NODE)
    positions, back = np.full(capacities.rows, NO_NODE), np.full(remote.size + capacities.own, NO_NODE)
    _sort_by_owner(ids, owned.owner[name], owned.local[name], part, remote, own, positions, back)
    return RowExchange(remote, own, positions, back if learnable else None)


@compiled
def _sort_by_owner(ids, owner, local, part, remote, own, positions, back):
    cursor = np.zeros(remote.shape[0], np.int64)
    for row in range(len(ids)):
        of, number = owner[ids[row]], local[ids[row]]
        slot = cursor[of]
        cursor[of] += 1
        if of == part:
            position = remote.size + slot
            own[slot] = number
        else:
            position = of * remote.shape[1] + slot
            remote[of, slot] = number
        positions[row] = position
        back[position] = row


def fetch(
    rows: Rows, exchanges: Mapping[str, RowExchange], axis: str
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """The rows that a partition wants; inside `shard_map`.

    Args:
      rows: what the partition owns, `[rows, width]`.
      exchanges: of at least the same types.
      axis: of the mesh, with a device per partition.

    Returns:
      `(rows [n, width], requested)`: zeros where there is padding, and the numbers of own rows that each partition asked for,
      int32 `[parts, capacity]`; one exchange serves the numbers of all types.
    """
    requested = _exchange_numbers({name: exchanges[name].remote for name in rows}, axis)
    fetched = {}
    for name, matrix in rows.items():
        received = _swap(tables.read(matrix, requested[name]), axis).reshape(requested[name].size, matrix.shape[1])
        every = jnp.concatenate([received, tables.read(matrix, exchanges[name].own)])
        fetched[name] = tables.read(every, exchanges[name].positions)
    return fetched, requested


def give_back(
    gradient: jax.Array, exchange: RowExchange, requested: jax.Array, rows: int, axis: str
) -> tuple[jax.Array, jax.Array]:
    """The gradients of a partition's own rows, summed over all partitions that read them; inside `shard_map`.

    Args:
      gradient: `[n, width]`, of the rows that it fetched.
      requested: from `fetch`.
      rows: how many it owns.

    Returns:
      `(numbers, gradients)`: int32 `[m]` of own rows, each once, the rest out of range; `[m, width]`.
    """
    every = tables.read(gradient, exchange.back)
    cut, width = exchange.remote.size, gradient.shape[1]
    received = _swap(every[:cut].reshape(*exchange.remote.shape, width), axis).reshape(cut, width)
    numbers = jnp.concatenate([requested.reshape(-1), exchange.own])
    return merge(numbers, jnp.concatenate([received, every[cut:]]), rows)


def merge(numbers: jax.Array, gradient: jax.Array, rows: int) -> tuple[jax.Array, jax.Array]:
    """Sum the gradients of the same row; returns the numbers, each once, the rest out of range, and the sums.

    The first position of a row stands for all. It is found in memory of a number per row, without sorting.
    """
    positions = jnp.arange(len(numbers), dtype=jnp.int32)
    first = jnp.full(rows, NO_NODE).at[numbers].min(positions, mode="drop")
    leader = first.at[numbers].get(mode="fill", fill_value=NO_NODE)
    return jnp.where(leader == positions, numbers, NO_NODE), jax.ops.segment_sum(gradient, leader, len(numbers))


def _exchange_numbers(remote: Mapping[str, Array], axis: str) -> dict[str, jax.Array]:
    if not remote:
        return {}
    ends = np.cumsum([numbers.shape[1] for numbers in remote.values()])[:-1]
    received = _swap(jnp.concatenate(list(remote.values()), axis=1), axis)
    return dict(zip(remote, jnp.split(received, ends, axis=1)))


def _swap(array: Array, axis: str) -> Array:
    """Line `q` of `[parts, ...]` goes to partition `q`, whose line comes here."""
    return jax.lax.all_to_all(array, axis, 0, 0, tiled=True) if array.size else array
