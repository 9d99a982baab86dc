"""The average of local models, `W = sum over i of a_i W_i` (CATGNN, section 3.3), and of the learnable rows that several have.

`a_i` is the share of the training nodes that partition `i` trains. A learnable row is not a weight that all update: a partition that did not
update it knows nothing new of it. So a row that several partitions have becomes their average in proportion to how often each has
updated it since the last time, and one that none has updated stays as it is. Its count becomes the average of theirs, rounded.

A device sums the arrays of its partitions, one after the other; one `psum` sums over devices.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.kernels.tables import Table
from hetjax.partition.neighbourhood import Subgraph
from hetjax.sharding.mesh import DATA, join, shard_map, shards
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import TrainState
from hetjax.system.arrays import Array

PARAMETERS = "averaged_parameters"  # the kind of traffic


class Local(NamedTuple):
    """The state of one partition.

    Attributes:
      state: the state, as the plain path has it; `step` counts its own steps.
      begun: the update count of each row at the last average, int32 `[nodes]` per learnable type, on the host.
    """

    state: TrainState
    begun: Mapping[str, Array]


class Place(NamedTuple):
    """The rows of one type of a partition that other partitions have too.

    Attributes:
      rows: int32 `[n]`, their row numbers in the partition.
      slots: int32 `[n]`, their positions among all rows that several partitions have.
    """

    rows: np.ndarray
    slots: np.ndarray


class Averages:
    """The programs that average.

    Args:
      mesh: the mesh, with the axis `data`.
      shares: `a_i` of every partition.
      places: the shared rows per learnable type, of every partition of this process.
      shared: the number of rows that several partitions have, per learnable type.
      moments: whether Adam's moments are averaged too, as the weights are.
    """

    def __init__(
        self,
        mesh: Mesh,
        shares: Sequence[float],
        places: Mapping[int, Mapping[str, Place]],
        shared: Mapping[str, int],
        moments: bool,
    ):
        self.mesh, self.shares, self.places, self.shared, self.moments = mesh, shares, places, shared, moments
        self.first, self.add = jax.jit(self._first), jax.jit(self._add)
        self.apply = jax.jit(self._apply)
        self.total = Program(PARAMETERS, shard_map(_psum, mesh, P(DATA), P(DATA)), mesh)

    def part(self, so_far: Any, part: int, local: Local) -> Any:
        """Return the sum on a device after one more of its partitions is added; the sum so far is None at the start."""
        about = local, self.shares[part], self.places[part]
        return self.first(*about) if so_far is None else self.add(so_far, *about)

    def totals(self, sums: Mapping[int, Any]) -> dict[int, Any]:
        """Return the sums over all devices, one for each device of this process in order, from the devices' own sums."""
        return shards(self.mesh, self.total(join(self.mesh, P(DATA), [sums[place] for place in sorted(sums)])))

    def averaged(self, part: int, local: Local, total: Any) -> Local:
        """Return the state with which a partition continues."""
        state = self.apply(local, total, self.places[part])
        return Local(state, {t: np.array(table.count) for t, table in state.tables.items()})

    def _first(self, local: Local, share: Array, places: Mapping[str, Place]) -> Any:
        vector, _ = ravel_pytree(self._weights(local.state))
        rows = {t: self._rows(local, t, place) for t, place in places.items()}
        return jax.tree.map(lambda leaf: leaf[None], (share * vector, rows))

    def _add(self, so_far: Any, local: Local, share: Array, places: Mapping[str, Place]) -> Any:
        return jax.tree.map(jnp.add, so_far, self._first(local, share, places))

    def _rows(self, local: Local, node_type: str, place: Place) -> jax.Array:
        """Return the sums over rows, `[shared rows, columns]`: rows and moments times their update counts, the counts, and the squared counts."""
        table = local.state.tables[node_type]
        updates = (table.count - local.begun[node_type])[place.rows].astype(table.rows.dtype)[:, None]
        leaves = [table.rows, table.mu, table.nu] if self.moments else [table.rows]
        columns = [updates * leaf[place.rows] for leaf in leaves]
        values = jnp.concatenate([*columns, updates, updates * updates], axis=1)
        return jnp.zeros((self.shared[node_type], values.shape[1]), values.dtype).at[place.slots].set(values)

    def _apply(self, local: Local, total: Any, places: Mapping[str, Place]) -> TrainState:
        vector, rows = jax.tree.map(lambda leaf: leaf[0], total)
        state = local.state
        params, vectors = ravel_pytree(self._weights(state))[1](vector)
        optimizer = _with_vectors(state.optimizer, vectors) if self.moments else state.optimizer
        held = dict(state.tables) | {t: self._table(local, t, place, rows[t]) for t, place in places.items()}
        return TrainState(state.step, params, optimizer, held)

    def _table(self, local: Local, node_type: str, place: Place, total: jax.Array) -> Table:
        table, begun = local.state.tables[node_type], local.begun[node_type]
        *values, updates, squares = jnp.split(total[place.slots], np.cumsum(self._widths(table)), axis=1)
        changed = updates > 0
        divisor = jnp.where(changed, updates, 1)

        def mean(leaf: jax.Array, value: jax.Array) -> jax.Array:
            return leaf.at[place.rows].set(jnp.where(changed, value / divisor, leaf[place.rows]))

        if not self.moments:
            return table._replace(rows=mean(table.rows, values[0]))
        more = jnp.round(squares / divisor)[:, 0].astype(table.count.dtype)
        count = table.count.at[place.rows].set(begun[place.rows] + more)
        rows, mu, nu = (mean(leaf, value) for leaf, value in zip(table[:3], values, strict=True))
        return Table(rows, mu, nu, count)

    def _weights(self, state: TrainState) -> tuple[Any, list[jax.Array]]:
        """Return the averaged vectors: the weights, and the vectors of their moments."""
        return state.params, [leaf for leaf in jax.tree.leaves(state.optimizer) if leaf.ndim and self.moments]

    def _widths(self, table: Table) -> list[int]:
        return [table.rows.shape[1]] * (3 if self.moments else 1) + [1]


def _psum(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.lax.psum(leaf, DATA), tree)


def _with_vectors(optimizer: Any, vectors: Sequence[jax.Array]) -> Any:
    """Return the optimizer's state with other moments; step counters stay, because every partition has done its own steps."""
    rest = iter(vectors)
    return jax.tree.map(lambda leaf: next(rest) if leaf.ndim else leaf, optimizer)


def shared_rows(subs: Mapping[int, Subgraph], counts: Mapping[str, np.ndarray]) -> dict[int, dict[str, Place]]:
    """Return the rows that each partition of this process shares with others.

    Args:
      counts: int32 `[nodes]` per learnable type how many partitions have each node.
    """
    slots = {t: np.cumsum(of > 1) - 1 for t, of in counts.items()}
    found: dict[int, dict[str, Place]] = {part: {} for part in subs}
    for part, sub in subs.items():
        for t, of in counts.items():
            rows = np.flatnonzero(of[sub.nodes[t]] > 1).astype(np.int32)
            if (of > 1).any():
                found[part][t] = Place(rows, slots[t][sub.nodes[t][rows]].astype(np.int32))
    return found
