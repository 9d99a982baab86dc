"""Meshes of devices, and arrays that cross them.

The mesh has the axes `relation` and `data`: a row is a partition, the devices of a row are its replicas. A partition
runs its own programs on its row; programs for all run on the whole mesh, or on the rows that take part. Between the
two, arrays are regrouped device by device, and nothing is copied. Where columns are divided, the mesh has the axis `feature`:
alone on the whole graph, beside `data` in mini-batches, and within the rows where relations are divided too.

A row may span several processes, and a process may have several rows. Every process runs the programs of the rows, and
of the groups of rows, that have devices of its own, in the same order as all others.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jaxlib
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.system import runtime, trimming
from hetjax.system.errors import InputError

RELATION, DATA, FEATURE = "relation", "data", "feature"
BOTH = (RELATION, DATA)
MOST_PER_CORE = 8  # CPU devices, for trying a mesh: each takes threads and memory


def provide_cpu_devices(count: int, alone: bool = False) -> None:
    """Have as many CPU devices as a mesh needs, or as the machine allows, if jax has not started; the number of accelerators is fixed.

    From then on memory that compilers free goes back to the system, too (`trimming`).

    Args:
      count: the number of devices of this process.
      alone: whether the one device of this process is the only one of the run. It then computes in the thread that asks it to: in
        threads of jax's own a step often allocates its memory before the last one has freed that, and both are in use
        (docs/strategies/single_results.md, Parts of a step). Several devices compute side by side, in jax's threads.
    """
    trimming.trim_after_compiling()
    jax.config.update("jax_cpu_enable_async_dispatch", not alone)
    if alone:
        return
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # jax refuses to be told twice
    try:
        jax.config.update("jax_num_cpu_devices", min(count, MOST_PER_CORE * runtime.cores()))
    except RuntimeError:
        return  # jax has started with the devices that it has; `make` says so if they do not suffice


def make(relation: int, data: int, feature: int = 1) -> Mesh:
    """Return the mesh `relation` x `data` of the devices of all processes, the same number of each, row by row in their order.

    Where columns are divided, each `feature` devices of a row that follow each other are a group (`grouped`).

    Raises:
      InputError: a process has fewer.
    """
    axes = {RELATION: relation, DATA: data} | ({FEATURE: feature} if feature > 1 else {})
    return named(_devices(axes).reshape(relation, data * feature), BOTH)


def features(feature: int) -> Mesh:
    """Return the mesh of so many devices along the axis `feature`, of all processes, the same number of each.

    Raises:
      InputError: a process has fewer.
    """
    return named(_devices({FEATURE: feature}), (FEATURE,))


def groups(data: int, feature: int) -> Mesh:
    """Return the mesh `data` x `feature` of the devices of all processes, the same number of each: groups that divide columns.

    Raises:
      InputError: a process has fewer.
    """
    return named(_devices({DATA: data, FEATURE: feature}).reshape(data, feature), (DATA, FEATURE))


def _devices(axes: Mapping[str, int]) -> np.ndarray:
    needed, count = math.prod(axes.values()), jax.process_count()
    each, said = share_of(axes, count), _said(axes)
    devices: list[jax.Device] = []
    for process in range(count):
        own = sorted((d for d in jax.devices() if d.process_index == process), key=lambda device: device.id)
        if each > len(own):
            where = f" of process {process}, which provides {each} of them" if count > 1 else ""
            most = f"; a core is made into {MOST_PER_CORE} at most" if own[0].platform == "cpu" else ""
            raise InputError(
                f"{said} needs {needed} devices != {len(own)} ({own[0].platform}) that there are{where}{most}"
            )
        devices += own[:each]
    return np.array(devices)


def share_of(axes: Mapping[str, int], processes: int) -> int:
    """Return the number of devices of a mesh that each process provides.

    Args:
      axes: sizes by name.

    Raises:
      InputError: they cannot all provide as many.
    """
    needed = math.prod(axes.values())
    if needed % processes:
        raise InputError(
            f"{_said(axes)} are {needed} devices, which {processes} processes cannot provide in equal parts"
        )
    return needed // processes


def _said(axes: Mapping[str, int]) -> str:
    return " x ".join(f"mesh.{name} {size}" for name, size in axes.items())


def rows_here(mesh: Mesh) -> list[int]:
    """Return the rows that have devices of this process."""
    return [number for number, line in enumerate(mesh.devices) if any(map(_is_here, line))]


def positions_here(line: Mesh) -> list[int]:
    """Return the positions of this process's devices in a row."""
    return [place for place, device in enumerate(line.devices.flat) if _is_here(device)]


def _is_here(device: jax.Device) -> bool:
    return device.process_index == jax.process_index()


def row(mesh: Mesh, part: int) -> Mesh:
    """Return the devices of one partition, a mesh of its own with the axis `data`."""
    return named(mesh.devices[part], (DATA,))


def grouped(line: Mesh, feature: int) -> Mesh:
    """Return the devices of a row as `data` x `feature`; where there is one slice, the row itself."""
    return line if feature == 1 else named(line.devices.reshape(-1, feature), (DATA, FEATURE))


def rows(mesh: Mesh, parts: Sequence[int]) -> Mesh:
    """Return the devices of some partitions."""
    return named(mesh.devices[list(parts)], BOTH)


def processes(mesh: Mesh) -> int:
    """Return the number of processes that have devices of a mesh."""
    return len({device.process_index for device in mesh.devices.flat})


def here(mesh: Mesh) -> Mesh:
    """Return the devices of a mesh that are this process's, in their order; in one column if rows have different numbers of them."""
    lines = [[device for device in mesh.devices[number] if _is_here(device)] for number in rows_here(mesh)]
    if len(set(map(len, lines))) > 1:
        lines = [[device] for line in lines for device in line]
    return named(np.array(lines, dtype=object), BOTH)


def named(devices: np.ndarray, axes: tuple[str, ...]) -> Mesh:
    """Return the mesh of an array of devices, an axis for each of its own."""
    leave_shardy_out()
    return Mesh(devices, axes, axis_types=(AxisType.Auto,) * len(axes))


def leave_shardy_out() -> None:
    """Have programs of meshes partitioned by GSPMD where Shardy, jax's default, crashes on arrays of size zero: with jaxlib 0.11.

    That was seen with 0.11.2, and not with 0.10.2 and 0.12.0. Where `JAX_USE_SHARDY_PARTITIONER` is set in the environment, jax's setting stays.
    """
    if jaxlib.__version__.startswith("0.11.") and "JAX_USE_SHARDY_PARTITIONER" not in os.environ:
        jax.config.update("jax_use_shardy_partitioner", False)


def from_shards(line: Mesh, trees: Sequence[Any]) -> Any:
    """Return one tree of arrays on a row from host arrays, a tree for each of its devices that is here, one after the other."""

    def array(*leaves: np.ndarray) -> jax.Array:
        own, count = dict(zip(places, leaves, strict=True)), len(leaves[0])
        shape = (line.size * count, *leaves[0].shape[1:])

        def part(index: Any) -> np.ndarray:
            return own[(index[0].start or 0) // count if count else places[0]]

        return jax.make_array_from_callback(shape, sharding, part)

    sharding, places = NamedSharding(line, P(*line.axis_names)), positions_here(line)
    return jax.tree.map(array, *trees)


def shards(line: Mesh, tree: Any) -> dict[int, Any]:
    """Return the part of a tree of each device of a row that is here, by its place in the row: the inverse of `from_shards`."""

    def of(device: jax.Device) -> Any:
        return jax.tree.map(lambda leaf: next(s.data for s in leaf.addressable_shards if s.device == device), tree)

    return {place: of(line.devices.flat[place]) for place in positions_here(line)}


def put(mesh: Mesh, spec: P, tree: Any, memory: str | None = None) -> Any:
    """Put host arrays that all processes of a mesh have alike on the mesh; a CPU may go on reading them where they are.

    Args:
      memory: the kind of memory; None: the devices' own.
    """
    sharding = NamedSharding(mesh, spec, memory_kind=memory)

    def array(leaf: Any) -> jax.Array:
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(array, tree)


def shard_map(function: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    """Return `jax.shard_map` of a function whose `out_specs` say what is alike on all devices, which is not checked."""
    leave_shardy_out()
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def join(mesh: Mesh, spec: P, trees: Sequence[Any]) -> Any:
    """Return one tree of arrays on the mesh from a tree per row that is here, each on the row's devices; nothing is copied.

    Args:
      mesh: the mesh with the rows of these trees.
      spec: how the result is sharded; the array of each device is its shard.
    """
    sharding, axes = NamedSharding(mesh, spec), [_names(entry) for entry in spec]

    def array(*leaves: jax.Array) -> jax.Array:
        shards = [shard.data for leaf in leaves for shard in leaf.addressable_shards]
        shape = list(shards[0].shape)
        for axis, names in enumerate(axes):
            shape[axis] *= math.prod(mesh.shape[name] for name in names)
        return jax.make_array_from_single_device_arrays(tuple(shape), sharding, shards)

    return jax.tree.map(array, *trees)


def split(mesh: Mesh, spec: P, tree: Any) -> list[Any]:
    """Return a tree per row that is here, the inverse of `join`, sharded over `data` where `spec` says so."""
    lines = [row(mesh, number) for number in rows_here(mesh)]
    local = P(*(DATA if DATA in _names(entry) else None for entry in spec))

    def array(line: Mesh, leaf: jax.Array) -> jax.Array:
        data = {shard.device: shard.data for shard in leaf.addressable_shards}
        shards = [data[line.devices.flat[place]] for place in positions_here(line)]
        shape = list(shards[0].shape)
        for axis, entry in enumerate(local):
            shape[axis] *= line.size if entry else 1
        return jax.make_array_from_single_device_arrays(tuple(shape), NamedSharding(line, local), shards)

    return [jax.tree.map(lambda leaf: array(line, leaf), tree) for line in lines]


def _names(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
