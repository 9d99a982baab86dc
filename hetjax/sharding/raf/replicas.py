"""The copies that several partitions have: found by intersecting what they read, summed over the partitions, updated alike."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import BOTH, RELATION
from hetjax.sharding.raf.kinds import ROWS, WEIGHTS
from hetjax.sharding.traffic import Program
from hetjax.system.arrays import Array

Path = tuple[str, ...]  # of a weight
Group = tuple[int, ...]  # partitions


def owners(has: Sequence[Any]) -> dict[Any, Group]:
    """Return the partitions that have each key, in an order that is the same for all."""
    return {key: tuple(p for p, own in enumerate(has) if key in own) for key in sorted(frozenset().union(*has))}


def groups(owned: Mapping[Any, Group]) -> dict[Group, tuple]:
    """Return the keys that are to be summed over each group of several partitions."""
    several = sorted({group for group in owned.values() if len(group) > 1})
    return {group: tuple(key for key, parts in owned.items() if parts == group) for group in several}


def paths(tree: Any) -> frozenset[Path]:
    """Return the paths of the weights of a tree."""
    return frozenset(flatten_dict(tree))


def select(tree: Any, wanted: Collection[Path]) -> Any:
    """Return the weights of a tree at some paths."""
    return unflatten_dict({path: leaf for path, leaf in flatten_dict(tree).items() if path in wanted})


def pack(leaves: Sequence[jax.Array]) -> jax.Array:
    """Return several arrays as one, `[1, elements]`."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])[None]


def unpack(packed: jax.Array, like: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the arrays of a packed one: the inverse of `pack`."""
    ends, leaves = 0, []
    for leaf in like:
        leaves.append(packed[0, ends : ends + leaf.size].reshape(leaf.shape))
        ends += leaf.size
    return leaves


def within(group: Group, parts: Collection[int]) -> list[int]:
    """Return the members of a group that are among some partitions."""
    return [part for part in group if part in parts]


class Sums:
    """The sum of an array `[1, n]` over the partitions of a group; each gets it. Inputs and results are those of this process's partitions."""

    def __init__(self, mesh: Mesh, group: Group):
        self.mesh = meshes.rows(mesh, group)
        summed = meshes.shard_map(self._sum, self.mesh, P(RELATION), P(RELATION))
        self.run = Program(WEIGHTS, summed, self.mesh)

    def __call__(self, trees: Mapping[int, jax.Array]) -> dict[int, jax.Array]:
        total = self.run(meshes.join(self.mesh, P(RELATION), list(trees.values())))
        return dict(zip(trees, meshes.split(self.mesh, P(RELATION), total), strict=True))

    @staticmethod
    def _sum(packed: jax.Array) -> jax.Array:
        return jax.lax.psum(packed, RELATION)


class Rows:
    """The gradients of the rows that any device of a group read, each row once.

    Args:
      mesh: the mesh of all partitions.
      group: the partitions that read the type.
      nodes: the number of rows of the table.
    """

    def __init__(self, mesh: Mesh, group: Group, nodes: int):
        self.mesh, self.nodes = meshes.rows(mesh, group), nodes
        merged = meshes.shard_map(self._merge, self.mesh, (P(BOTH), P(BOTH)), (P(), P()))
        self.run = Program(ROWS, merged, self.mesh)

    def __call__(self, trees: Mapping[int, tuple[Array, jax.Array]]) -> dict[int, tuple[jax.Array, jax.Array]]:
        """Return distinct ids and the sums of their gradients, the same for all, from ids `[n]` and gradients `[n, width]` of each partition."""
        merged = self.run(*meshes.join(self.mesh, P(BOTH), list(trees.values())))
        return dict(zip(trees, meshes.split(self.mesh, P(), merged), strict=True))

    def _merge(self, ids: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
        if not len(ids):
            return ids, gradient
        ids, gradient = jax.lax.all_gather((ids, gradient), BOTH, tiled=True)
        size = min(len(ids), self.nodes + 1)
        unique, places = jnp.unique(ids, return_inverse=True, size=size, fill_value=NO_NODE)
        return unique, jax.ops.segment_sum(gradient, places.reshape(-1), size)
