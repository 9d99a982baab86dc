"""Arrays that stay on the host, and what of them goes to the devices and comes back; always a list with one of each device here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sharding import mesh as meshes

Rows = list[np.ndarray]  # of each device that is here
Columns = list[dict[int, np.ndarray]]  # likewise, `[nodes, slice, ...]` by their place among what is sent of a type


def divided(mesh: Mesh, trees: Sequence[Any]) -> Any:
    """On the devices, of each its own tree; these are copies that nobody changes."""
    return meshes.from_shards(mesh, trees)


def alike(mesh: Mesh, tree: Any) -> Any:
    """On the devices, of all the same."""
    return meshes.put(mesh, P(), tree)


def fetched(mesh: Mesh, tree: Any) -> list[Any]:
    """The inverse of `divided`; copies, so that nothing stays on a device for the sake of what is read of it."""
    return [jax.tree.map(np.array, found) for found in meshes.shards(mesh, tree).values()]


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
