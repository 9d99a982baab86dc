"""Rows read, written and updated on a CPU, as `tables.rows_at`, `tables.write` and `tables.update` say.

Reading and writing computes nothing, so there what is no float64 passes for float32; it is four bytes wide.
"""

import math

import numba

from hetjax.native import Operation, arrays, is_double
from hetjax.prefetch import prefetch

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


@_compiled
def _update_rows(start, last, ids, gradient, numbers, rows, first, second, count):
    """One step of `tables.RowAdam`; the last four are a table's, to begin with.

    `numbers`: learning rate, weight decay, epsilon; of the first moment the decay, what is left of 1, and its logarithm; of
    the second the same.
    """
    learning_rate, weight_decay, epsilon = numbers[0], numbers[1], numbers[2]
    decay_first, rest_first, log_first = numbers[3], numbers[4], numbers[5]
    decay_second, rest_second, log_second = numbers[6], numbers[7], numbers[8]
    width = rows.shape[1]
    for i in range(start, last):
        if len(ids) and i + AHEAD < last and 0 <= ids[i + AHEAD] < len(rows):
            prefetch(rows, ids[i + AHEAD])
            prefetch(first, ids[i + AHEAD])
            prefetch(second, ids[i + AHEAD])
        row = ids[i] if len(ids) else i
        if 0 <= row < len(rows):
            count[row] += 1
            times = numbers.dtype.type(count[row])
            correct_first, correct_second = -math.expm1(times * log_first), -math.expm1(times * log_second)
            for k in range(width):
                g = gradient[i, k]
                first[row, k] = decay_first * first[row, k] + rest_first * g
                second[row, k] = decay_second * second[row, k] + rest_second * (g * g)
                change = (first[row, k] / correct_first) / (math.sqrt(second[row, k] / correct_second) + epsilon)
                rows[row, k] -= learning_rate * (change + weight_decay * rows[row, k])


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


def _update(first, last, frame):
    if is_double(frame, 0):
        _update_rows(first, last, *arrays(frame, "f2 f2 f2 i1 i1 f2 f1 > f2 f2 f2 i1", "float64")[4:])
    else:
        _update_rows(first, last, *arrays(frame, "f2 f2 f2 i1 i1 f2 f1 > f2 f2 f2 i1", "float32")[4:])


read, write, update = Operation(_read), Operation(_write), Operation(_update)
