"""Tables in HDF5: a dataset per column at the top of the file, as GraphStorm writes them. By h5py, where the user has it.

A dataset of rows and columns is a column of lists, as in parquet. Nothing outside the file is opened: links to other files,
and datasets that are made of other files, are refused.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import open_regular

AT_ONCE, ROWS, TEXTS = (
    2**25,
    2**17,
    2**12,
)  # bytes and rows, and rows of texts, of which the file does not say how long they are
ALWAYS, RATIO = 2**30, 2000  # bytes that may be read in any case, and how many times the file's size


def batches(file: Path, columns: Mapping[str, str], bar: tqdm) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some at a time.

    Args:
      columns: that are read, as in `tables.rows`.
      bar: of bytes that are read.

    Raises:
      InputError: h5py is missing, or a dataset is not as it should be.
    """
    h5py = _h5py(file)
    with reading(file), open_regular(file) as stream, h5py.File(stream, "r") as opened:
        datasets = {name: _dataset(h5py, opened, name, file) for name in columns}
        rows = {len(one) for one in datasets.values()}
        if len(rows) > 1:
            counts = ", ".join(f"{name} {len(one)}" for name, one in datasets.items())
            raise InputError(f"{file}: datasets of different lengths: {short(counts)}")
        size, total = file.stat().st_size, next(iter(rows), 0)
        width = sum(one.nbytes for one in datasets.values()) // max(1, total)
        if width * total > max(ALWAYS, RATIO * size):
            raise InputError(f"{file}: unpacks from {size} bytes to {width * total} or more")
        texts = any(h5py.check_string_dtype(one.dtype) is not None for one in datasets.values())
        step, out = max(1, min(TEXTS if texts else ROWS, AT_ONCE // max(1, width))), 0
        for start in range(0, total, step):
            stop = min(total, start + step)
            arrays = [_arrow(h5py, one, start, stop, f"{file}: dataset {name!r}") for name, one in datasets.items()]
            out += sum(array.nbytes for array in arrays)
            if out > max(ALWAYS, RATIO * size):
                raise InputError(f"{file}: unpacks from {size} bytes to {out} or more")
            yield pa.RecordBatch.from_arrays(arrays, names=list(datasets))
            bar.update(size * (stop - start) // total)


def first(file: Path) -> str:
    """Return the name of the first dataset of a file."""
    h5py = _h5py(file)
    with reading(file), open_regular(file) as stream, h5py.File(stream, "r") as opened:
        for name in sorted(opened):
            return name
    raise InputError(f"{file}: no dataset")


def _h5py(file: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise InputError(f"{file}: HDF5 needs h5py: pip install 'hetjax[hdf5]'") from None
    return h5py


def _dataset(h5py: Any, opened: Any, name: str, file: Path) -> Any:
    link = opened.get(name, getlink=True)
    if link is None:
        raise InputError(f"{file}: no dataset {name!r} among {short(', '.join(sorted(opened)))}")
    found = opened[name] if isinstance(link, h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
        raise InputError(f"{file}: {name!r} is no dataset of this file")
    if found.ndim not in (1, 2):
        raise InputError(f"{file}: dataset {name!r} has shape {found.shape}, and should be (rows,) or (rows, width)")
    return found


def _arrow(h5py: Any, one: Any, start: int, stop: int, place: str) -> pa.Array:
    if h5py.check_string_dtype(one.dtype) is not None:
        with reading(place):
            return pa.array(one.asstr()[start:stop].tolist(), pa.large_string())
    if one.dtype.kind not in "iufb":
        raise InputError(f"{place}: {one.dtype}, and should be numbers or texts")
    values = np.ascontiguousarray(one[start:stop])
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return (
        pa.array(values)
        if one.ndim == 1
        else pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), one.shape[1])
    )
