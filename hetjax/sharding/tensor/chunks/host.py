"""Arrays that stay on the host, and what of them goes to the devices and comes back; always a list with one of each device here."""

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
    """On the devices, of each its own tree; these are copies that nobody changes."""
    return meshes.from_shards(mesh, trees)


class Repeated:
    """Trees that all devices are given again and again, the same ones every time.

    Args:
      mesh: of the devices.
      pinned: whether they wait in pinned memory of the host, from where devices fetch them by themselves; of every device a copy
        for itself, so that a CPU, which reads arrays where they are, has nothing of it.
    """

    def __init__(self, mesh: Mesh, pinned: bool):
        self.mesh, self.pinned, self.waiting = mesh, pinned, dict[Any, Any]()

    def on_devices(self, key: Any, tree: Any) -> Any:
        """The tree of this key."""
        if not self.pinned:
            return meshes.put(self.mesh, P(), tree)
        if key not in self.waiting:
            self.waiting[key] = meshes.put(self.mesh, P(), tree, "pinned_host")
        return jax.device_put(self.waiting[key], NamedSharding(self.mesh, P()))


def zeros(mesh: Mesh, params: Any) -> Any:
    """Of every device, of the shapes of parameters."""
    each = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype), params)
    return divided(mesh, [each for _ in meshes.positions_here(mesh)])


def fetched(mesh: Mesh, tree: Any) -> list[Any]:
    """The inverse of `divided`; copies, so that nothing stays on a device for the sake of what is read of it."""
    return [jax.tree.map(np.array, found) for found in meshes.shards(mesh, tree).values()]


def seen(mesh: Mesh, tree: Any) -> list[Any]:
    """As `fetched`, but no copies where the host sees a device's memory: to be used at once."""
    return [jax.tree.map(np.asarray, found) for found in meshes.shards(mesh, tree).values()]


def taken(array: np.ndarray, rows: np.ndarray | slice, count: int) -> np.ndarray:
    """Some rows of an array, and zeros up to `count`."""
    found = array[rows]
    return np.asarray(pad(found, count, 0)) if len(found) < count else found.copy()


def columns_at(columns: Mapping[int, np.ndarray], places: Sequence[int], ids: np.ndarray) -> dict[int, np.ndarray]:
    """Of some nodes what is at some places; zeros for `NO_NODE`."""
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
    """A function of what every device has."""
    return [function(*of) for of in zip(*lists, strict=True)]
