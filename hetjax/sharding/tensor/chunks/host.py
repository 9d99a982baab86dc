"""Arrays that stay on the host, and their transfer to the devices and back; always a list with one array of each device of this process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sharding import mesh as meshes

Rows = list[np.ndarray]  # of each device that is here
Columns = list[dict[int, np.ndarray]]  # likewise, `[nodes, slice, ...]` by their place among what is sent of a type


def divided(mesh: Mesh, trees: Sequence[Any]) -> Any:
    """Put trees on the devices, one tree on each; these are copies that nobody changes."""
    return meshes.from_shards(mesh, trees)


class Repeated:
    """The trees that all devices are given again and again, the same ones every time.

    Args:
      mesh: the mesh of the devices.
      pinned: whether they wait in pinned memory of the host, from where devices fetch them by themselves; every device has a copy
        for itself, so that a CPU, which reads arrays where they are, has nothing of it.
    """

    def __init__(self, mesh: Mesh, pinned: bool):
        self.mesh, self.pinned, self.waiting = mesh, pinned, dict[Any, Any]()

    def on_devices(self, key: Any, tree: Any) -> Any:
        """Return the tree of this key, on the devices."""
        if not self.pinned:
            return meshes.put(self.mesh, P(), tree)
        if key not in self.waiting:
            self.waiting[key] = meshes.put(self.mesh, P(), tree, "pinned_host")
        return jax.device_put(self.waiting[key], NamedSharding(self.mesh, P()))


def zeros(mesh: Mesh, params: Any) -> Any:
    """Return zeros on every device, with the shapes of parameters."""
    each = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype), params)
    return divided(mesh, [each for _ in meshes.positions_here(mesh)])


def fetched(mesh: Mesh, tree: Any) -> list[Any]:
    """Return the tree of each device, the inverse of `divided`; these are copies, so that they keep no array on a device."""
    return [jax.tree.map(np.array, found) for found in meshes.shards(mesh, tree).values()]


def seen(mesh: Mesh, tree: Any) -> list[Any]:
    """Return what `fetched` returns, but without copies where the host sees a device's memory: for immediate use."""
    return [jax.tree.map(np.asarray, found) for found in meshes.shards(mesh, tree).values()]


def taken(array: np.ndarray, rows: np.ndarray | slice, count: int) -> np.ndarray:
    """Return some rows of an array, with zeros up to `count`."""
    found = array[rows]
    return np.asarray(pad(found, count, 0)) if len(found) < count else found.copy()


def columns_at(columns: Mapping[int, np.ndarray], places: Sequence[int], ids: np.ndarray) -> dict[int, np.ndarray]:
    """Return the columns at some places for some nodes; zeros for `NO_NODE`."""
    known = ids != NO_NODE
    rows = np.where(known, ids, 0)
    found = {place: np.take(columns[place], rows, axis=0) for place in places}
    for array in found.values():
        array[~known] = 0
    return found


def write(columns: Mapping[int, np.ndarray], ids: np.ndarray, found: Mapping[int, np.ndarray]) -> None:
    """Put rows where the nodes `ids` have theirs."""
    known = ids != NO_NODE
    for place, rows in found.items():
        columns[place][ids[known]] = rows[known]


def add(columns: Mapping[int, np.ndarray], ids: np.ndarray, found: Mapping[int, np.ndarray]) -> None:
    """Add rows to those of the nodes `ids`, which are distinct."""
    known = ids != NO_NODE
    for place, rows in found.items():
        columns[place][ids[known]] += rows[known]


def each(function: Callable[..., Any], *lists: Sequence[Any]) -> list[Any]:
    """Apply a function to the tree of every device."""
    return [function(*of) for of in zip(*lists, strict=True)]
