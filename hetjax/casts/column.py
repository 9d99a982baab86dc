"""A column of any library as an Arrow array, in which every missing value is null."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.system.errors import InputError, short

TEXTS = pa.large_string()


def as_column(given: Any, place: str) -> pa.Array:
    """Return a column as an Arrow array `[rows]` in which None, NaN, NaT and pandas' NA are null.

    Dictionaries and categories are decoded with their nulls, texts become large_string, and bytes are read as UTF-8. Numbers,
    booleans, decimals, dates, times and lists keep their type.

    Args:
      given: a list, set, range, numpy array, tensor, sparse matrix of one column, or a column of pandas, polars or Arrow.
      place: what an error begins with.

    Raises:
      InputError: it is no column, or its values are of several kinds.
    """
    if isinstance(given, str | bytes | Mapping) or not (hasattr(given, "__len__") or isinstance(given, Iterator)):
        raise InputError(
            f"{place}: {short(repr(given), 80)} is {type(given).__name__}, and should be a column of values"
        )
    try:
        return _normal(_to_arrow(given, place), place)
    except InputError:
        raise
    except OverflowError:
        raise InputError(f"{place}: a whole number of over 64 bits") from None
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"{place}: {short(str(error), 200)}") from None


def as_dense(given: Any, place: str) -> np.ndarray:
    """Return a tensor, sparse matrix or frame as a numpy array of any shape; masked values are NaN.

    Raises:
      InputError: its rows differ in length.
    """
    if hasattr(
        given, "detach"
    ):  # a tensor of torch, which numpy takes only from the CPU, and not of every layout and type
        given = given.detach().cpu()
        given = given if "strided" in str(given.layout) else given.to_dense()
        return (given.float() if "bfloat16" in str(given.dtype) else given).numpy()
    try:
        if hasattr(given, "toarray"):
            return given.toarray()
        if np.ma.is_masked(given):
            return np.ma.filled(np.ma.asarray(given, np.float64), np.nan)
        if hasattr(given, "to_numpy"):
            return given.to_numpy()
        array = np.asarray(given)
        return np.asarray(given, object) if array.dtype.kind == "U" else array  # no number of a list becomes a text
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{place}: {short(str(error), 200)}") from None


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type of Arrow is one of texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_time(kind: pa.DataType) -> bool:
    """Tell whether a type of Arrow is one of dates, or of dates with a time."""
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type of Arrow is one of lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def kind_of(column: pa.Array) -> str:
    """Return the kind of a column in words: `empty` where all values are missing, `whole`, `number`, `decimal`, `text`, `boolean`, `time`,
    `list`, or `other`."""
    kind = column.type
    kinds = {
        "empty": pa.types.is_null(kind),
        "whole": pa.types.is_integer(kind),
        "number": pa.types.is_floating(kind),
        "decimal": pa.types.is_decimal(kind),
        "text": is_text(kind),
        "boolean": pa.types.is_boolean(kind),
        "time": is_time(kind),
        "list": is_list(kind),
    }
    return next((name for name, right in kinds.items() if right), "other")


def columns_of(given: Any) -> list[Any] | None:
    """Return the names of a frame's columns, be it pandas', polars', Arrow's or a dictionary; None: it is no frame."""
    if isinstance(given, Mapping):
        return list(given)
    if not hasattr(given, "columns") or not hasattr(given, "__getitem__"):
        return None
    return list(given.column_names if hasattr(given, "column_names") else given.columns)


def _to_arrow(given: Any, place: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given
    if hasattr(given, "to_arrow"):  # a series of polars
        return given.to_arrow()
    if type(given).__module__.split(".")[0] == "pandas":
        return _from_pandas(given, place)
    if isinstance(given, Collection | Iterator) and not hasattr(given, "__array__"):
        return _from_objects(list(given), place)
    if isinstance(given, np.ma.MaskedArray):
        values = given.data[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given.data
        return pa.array(_one_column(values, place), mask=np.ma.getmaskarray(given).reshape(len(given)))
    values = _one_column(as_dense(given, place), place)
    if values.dtype.kind in "OSUT":
        return _from_objects(values.tolist(), place)
    if values.dtype.kind not in "biufmM":
        raise InputError(f"{place}: {values.dtype}, and should be numbers or texts")
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] in (
        "Y",
        "M",
        "W",
        "h",
        "m",
    ):  # Arrow has no such
        values = values.astype(f"{values.dtype.kind}8[s]")
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    return pa.array(values.astype(values.dtype.newbyteorder("="), copy=False))


def _one_column(values: np.ndarray, place: str) -> np.ndarray:
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise InputError(f"{place}: {values.dtype} {values.shape}, and should be one column, (rows,)")
    return values


def _from_pandas(given: Any, place: str) -> pa.Array | pa.ChunkedArray:
    if getattr(given, "ndim", 1) != 1:
        raise InputError(f"{place}: a frame {given.shape}, and should be one column: is its name there twice?")
    if str(given.dtype).startswith("Sparse"):
        return _to_arrow(np.asarray(given), place)
    if str(given.dtype) == "object":
        return _from_objects(list(given), place)
    if hasattr(given, "to_series"):  # an index
        given = given.to_series()
    return pa.array(given, from_pandas=True)


def _from_objects(values: list, place: str) -> pa.Array:
    """Return objects of one kind as a column; numbers of several kinds are one kind, texts or truth values among them are not."""
    if len(types := set(map(type, values))) == 1 and types <= {int, float, str, bool}:
        return pa.array(values, from_pandas=True)
    if any(isinstance(one, bytes) for one in values):
        values = [one.decode() if isinstance(one, bytes) else one for one in values]
    if any(hasattr(one, "detach") for one in values):
        values = [one.item() if hasattr(one, "detach") and one.ndim == 0 else one for one in values]
    if any(isinstance(one, np.datetime64) for one in values):  # of which Arrow reads not every unit
        values = [one.astype("M8[us]").item() if isinstance(one, np.datetime64) else one for one in values]
    kinds = Counter(_kind(one) for one in values if not _missing(one))
    if len(kinds) > 1:
        usual = kinds.most_common(1)[0][0]
        odd = next(one for one in values if not _missing(one) and _kind(one) != usual)
        others = {"str": "texts", "number": "numbers", "bool": "true or false"}.get(usual, usual)
        raise InputError(f"{place}: {short(repr(odd), 80)} is {type(odd).__name__}, and others are {others}")
    return pa.array(values, from_pandas=True)


def _missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "str"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | float | np.integer | np.floating):
        return "number"
    return "list" if isinstance(value, list | tuple | np.ndarray) else type(value).__name__


def _normal(column: pa.Array | pa.ChunkedArray, place: str) -> pa.Array:
    """Return a column decoded, of one piece, with texts as large_string and NaN as null."""
    kind = column.type
    if pa.types.is_dictionary(kind):  # before the pieces are joined: each may have a dictionary of its own
        column = column.cast(kind.value_type)
    if pa.types.is_run_end_encoded(kind):
        column = pc.run_end_decode(column)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if (
        pa.types.is_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    ):
        column = column.cast(TEXTS)
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)  # NaN where it is null
        unknown = np.isnan(values)
        column = pa.array(values, column.type, mask=unknown) if unknown.any() else column
    return column


def joined(chunks: Sequence[pa.Array], otherwise: pa.DataType) -> pa.Array:
    """Return several pieces as one column, as texts if some are texts; of no piece, an empty one of the type `otherwise`."""
    if not chunks:
        return pa.array([], otherwise)
    several = len({chunk.type for chunk in chunks}) > 1 or pa.types.is_string(chunks[0].type)
    array = pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks] if several else chunks)
    one = array.combine_chunks()
    return one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one
