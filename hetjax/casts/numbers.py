"""Numbers: features of nodes and weights of edges, and the lines that say what was cast, and what was rounded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.casts.column import as_column, as_dense, columns_of, is_list, is_time, kind_of
from hetjax.casts.narrow import narrowest
from hetjax.graph.arrow import to_numpy
from hetjax.graph.checks import FEATURE_TYPES
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log

DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
WEIGHTS = "whole", "number", "decimal"  # kinds of columns
FLOAT32 = np.dtype(np.float32)


def as_features(given: Any, place: str) -> np.ndarray:
    """Return features `[nodes, width]` of a type that hetjax trains on; one column may be `[nodes]`.

    Whole numbers get the smallest type that holds them all exactly, others become float32. What is such already is not copied.

    Args:
      given: an array, tensor, sparse matrix, list, column or frame of numbers.
      place: what an error begins with.

    Raises:
      InputError: they are no numbers.
    """
    if (columns := columns_of(given)) is not None:
        return of_one_type(_all_columns({name: given[name] for name in columns}, place), place)
    dense = not isinstance(given, list | tuple | pa.Array | pa.ChunkedArray)
    if (dense and getattr(given, "ndim", 2) == 2) or _is_nested(given):
        matrix = as_dense(given, place)
        matrix = _from_objects(matrix, place) if matrix.dtype.kind == "O" else matrix
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    else:
        matrix = _values(as_column(given, place), place)
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise InputError(f"{place} are {matrix.dtype} {matrix.shape}, and should be numbers (nodes, width)")
    return of_one_type(matrix, place, not isinstance(given, list | tuple))


def of_one_type(matrix: np.ndarray, place: str, say: bool = True) -> np.ndarray:
    """Return numbers as the smallest type of features that holds them, and `say` if that is another type than theirs."""
    if matrix.dtype in FEATURE_TYPES:
        return matrix.view()  # whose flags are its own: a graph is read-only, and what the user has is not
    dtype = FLOAT32 if matrix.dtype.kind == "f" else narrowest(matrix)
    with np.errstate(over="ignore"):  # what does not fit is infinite, and refused
        cast = matrix.astype(dtype)
    rounded = dtype.kind == "f" and not is_exact(matrix, cast)
    if say or (rounded and matrix.dtype.kind != "f"):  # of a list's numbers nobody chose the type
        log.warning("%s: %s cast to %s%s", place, matrix.dtype, dtype, ", rounded" if rounded else "")
    return cast


def narrowed(values: np.ndarray, place: str) -> np.ndarray:
    """Return numbers as the smallest type of features that holds them exactly, float32 if none does; a line says which are rounded.

    An array whose type is as small as that is returned as it is, so that a mapped file stays mapped.
    """
    dtype = narrowest(values)
    if values.dtype in FEATURE_TYPES and values.dtype.itemsize == dtype.itemsize:
        return values
    with np.errstate(over="ignore"):  # what does not fit is infinite, and refused
        cast = values.astype(dtype)
    if values.dtype.kind in "iu" and dtype.kind == "f" and not is_exact(values, cast):
        log.warning("%s: whole numbers are rounded to %s", place, dtype)
    return cast


def is_exact(values: np.ndarray, cast: np.ndarray) -> bool:
    """Tell whether floats are the numbers that they were cast from, to the last digit."""
    if values.dtype.kind == "f":
        return np.array_equal(cast, values)
    with np.errstate(invalid="ignore"):
        wide = cast.astype(np.float64)
        return bool((np.abs(wide) < 2.0**63).all() and (wide.astype(values.dtype) == values).all())


def from_columns(columns: Mapping[Any, Any], place: str, chosen: bool) -> np.ndarray | None:
    """Return the numbers of a frame's columns `[rows, width]`; None if there are none.

    Dates become days since 1970-01-01, decimals floats, lists of numbers as many columns, which lines say. Texts and other kinds
    are no features: they are left out, which a line says, or refused where the user has `chosen` these columns.

    Raises:
      InputError: a column that is no number was chosen; or a number is missing or not finite.
    """
    parts, left = {}, []
    for name, given in columns.items():
        where = f"{place}: column {str(name)!r}"
        try:
            column = as_column(given, where)
        except InputError:
            if chosen or getattr(given, "ndim", 1) != 1:
                raise
            left.append(str(name))
            continue
        if is_number(column):
            parts[str(name)] = _finite(_values(column, where), where)
        elif chosen:
            kind = "missing in all rows" if pa.types.is_null(column.type) else str(column.type)
            raise InputError(f"{where} is {kind}, and features are numbers")
        else:
            left.append(str(name))
    if left:
        log.warning("%s: columns that are no numbers are left out: %s", place, ", ".join(left))
    _check_rows(parts, place)
    if not parts:
        return None
    matrix = np.concatenate([part.reshape(len(part), -1) for part in parts.values()], axis=1)
    rounded = [name for name, part in parts.items() if part.dtype.kind in "iu" and _is_rounded(part, matrix)]
    if rounded:
        log.warning("%s: whole numbers of these columns are rounded to float32: %s", place, ", ".join(rounded))
    return matrix


def as_weights(given: Any, place: str) -> np.ndarray:
    """Return weights of edges as numbers `[edges]`, of their own type.

    Raises:
      InputError: they are no numbers, or one is missing.
    """
    column = as_column(given, place)
    kind = kind_of(column)
    if not len(column):
        return np.empty(0, np.float32)
    if kind not in WEIGHTS:
        words = "missing, all of them" if kind == "empty" else str(column.type)
        raise InputError(f"{place}: weights are {words}, and should be numbers")
    values = _values(column, place, "edge")
    if values.dtype.kind in "iu" and not is_exact(values, values.astype(np.float32)):
        log.warning("%s: weights of %s are rounded to float32", place, values.dtype)
    return values


def as_targets(given: Any, place: str) -> np.ndarray:
    """Return numbers to predict, float32 `[nodes]`, or `[nodes, numbers]` of several a node; NaN where one is missing.

    Args:
      given: a column; or a matrix, a list of rows or a frame, which have a column of each number.
      place: what an error begins with.

    Raises:
      InputError: they are no numbers, or one is not finite in 32 bits.
    """
    if (columns := _columns_of_targets(given, place)) is not None:
        parts = [as_targets(column, f"{place}: column {short(repr(name), 80)}") for name, column in columns.items()]
        _check_rows({str(name): column for name, column in zip(columns, parts)}, place)
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
    column = as_column(given, place)
    values = np.full(len(column), np.nan, np.float32)
    present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    found = _values(column.drop_null(), place) if len(present) else values[:0]
    if found.ndim != 1:
        raise InputError(f"{place}: {found.shape[1]} numbers of a node, and should be one")
    is_float = found.dtype.kind == "f"
    values[present] = np.where(np.isnan(found), np.nan, _finite(np.nan_to_num(found), place)) if is_float else found
    return values


def _columns_of_targets(given: Any, place: str) -> dict[Any, Any] | None:
    """Return the columns of several numbers a node by name; None of a single column.

    Raises:
      InputError: there are none.
    """
    if (names := columns_of(given)) is not None:
        columns = {name: given[name] for name in names}
    elif getattr(given, "ndim", 1) == 2 or _is_nested(given):
        rows = list(given) if isinstance(given, list | tuple) else as_dense(given, place)
        widths = sorted({len(row) for row in rows if row is not None}) if isinstance(rows, list) else [rows.shape[1]]
        if len(widths) > 1:
            raise InputError(f"{place}: lists of {short(str(widths), 80)} numbers, and all should be as long")
        columns = (
            {n: [None if row is None else row[n] for row in rows] for n in range(widths[0])}
            if isinstance(rows, list)
            else {n: rows[:, n] for n in range(widths[0])}
        )
    else:
        return None
    if not columns:
        raise InputError(f"{place}: no numbers of any node")
    return columns


def is_number(column: pa.Array) -> bool:
    """Tell whether a column can be features as it is: numbers, booleans, decimals, dates, or lists of numbers."""
    if is_list(column.type):
        return kind_of(pc.list_flatten(column)) in ("whole", "number", "boolean")
    return kind_of(column) in ("whole", "number", "boolean", "decimal", "time")


def days(column: pa.Array) -> pa.Array:
    """Return dates and times as days since 1970-01-01, in UTC where there is a time zone, float64."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32()).cast(pa.float64())
    unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
    return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), float(DAY[unit]))


def _values(column: pa.Array, place: str, row_name: str = "node") -> np.ndarray:
    """Return the numbers of a column, `[rows]`, or `[rows, width]` of lists; of their own type, or float64 of decimals and dates."""
    if not is_number(column):
        words = "missing, all of them" if len(column) and pa.types.is_null(column.type) else str(column.type)
        raise (
            InputError(f"{place} are {words}, and should be numbers")
            if len(column)
            else InputError(f"{place}: no rows")
        )
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InputError(f"{place}: the value of {row_name} {row} is missing: fill it in, or leave it out")
    if is_list(column.type):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(lengths) > 1:
            raise InputError(f"{place}: lists of {short(str(lengths), 80)} numbers, and all should be as long")
        return _values(as_column(pc.list_flatten(column), place), place).reshape(len(column), -1)
    if is_time(column.type):
        log.warning("%s: dates are read as days since 1970-01-01", place)
        column = days(column)
    if pa.types.is_decimal(column.type):
        log.warning("%s: %s is read as float64", place, column.type)
        column = column.cast(pa.float64(), safe=False)
    if pa.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)
    return to_numpy(column)


def _finite(values: np.ndarray, place: str) -> np.ndarray:
    """Return numbers, all of which are finite in 32 bits; the error names the column, which a graph's features no more have."""
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            wrong = ~np.isfinite(values.astype(FLOAT32, copy=False))
        if wrong.any():
            row = int(np.argmax(wrong.any(axis=1) if wrong.ndim == 2 else wrong))
            raise InputError(f"{place}: node {row} has {values[wrong][0]}, and should have a finite number of 32 bits")
    return values


def _is_rounded(part: np.ndarray, matrix: np.ndarray) -> bool:
    if matrix.dtype.kind != "f" and np.abs(matrix.astype(np.float64)).max(initial=0) < 2**15:
        return False  # as whole numbers of 16 bits
    return not is_exact(part, part.astype(FLOAT32))


def _check_rows(parts: Mapping[str, np.ndarray], place: str) -> None:
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise InputError(f"{place}: columns of different lengths: {short(listed, 200)}")


def _is_nested(given: Any) -> bool:
    return isinstance(given, list | tuple) and any(
        hasattr(row, "__len__") and not isinstance(row, str) for row in given[:1]
    )


def _from_objects(matrix: np.ndarray, place: str) -> np.ndarray:
    """Return a matrix of objects that are numbers as numbers."""
    if matrix.ndim > 2:
        raise InputError(f"{place} are {matrix.dtype} {matrix.shape}, and should be numbers (nodes, width)")
    column = as_column(matrix.ravel().tolist(), place)
    if kind_of(column) not in ("whole", "number", "boolean", "decimal"):
        raise InputError(f"{place} are {matrix.dtype}, and should be numbers")
    if column.null_count:
        row, feature = np.argwhere(column.is_null().to_numpy(zero_copy_only=False).reshape(len(matrix), -1))[0]
        raise InputError(f"{place}: feature {feature} of node {row} is missing: fill it in, or leave the feature out")
    return _values(column, place).reshape(matrix.shape)


def _all_columns(columns: Mapping[Any, Any], place: str) -> np.ndarray:
    if (matrix := from_columns(columns, place, chosen=True)) is None:
        raise InputError(f"{place}: no columns")
    return matrix
