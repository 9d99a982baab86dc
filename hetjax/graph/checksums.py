"""Verification of a store's arrays: each is compared with its checksum, by one read in order."""

import os
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hetjax.graph import names, store
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError

AT_ONCE = 2**24  # bytes


def verify(
    path: str | os.PathLike, relations: Collection[Relation] | None = None, features: Collection[str] | None = None
) -> bool:
    """Read the arrays of a store, and compare each with the checksum that was written with it.

    Args:
      path: of the store.
      relations, features: whose arrays are read, if not all; labels and splits are in any case.

    Returns:
      True if there are checksums; an older store has none, and nothing of it is read.

    Raises:
      InputError: an array whose checksum is another, or that has none; or as `hetjax.graph.store.open`.
    """
    expected = store.contents(path)
    if expected is None:
        return False
    files = {name: Path(path, f"{name}.npy") for name in store.names(store.describe(path), relations, features)}
    arrays = {name: store.load_array(file) for name, file in files.items()}
    with tqdm(
        total=sum(array.nbytes for array in arrays.values()),
        unit="B",
        unit_scale=True,
        desc="checksums",
        leave=False,
        disable=None,
        delay=2,
    ) as bar:
        for name, array in arrays.items():
            if name not in expected:
                raise InputError(f"{files[name]}: {store.SCHEMA} has no checksum of it")
            checksum = _checksum(array, bar)
            if checksum != expected[name]:
                raise InputError(
                    f"{files[name]}: checksum {checksum:08x} != {expected[name]:08x} in {store.SCHEMA}: it is not what was written"
                )
    for name, crc in store.name_files(path).items():
        file = Path(path, f"{name}.parquet")
        if (found := names.checksum(file)) != crc:
            raise InputError(f"{file}: checksum {found:08x} != {crc:08x} in {store.SCHEMA}: it is not what was written")
    return True


def _checksum(array: np.ndarray, bar: tqdm) -> int:
    """Return the CRC-32 of an array's values, row by row whatever the order in its file."""
    checksum, step = 0, max(1, AT_ONCE // max(1, array[:1].nbytes)) if array.ndim else 1
    for start in range(0, len(array), step):
        rows = np.ascontiguousarray(array[start : start + step])
        checksum = zlib.crc32(rows.data, checksum)
        bar.update(rows.nbytes)
    return checksum


def held(path: str | os.PathLike) -> tuple[list[Relation], list[str]]:
    """Return the relations, and the types with features, whose arrays a store has: a partition's own store lacks some."""
    description, available = store.describe(path), store.array_names(path)
    schema = description.schema
    relations = [r for n, r in enumerate(schema.relations) if available is None or f"relation_{n}.indptr" in available]
    types = [t for n, t in enumerate(schema.nodes) if available is None or f"features_{n}" in available]
    return relations, [name for name in types if name in description.features]
