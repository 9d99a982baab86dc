"""Whole tables, for a checkpoint, from the rows that every partition has."""

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import DTypeLike

from hetjax.cache.mapped import mapped, release
from hetjax.cache.tables import Table
from hetjax.partition.owned import Owned
from hetjax.processes.group import ProcessGroup
from hetjax.sharding.mesh import positions_here

Leaves = Mapping[tuple[str, str], jax.Array]  # by node type and name


def local_rows(mesh: Mesh, array: jax.Array) -> dict[int, np.ndarray]:
    """What each partition that is here has of an array `[parts * rows, ...]`."""
    shards = {shard.device: shard.data for shard in array.addressable_shards}
    return {part: np.asarray(shards[mesh.devices.flat[part]]) for part in positions_here(mesh)}


def whole_tables(
    tables: Mapping[str, Table], owned: Owned, mesh: Mesh, processes: ProcessGroup, folder: Path | None
) -> dict[str, Table] | None:
    """Every table `[nodes, ...]` in process 0, None in the others; all processes call this together.

    Args:
      tables: on the mesh, of every partition its own rows.
      folder: that every process sees, for files into which several write their rows, so that none has them all in memory;
        without one they do not, and process 0 has.
    """
    leaves = {(t, name): leaf for t, table in tables.items() for name, leaf in table._asdict().items()}
    if folder is None or processes.count == 1:
        arrays = _in_memory(leaves, owned, mesh, processes)
    else:
        arrays = _in_files(leaves, owned, mesh, processes, folder)
    if not processes.first:
        return None
    return {t: Table(*(arrays[t, name] for name in Table._fields)) for t in tables}


def _in_memory(leaves: Leaves, owned: Owned, mesh: Mesh, processes: ProcessGroup) -> dict[tuple[str, str], np.ndarray]:
    here = {f"{part} {t} {n}": rows for (t, n), leaf in leaves.items() for part, rows in local_rows(mesh, leaf).items()}
    every = processes.gather("tables", here)
    if every is None:
        return {}

    def parts(*names: str) -> np.ndarray:
        return np.concatenate([every[" ".join((str(part), *names))] for part in range(owned.parts)])

    return {(t, name): owned.whole(t, parts(t, name)) for t, name in leaves}


def _in_files(
    leaves: Leaves, owned: Owned, mesh: Mesh, processes: ProcessGroup, folder: Path
) -> dict[tuple[str, str], np.ndarray]:
    """Files that process 0 makes, and all write to."""
    whole: dict[tuple[str, str], np.ndarray] = {}
    for makes in (True, False):
        for number, ((t, name), leaf) in enumerate(leaves.items()) if makes == processes.first else ():
            file, shape = folder / f"{number}.rows", (len(owned.owner[t]), *leaf.shape[1:])
            whole[t, name] = mapped(file, shape, leaf.dtype) if makes else _opened(file, shape, leaf.dtype)
        processes.barrier("tables begun")
    for (t, name), leaf in leaves.items():
        for part, rows in local_rows(mesh, leaf).items():
            ids = owned.ids[t][part]
            whole[t, name][ids] = rows[: len(ids)]
        release(whole[t, name])
    processes.barrier("tables written")
    return whole


def _opened(file: Path, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    return np.memmap(file, dtype, "r+", shape=shape) if shape[0] else np.empty(shape, dtype)
