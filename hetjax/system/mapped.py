"""Arrays larger than memory: in files that are mapped into it, a few rows at a time."""

import math
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

from hetjax.system.arrays import Array
from hetjax.system.errors import InputError

AT_ONCE = 256  # rows; reading one may map half a MiB around it, until that is given back


def mapped(file: Path, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return a new file of zeros, mapped into memory. Its room on the disk is taken now, so that it cannot run out later.

    Raises:
      InputError: there is not enough.
    """
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with open(file, "wb") as stream:
            reserve(stream, size)
        return np.memmap(file, dtype, "r+", shape=shape) if math.prod(shape) else np.empty(shape, dtype)
    except OSError as error:
        with suppress(OSError):
            file.unlink(missing_ok=True)
        raise InputError(f"{file}: {error.strerror or error}; {size:,} bytes are needed") from None


def reserve(stream: IO[bytes], size: int) -> None:
    """Take room on the disk for a file that is to be mapped. Where the disk has none, writing to memory would kill the process.

    Raises:
      OSError: there is not enough.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        os.ftruncate(stream.fileno(), size)


def unnamed(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return a mapped file, as `mapped` does, without a name in the folder for temporary files (`TMPDIR`). Its room is freed with the array."""
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    try:
        with tempfile.TemporaryFile() as stream:
            reserve(stream, size)
            return np.memmap(stream, dtype, "r+", shape=shape)
    except OSError as error:
        what = f"{error.strerror or error}; {size:,} bytes are needed"
        raise InputError(f"{tempfile.gettempdir()}: {what}, and TMPDIR names another folder") from None


def gather(
    matrix: np.ndarray, ids: np.ndarray, length: int | None = None, places: np.ndarray | None = None
) -> np.ndarray:
    """Return the rows `matrix[ids]`, one after the other, or each at its place among `length` rows of zeros.

    Of a mapped file little is in memory at a time.
    """
    rows = np.zeros((len(ids) if length is None else length, *matrix.shape[1:]), matrix.dtype)
    into = rows[: len(ids)] if places is None else rows
    for portion in portions(matrix, ids):
        into[portion if places is None else places[portion]] = matrix[ids[portion]]
    return rows


def portions(matrix: np.ndarray, ids: np.ndarray) -> Iterator[slice | np.ndarray]:
    """Yield the indices of the rows `ids` to read or write at a time: all, or a few of a mapped file, in its order.

    After each of these the pages are given back.
    """
    if mapping(matrix) is None:
        yield slice(None)
        return
    order = np.argsort(ids)
    for start in range(0, len(ids), AT_ONCE):
        yield order[start : start + AT_ONCE]
        release(matrix)


def on_host(array: Any) -> np.ndarray:
    """Return the array in host memory. A mapped one stays mapped; `np.asarray` would hide that it is."""
    return array if isinstance(array, np.ndarray) else np.asarray(array)


def mapping(array: Array) -> Any:
    """Return the object that maps an array's file, or None."""
    return getattr(array, "_mmap", None)


def release(array: Array) -> None:
    """Take the pages of a mapped file out of this process's memory. The system keeps them as long as it has room.

    What was changed is the file's from then on.
    """
    if mapping(array) is not None:
        mapping(array).madvise(mmap.MADV_DONTNEED)
