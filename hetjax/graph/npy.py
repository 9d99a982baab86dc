"""Arrays in `.npy` files and the like: the header is checked against the file, and nothing is ever unpickled."""

import io
import math
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.format import MAGIC_PREFIX as MAGIC
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic

from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

LONGEST_HEADER = 2**14  # bytes; numpy reads none of over 10,000


class Header(NamedTuple):
    """The header of a `.npy` file, which precedes the values.

    Attributes:
      shape, dtype: of the array.
      fortran: whether its first index runs fastest.
      start: bytes before the values.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def header(beginning: bytes, size: int, place: str) -> Header:
    """Return the header of an array.

    Args:
      beginning: the first `LONGEST_HEADER` bytes, or all where there are fewer.
      size: bytes that there are.
      place: the file to name in an error.

    Raises:
      InputError: it is no `.npy` file, of objects, or of another size than its header says.
    """
    stream = io.BytesIO(beginning)
    if stream.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{place}: {size} bytes that are no .npy file")
    stream.seek(0)
    version = read_magic(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # Python's, of a header that is nearly one; it would be printed
        shape, fortran, dtype = (read_array_header_1_0 if version == (1, 0) else read_array_header_2_0)(stream)
    if dtype.hasobject:
        raise InputError(f"{place}: pickled objects, and there should be numbers")
    found = Header(shape, dtype, fortran, stream.tell())
    if size != found.size:
        raise InputError(f"{place}: {size} bytes != {found.size} that its header says")
    return found


def map_array(file: Path, dtype: np.dtype, shape: tuple[int, ...] | None, what: str) -> np.ndarray:
    """Return a mapped array; a vector of any length for `shape=None`."""
    array = load_array(file)
    if array.dtype != dtype or (array.ndim != 1 if shape is None else array.shape != shape):
        expected = f"{dtype} {shape if shape is not None else '(any,)'}"
        raise InputError(f"{file}: {what}: {array.dtype} {array.shape} != {expected} of the schema")
    return array


def load_array(file: Path) -> np.ndarray:
    """Return the array of a `.npy` file, mapped.

    Raises:
      InputError: it is none, or of another size than its header says.
    """
    with reading(file):
        with open_regular(file) as stream:
            header(stream.read(LONGEST_HEADER), os.fstat(stream.fileno()).st_size, str(file))
        return np.load(file, mmap_mode="r", allow_pickle=False)
