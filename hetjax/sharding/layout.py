"""Where the parts of a state live: one `TrainState` whole, or one per partition of what that partition reads.

A checkpoint holds the whole, one copy of every weight and table, so a run continues on any mesh.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.sharding.replicas import Group, Path, select
from hetjax.sharding.single import TrainState


class Layout:
    """Who has what.

    Args:
      weights: the partitions that have each weight.
      rows: the partitions that have each table.
      lines: the devices of each partition.
    """

    def __init__(self, weights: Mapping[Path, Group], rows: Mapping[str, Group], lines: Sequence[Mesh]):
        self.weights, self.rows, self.lines = weights, rows, lines

    def divide(self, state: TrainState) -> list[TrainState]:
        """A state for each partition, on its devices."""
        return [self._part(state, part, line) for part, line in enumerate(self.lines)]

    def _part(self, state: TrainState, part: int, line: Mesh) -> TrainState:
        wanted = {path for path, parts in self.weights.items() if part in parts}
        made = TrainState(
            state.step,
            select(state.params, wanted),
            vectors(lambda tree: select(tree, wanted), state.optimizer, like=state.params),
            {name: table for name, table in state.tables.items() if part in self.rows[name]},
        )
        return jax.device_put(jax.tree.map(np.array, made), NamedSharding(line, P()))

    def whole(self, states: Sequence[TrainState]) -> TrainState:
        """The one state of all; of replicas, which are equal, the first."""
        first = jax.tree.map(np.asarray, list(states))
        tables = {name: first[parts[0]].tables[name] for name, parts in self.rows.items()}
        params = self.unite([state.params for state in first])
        likes = [state.params for state in first]
        optimizer = jax.tree.map(
            lambda *leaves: (
                _vector(self.unite([_tree(v, like) for v, like in zip(leaves, likes)])) if leaves[0].ndim else leaves[0]
            ),
            *(state.optimizer for state in first),
        )
        return jax.device_put(TrainState(first[0].step, params, optimizer, tables), jax.devices()[0])

    def unite(self, trees: Sequence[Any]) -> Any:
        """One tree of weights from those of all partitions."""
        flat = [flatten_dict(tree) for tree in trees]
        return unflatten_dict({path: flat[parts[0]][path] for path, parts in self.weights.items()})


def vectors(change: Callable[[Any], Any], optimizer: Any, like: Any) -> Any:
    """An optimizer's state after a change of the tree of weights, which its vectors follow number by number."""
    return jax.tree.map(lambda leaf: _vector(change(_tree(leaf, like))) if leaf.ndim else leaf, optimizer)


def _tree(vector, like: Any) -> Any:
    leaves, form = jax.tree.flatten(like)
    pieces = np.split(np.asarray(vector), np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(form, [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves)])


def _vector(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
