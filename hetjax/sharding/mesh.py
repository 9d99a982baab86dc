"""Meshes of devices, and arrays that cross them.

The mesh has the axes `relation` and `data`: a row is a partition, the devices of a row are its replicas. A partition
runs its own programs on its row; programs for all run on the whole mesh, or on the rows that take part. Between the
two, arrays are regrouped device by device, and nothing is copied.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.errors import InputError

RELATION, DATA = "relation", "data"
BOTH = (RELATION, DATA)


def provide(count: int) -> None:
    """Have as many CPU devices as a mesh needs, if jax has not started; accelerators are what they are."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # jax refuses to be told twice
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        return  # jax has started with the devices that it has; `make` says so if they do not suffice


def make(relation: int, data: int) -> Mesh:
    """The mesh `relation` x `data` of this process's devices.

    Raises:
      InputError: there are fewer devices.
    """
    devices, needed = jax.devices(), relation * data
    if needed > len(devices):
        raise InputError(
            f"mesh.relation {relation} x mesh.data {data} needs {needed} devices != {len(devices)} ({devices[0].platform}) that there are"
        )
    return _mesh(np.array(devices[:needed]).reshape(relation, data), BOTH)


def row(mesh: Mesh, part: int) -> Mesh:
    """The devices of one partition, a mesh of its own with the axis `data`."""
    return _mesh(mesh.devices[part], (DATA,))


def rows(mesh: Mesh, parts: Sequence[int]) -> Mesh:
    """The devices of some partitions."""
    return _mesh(mesh.devices[list(parts)], BOTH)


def _mesh(devices: np.ndarray, axes: tuple[str, ...]) -> Mesh:
    return Mesh(devices, axes, axis_types=(AxisType.Auto,) * len(axes))


def join(mesh: Mesh, spec: P, trees: Sequence[Any]) -> Any:
    """One tree of arrays on the mesh from a tree per row, each on the row's devices; nothing is copied.

    Args:
      mesh: with a row per tree.
      spec: how the result is sharded; what each device has is its shard.
    """
    sharding, axes = NamedSharding(mesh, spec), [_names(entry) for entry in spec]

    def one(*leaves):
        shards = [shard.data for leaf in leaves for shard in leaf.addressable_shards]
        shape = list(shards[0].shape)
        for axis, names in enumerate(axes):
            shape[axis] *= math.prod(mesh.shape[name] for name in names)
        return jax.make_array_from_single_device_arrays(tuple(shape), sharding, shards)

    return jax.tree.map(one, *trees)


def split(mesh: Mesh, spec: P, tree: Any) -> list[Any]:
    """The inverse of `join`: a tree per row of the mesh, sharded over `data` where `spec` says so."""
    lines = [row(mesh, part) for part in range(len(mesh.devices))]
    local = P(*(DATA if DATA in _names(entry) else None for entry in spec))

    def one(line: Mesh, leaf: jax.Array):
        found = {shard.device: shard.data for shard in leaf.addressable_shards}
        shards = [found[device] for device in line.devices.flat]
        shape = list(shards[0].shape)
        for axis, entry in enumerate(local):
            shape[axis] *= line.size if entry else 1
        return jax.make_array_from_single_device_arrays(tuple(shape), NamedSharding(line, local), shards)

    return [jax.tree.map(lambda leaf: one(line, leaf), tree) for line in lines]


def _names(entry) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
