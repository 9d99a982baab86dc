"""Rows of a matrix read and written on a CPU, as `tables.rows_at` and `tables.write` say.

Nothing is computed, so what is no float64 passes for float32; it is four bytes wide.
"""

import numba

from hetjax.native import Operation, arrays, is_double
from hetjax.prefetch import prefetch

NATIVE = "2bac2de8709f"  # digest of native.py and prefetch.py, which are compiled in: numba compiles anew when this file changes
AHEAD = 16  # rows between that which is asked for and that which is read

_compiled = numba.njit(nogil=True, error_model="numpy")


@_compiled
def _read_rows(first, last, matrix, ids, rows):
    count, width = matrix.shape
    for i in range(first, last):
        if i + AHEAD < last and 0 <= ids[i + AHEAD] < count:
            prefetch(matrix, ids[i + AHEAD])
        row = ids[i]
        if 0 <= row < count:
            for k in range(width):
                rows[i, k] = matrix[row, k]
        else:
            for k in range(width):
                rows[i, k] = 0


@_compiled
def _write_rows(first, last, matrix, ids, rows, result):
    """`result` is the matrix to begin with."""
    count, width = result.shape
    for i in range(first, last):
        if i + AHEAD < last and 0 <= ids[i + AHEAD] < count:
            prefetch(result, ids[i + AHEAD])
        row = ids[i]
        if 0 <= row < count:
            for k in range(width):
                result[row, k] = rows[i, k]


def _read(first, last, frame):
    if is_double(frame, 0):
        _read_rows(first, last, *arrays(frame, "f2 i1 > f2", "float64"))
    else:
        _read_rows(first, last, *arrays(frame, "f2 i1 > f2", "float32"))


def _write(first, last, frame):
    if is_double(frame, 0):
        _write_rows(first, last, *arrays(frame, "f2 i1 f2 > f2", "float64"))
    else:
        _write_rows(first, last, *arrays(frame, "f2 i1 f2 > f2", "float32"))


read, write = Operation(_read), Operation(_write)
