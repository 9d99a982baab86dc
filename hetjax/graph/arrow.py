"""Conversion of arrays of numbers between numpy and Arrow, without a copy and without pandas, which pyarrow's own
conversions import where it is installed."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def to_arrow(values: np.ndarray) -> "pa.Array":
    """Return int64 `[rows]` as a column; the memory is shared."""
    import pyarrow as pa

    values = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def to_numpy(column: "pa.Array", missing: float = 0) -> np.ndarray:
    """Return a column of numbers, not of bool, as an array of its type `[rows]`, which cannot be written to; `missing`
    stands for absent values."""
    import pyarrow.compute as pc

    dtype, filled = (
        np.dtype(column.type.to_pandas_dtype()),
        pc.fill_null(column, missing) if column.null_count else column,
    )
    content = filled.buffers()[1]
    if content is None:  # of no rows
        return np.empty(0, dtype)
    return np.frombuffer(content, dtype, len(filled), filled.offset * dtype.itemsize)


def parts(texts: "pa.Array") -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets of the texts of a large_string array, int64 `[texts + 1]`, and all bytes."""
    _, ends, content = texts.buffers() if len(texts) else (None, bytes(8), None)
    begin = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return begin, np.frombuffer(content or bytes(1), np.uint8)
