"""Numbers of some rows of a table that is read in pieces: float64, with errors that name the row."""

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.casts.column import is_list, is_time, kind_of
from hetjax.casts.numbers import WEIGHTS, days, is_number
from hetjax.graph.arrow import to_numpy
from hetjax.system.errors import InputError, short

Place = Callable[..., str]  # the beginning of an error about a row of those that are given, or about all


def as_matrix(column: pa.Array, where: Place, missing: bool) -> np.ndarray:
    """Return finite numbers float64 `[rows, width]` of numbers, dates or lists of numbers; NaN where one is `missing` and may be.

    Raises:
      InputError: they are no numbers, one is infinite, or one is missing and may not be.
    """
    if not is_number(column) and kind_of(column) != "empty":
        raise InputError(f"{where()}: {column.type}, and should be numbers")
    if is_list(column.type):
        lengths = pc.unique(pc.list_value_length(column))
        if len(lengths) != 1 or column.null_count:
            counts = short(str(lengths.to_pylist()))
            raise InputError(f"{where()}: lists of {counts} numbers, and all should be as long")
        return as_matrix(pc.list_flatten(column), where, missing).reshape(len(column), -1)
    values = _floats(days(column) if is_time(column.type) else column)
    wrong = np.isinf(values) if missing else ~np.isfinite(values)
    _check(values, wrong, where, "should be a number; `fill` of a transform says what to take")
    return values[:, None]


def as_weights(column: pa.Array, where: Place) -> np.ndarray:
    """Return weights of edges, float64 `[rows]`, finite in 32 bits.

    Raises:
      InputError: they are no numbers, or one is missing or not finite.
    """
    if kind_of(column) not in (*WEIGHTS, "empty"):
        raise InputError(f"{where()}: weights are {column.type}, and should be numbers")
    values = _floats(column)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(values.astype(np.float32))
    _check(values, wrong, where, "a weight is to be a finite number of 32 bits")
    return values


def _floats(column: pa.Array) -> np.ndarray:
    return to_numpy(column.cast(pa.float64(), safe=False), math.nan)


def _check(values: np.ndarray, wrong: np.ndarray, where: Place, expected: str) -> None:
    """Raise an InputError for the first of the values that are wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        found = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
        raise InputError(f"{where(row)}: {found}, and {expected}")
