"""Kernels that read, write and update rows on a CPU, for `tables.rows_at`, `tables.write` and `tables.update`.

Reading and writing computes nothing, so there what is no float64 passes for float32; it is four bytes wide.
"""

import math

import numpy as np

from hetjax.kernels.native import Operation, arrays
from hetjax.system.compiled import compiled
from hetjax.system.prefetch import prefetch

CONTRACT = frozenset({"contract"})  # a product and a sum may be rounded once
AHEAD = 16  # rows between that which is asked for and that which is read


READ, WRITE = "f2 i1 > f2", "f2 i1 f2 > f2"
UPDATE = "f2 f2 f2 i1 i1 f2 f1 f1 f1 > f2 f2 f2 i1"


def _read(first, last, frame):
    matrix, ids, rows = arrays(frame, READ)
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


def _write(first, last, frame):
    """Write rows into `result`, which is the matrix to begin with."""
    matrix, ids, rows, result = arrays(frame, WRITE)
    count, width = result.shape
    for i in range(first, last):
        if i + AHEAD < last and 0 <= ids[i + AHEAD] < count:
            prefetch(result, ids[i + AHEAD])
        row = ids[i]
        if 0 <= row < count:
            for k in range(width):
                result[row, k] = rows[i, k]


@compiled(inline="always")
def scalars(numbers: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the scalars of an update from a vector (in numba's language): learning rate, weight decay and epsilon, and
    for each moment the decay and what is left of 1."""
    return (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5], numbers[6])


# Put into those that call it, whose own rules of rounding it then has.
@compiled(inline="always")
def adam_step(
    number: float,
    g: float,
    moments: tuple[float, float],
    decays: tuple[float, ...],
    correct: tuple[float, float],
    rates: tuple[float, ...],
) -> tuple[float, float, float]:
    """Return an element and its moments after an update by its gradient (in numba's language).

    Args:
      moments: of the element, before the update.
      decays, rates: as `scalars` gives them.
      correct: what each moment is multiplied by.
    """
    mean, square = decays[0] * moments[0] + decays[1] * g, decays[2] * moments[1] + decays[3] * (g * g)
    change = (mean * correct[0]) / (math.sqrt(square * correct[1]) + rates[2])
    return number - rates[0] * (change + rates[1] * number), mean, square


def _update(start, last, frame):
    """Update rows by one step of `tables.RowAdam`; the last four arguments are a table's, to begin with.

    `numbers`: as of `scalars`. `correct_first` and `correct_second`: `tables.corrections` of the two moments.
    """
    _, _, _, _, ids, gradient, numbers, correct_first, correct_second, rows, mu, nu, count = arrays(frame, UPDATE)
    rates, decays = scalars(numbers)
    width = rows.shape[1]
    for i in range(start, last):
        if len(ids) and i + AHEAD < last and 0 <= ids[i + AHEAD] < len(rows):
            prefetch(rows, ids[i + AHEAD])
            prefetch(mu, ids[i + AHEAD])
            prefetch(nu, ids[i + AHEAD])
            prefetch(count, ids[i + AHEAD])
        row = ids[i] if len(ids) else i
        if 0 <= row < len(rows):
            done = max(0, count[row])
            count[row] = done + 1
            places = min(done, len(correct_first) - 1), min(done, len(correct_second) - 1)
            correct = correct_first[places[0]], correct_second[places[1]]
            for k in range(width):
                moments = mu[row, k], nu[row, k]
                rows[row, k], mu[row, k], nu[row, k] = adam_step(
                    rows[row, k], gradient[i, k], moments, decays, correct, rates
                )


read, write, update = Operation(_read), Operation(_write), Operation(_update, CONTRACT)
