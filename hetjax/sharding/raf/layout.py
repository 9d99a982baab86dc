"""The layout of a state: one whole `TrainState`, or one per partition with what that partition reads.

A checkpoint holds the whole, one copy of every weight and table, so a run continues on any mesh.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import PartitionSpec as P

from hetjax.kernels.tables import Table
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf.replicas import Group, Path, select
from hetjax.sharding.raf.site import Site
from hetjax.sharding.trainer import TrainState
from hetjax.system.arrays import Array
from hetjax.system.mapped import on_host


class Layout:
    """The partitions that have each weight and each table.

    Args:
      weights: the partitions that have each weight.
      rows: the partitions that have each table.
      site: this process's place.
    """

    def __init__(self, weights: Mapping[Path, Group], rows: Mapping[str, Group], site: Site):
        self.weights, self.rows, self.site = weights, rows, site

    def shard(self, state: TrainState) -> dict[int, TrainState]:
        """Return a state for each partition that is here, on its devices; it may lack tables."""
        state = jax.tree.map(np.array, state)
        return {part: meshes.put(self.site.row(part), P(), self._part(state, part)) for part in self.site.parts}

    def _part(self, state: TrainState, part: int) -> TrainState:
        wanted = {path for path, parts in self.weights.items() if part in parts}
        return TrainState(
            state.step,
            select(state.params, wanted),
            vectors(lambda tree: select(tree, wanted), state.optimizer, like=state.params),
            {name: table for name, table in state.tables.items() if part in self.rows[name]},
        )

    def gather(self, states: Mapping[int, TrainState]) -> TrainState | None:
        """Return the one state of all, as host arrays, in process 0; it has the first of replicas, which are equal."""
        mine: dict[str, np.ndarray] = {}
        for part, state in states.items():
            if self.site.leads(part):
                mine |= {_name(path): leaf for path, leaf in self._pieces(part, state).items()}
        every = self.site.group.gather("state", mine)
        if every is None:
            return None
        return self._assembled(every, next(iter(states.values())))

    def _pieces(self, part: int, state: TrainState) -> dict[Path, np.ndarray]:
        """Return the arrays that no partition before this one has, by names that are the same everywhere; tables on the host are not copied."""
        state = jax.tree.map(on_host, state)
        trees = {"params": state.params} | {
            f"optimizer {number}": _tree(leaf, state.params)
            for number, leaf in enumerate(jax.tree.leaves(state.optimizer))
            if leaf.ndim
        }
        pieces = {
            (name, *path): leaf
            for name, tree in trees.items()
            for path, leaf in flatten_dict(tree).items()
            if self.weights[path][0] == part
        }
        for name, table in state.tables.items():
            if self.rows[name][0] == part:
                pieces |= {("tables", name, key): leaf for key, leaf in table._asdict().items()}
        return pieces

    def _assembled(self, pieces: Mapping[str, np.ndarray], like: TrainState) -> TrainState:
        def united(name: str) -> Any:
            return unflatten_dict({path: pieces[_name((name, *path))] for path in self.weights})

        leaves, form = jax.tree.flatten(like.optimizer)
        leaves = [
            _vector(united(f"optimizer {number}")) if leaf.ndim else np.asarray(leaf)
            for number, leaf in enumerate(leaves)
        ]
        tables = {name: Table(*(pieces[_name(("tables", name, key))] for key in Table._fields)) for name in self.rows}
        return TrainState(np.asarray(like.step), united("params"), jax.tree.unflatten(form, leaves), tables)


def _name(path: Path) -> str:
    return json.dumps(path)


def vectors(change: Callable[[Any], Any], optimizer: Any, like: Any) -> Any:
    """Return an optimizer's state after a change of the tree of weights, which its vectors follow element by element."""
    return jax.tree.map(lambda leaf: _vector(change(_tree(leaf, like))) if leaf.ndim else leaf, optimizer)


def _tree(vector: Array, like: Any) -> Any:
    leaves, form = jax.tree.flatten(like)
    pieces = np.split(np.asarray(vector), np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(form, [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves)])


def _vector(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
