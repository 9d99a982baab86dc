"""Learnable rows of partitions: initialised as on one device, and gathered from all partitions, a row from the one that owns its node."""

from collections.abc import Iterable, Mapping

import jax
import numpy as np

from hetjax.kernels import tables
from hetjax.kernels.tables import PART, Shape, Table
from hetjax.sharding.averaging.average import Local
from hetjax.sharding.averaging.member import Member
from hetjax.sharding.averaging.turns import Turns
from hetjax.system.mapped import on_host


def drawn(key: jax.Array, learnable: Mapping[str, Shape], members: Mapping[int, Member]) -> dict[int, dict[str, Table]]:
    """Return the tables of every partition before the first step, in host memory.

    Args:
      key: the random key of tables.
      learnable: the shapes of the whole graph's tables.
    """
    found: dict[int, dict[str, Table]] = {part: {} for part in members}
    for t, shape in learnable.items():
        pieces: dict[int, list[Table]] = {part: [] for part in members}
        for number, piece in enumerate(tables.in_parts(key, t, shape)):
            rows = jax.tree.map(np.asarray, piece)
            for part, member in members.items():
                ids = member.sub.nodes[t]
                pieces[part].append(_some(rows, ids[ids // PART == number] - number * PART))
        for part, of in pieces.items():
            found[part][t] = Table(*map(np.concatenate, zip(*of)))
    return found


def own_rows(
    view: Mapping[int, Local], types: Iterable[str], members: Mapping[int, Member], turns: Turns
) -> dict[str, dict[int, Table]]:
    """Return the rows that the partitions of each device of this process own, per learnable type and ordered by their ids."""
    found: dict[str, dict[int, Table]] = {t: {} for t in types}
    for t, of in found.items():
        for device in sorted({part % turns.devices for part in view}):
            subs = {part: members[part].sub for part in turns.of(device)}
            ids = np.concatenate([sub.nodes[t][sub.own[t]] for sub in subs.values()])
            rows = [_some(jax.tree.map(on_host, view[part].state.tables[t]), sub.own[t]) for part, sub in subs.items()]
            order = np.argsort(ids, kind="stable")
            of[device] = Table(*(np.concatenate(leaves)[order] for leaves in zip(*rows)))
    return found


def _some(table: Table, rows: np.ndarray) -> Table:
    return Table(*(leaf[rows] for leaf in table))
