"""Whole tables, for a checkpoint, from the rows that every partition has."""

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import DTypeLike

from hetjax.cache.features import parts
from hetjax.kernels.tables import Table
from hetjax.partition.owned import Owned
from hetjax.processes.group import ProcessGroup
from hetjax.sharding.mesh import shards
from hetjax.system.mapped import mapped, on_host, release

Own = Mapping[
    str, Mapping[int, Table]
]  # per type, of each partition that is here its rows, on its device or on the host
Leaves = dict[tuple[str, str], np.ndarray]  # by node type and name


def local_rows(mesh: Mesh, array: jax.Array) -> dict[int, np.ndarray]:
    """Return the part of an array `[parts * rows, ...]` of each partition of this process."""
    return {part: np.asarray(rows) for part, rows in shards(mesh, array).items()}


def whole_tables(own: Own, owned: Owned, processes: ProcessGroup, folder: Path | None) -> dict[str, Table] | None:
    """Return every table `[nodes, ...]` in process 0, None in the others; all processes call this together.

    Args:
      own: a partition's rows; there may be more than it owns.
      folder: a folder that every process sees, for files into which all write their rows, so that none has them all in memory;
        without one they do not, and process 0 has.
    """
    arrays = _in_memory(own, owned, processes) if folder is None else _in_files(own, owned, processes, folder)
    if not processes.first:
        return None
    return {t: Table(*(arrays[t, name] for name in Table._fields)) for t in own}


def _in_memory(own: Own, owned: Owned, processes: ProcessGroup) -> Leaves:
    here = {
        f"{part} {t} {name}": on_host(leaf)[: len(owned.ids[t][part])]
        for t, tables in own.items()
        for part, table in tables.items()
        for name, leaf in table._asdict().items()
    }
    every = processes.gather("tables", here)
    if every is None:
        return {}
    whole: Leaves = {}
    for t, tables in own.items():
        for name, leaf in next(iter(tables.values()))._asdict().items():
            whole[t, name] = np.empty((len(owned.owner[t]), *leaf.shape[1:]), leaf.dtype)
            for part, ids in enumerate(owned.ids[t]):
                whole[t, name][ids] = every[f"{part} {t} {name}"]
    return whole


def _in_files(own: Own, owned: Owned, processes: ProcessGroup, folder: Path) -> Leaves:
    """Return the tables as files that process 0 makes and all processes write to."""
    whole: Leaves = {}
    leaves = {(t, name): leaf for t, of in own.items() for name, leaf in next(iter(of.values()))._asdict().items()}
    for makes in (True, False):
        for number, ((t, name), leaf) in enumerate(leaves.items()) if makes == processes.first else ():
            file, shape = folder / f"{number}.rows", (len(owned.owner[t]), *leaf.shape[1:])
            whole[t, name] = mapped(file, shape, leaf.dtype) if makes else _opened(file, shape, leaf.dtype)
        processes.barrier("tables begun")
    for t, tables in own.items():
        for part, table in tables.items():
            _write({name: whole[t, name] for name in Table._fields}, owned.ids[t][part], table)
    processes.barrier("tables written")
    return whole


def _write(whole: Mapping[str, np.ndarray], ids: np.ndarray, table: Table) -> None:
    """Write a partition's rows where they stand in the whole table, a few at a time."""
    start = 0
    for piece in parts(Table(*(on_host(leaf) for leaf in table))):
        some = ids[start : start + len(piece.count)]
        for array, rows in zip(whole.values(), piece, strict=True):
            array[some] = rows[: len(some)]
            release(array)
        start += len(piece.count)


def _opened(file: Path, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    return np.memmap(file, dtype, "r+", shape=shape) if shape[0] else np.empty(shape, dtype)
