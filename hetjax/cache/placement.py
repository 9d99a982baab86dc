"""The placement of the features of every input type, within the bounds of the configuration."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import jax

from hetjax.cache.allocate import place_types
from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels.tables import Shape
from hetjax.options.config import Cache, Place
from hetjax.system import runtime
from hetjax.system.errors import InputError
from hetjax.system.mapped import mapping


class RowCounts(NamedTuple):
    """The largest number of rows of every input type, where nodes are divided.

    Attributes:
      device, process: on a device, and of all devices of a process.
    """

    device: Mapping[str, int]
    process: Mapping[str, int]


def choose_placement(
    cache: Cache,
    graph: HetGraph,
    widths: Collection[str],
    learnable: Mapping[str, Shape],
    graphs: Collection[HetGraph],
    together: Sequence[Collection[str]] = (),
    mine: Collection[str] | None = None,
    rows: RowCounts | None = None,
) -> dict[str, Place]:
    """Choose where the features of every input type live.

    Args:
      graph: or its shape alone, for sizes.
      widths: the input types.
      learnable: those whose features are learned.
      graphs: that features are read from in this process.
      together: the types that each device reads; if not given, one reads all.
      mine: the types that devices of this process read; None: all.
      rows: that a device and a process have; None: all.

    Raises:
      InputError: a bound that the device exceeds, or a place for a type that has no features.
    """
    device = jax.local_devices()[0]
    most = device_bytes(device)
    if cache.bytes_per_device > most:
        raise InputError(
            f"cache.bytes_per_device is {cache.bytes_per_device:,}, and the device has {most:,} bytes ({device.device_kind})"
        )
    each, nodes = row_bytes(graph, widths, learnable), graph.schema.nodes
    size, host_size = ({t: count[t] * each[t] for t in widths} for count in (rows or RowCounts(nodes, nodes)))
    chosen = place_types(size, learnable, cache.given, cache.bytes_per_device, cache.host_bytes, together, host_size)
    for name, place in cache.given.items():
        matrices = [source.features[name] for source in graphs if name in source.features]
        if place == "disk" and name not in learnable and any(mapping(matrix) is None for matrix in matrices):
            raise InputError(
                f"cache.placement: the features of {name!r} are on disk only in a store; `python -m hetjax.convert` makes one"
            )
    local = learnable.keys() & (size.keys() if mine is None else mine)
    on_host, memory = sum(host_size[t] for t in local if chosen[t] == "host"), runtime.memory()
    if on_host > memory:
        raise InputError(
            f"learnable features on the host take {on_host:,} bytes, and it has {memory:,}; cache.host_bytes moves some to disk"
        )
    return chosen


def row_bytes(graph: HetGraph, types: Collection[str], learnable: Mapping[str, Shape]) -> dict[str, int]:
    """Return the bytes of a row of features per type, of a learnable one with its moments and count."""
    static = {t: matrix.nbytes // max(1, len(matrix)) for t, matrix in graph.features.items()}
    return {t: learnable[t].row_bytes if t in learnable else static[t] for t in types}


def device_bytes(device: jax.Device) -> int:
    """Return the bytes of memory of a device; of a CPU those of the host."""
    stats = device.memory_stats() or {}
    return stats.get("bytes_limit") or runtime.memory()
