"""Ids of nodes: whole numbers of 64 bits or texts, and the node numbers of those that are looked up."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.casts import written
from hetjax.casts.column import as_column, is_text, joined
from hetjax.graph.arrow import to_arrow, to_numpy
from hetjax.graph.names import Ids
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log

CANONICAL = re.compile("0|-?[1-9][0-9]{0,18}")  # a whole number as Python writes it
MOST, EXACT = 2**63, 2**53  # of an id, and of one among floats


def node_ids(column: pa.Array, place: Callable[..., str]) -> pa.Array:
    """Return ids of nodes as they are told apart: int64, or texts.

    Args:
      place: of a row, or of all: what an error begins with.

    Raises:
      InputError: they are of another kind; or one is missing, is no whole number, or has over 64 bits.
    """
    found = whole_numbers(column) if is_inexact(column.type) else column
    if not is_inexact(column.type):
        check_ids(column, place())
    if found.null_count:
        row = pc.index(found.is_null(), True).as_py()
        value = column[row].as_py()
        if value is None:
            raise InputError(f"{place(row)}: missing, and every node has an id")
        raise InputError(f"{place(row)}: {value} is no id: ids are whole numbers of 64 bits, or texts")
    return found


def as_ids(given: Any, place: str) -> pa.Array:
    """Return the users' ids of a type's nodes, int64 or large_string `[nodes]`, of any column, as `node_ids` does."""
    column = as_column(given, place)
    if not len(column):
        return pa.array([], pa.int64())
    return node_ids(column, lambda row=None: place if row is None else f"{place}: entry {row}")


def positions(asked: pa.Array, ids: Ids | None, place: str) -> np.ndarray:
    """Return the node numbers int64 of ids, all of which must be there.

    A text and a whole number are one id only where the text is how Python writes the number: `007` is another id than 7.

    Args:
      asked: int64 or large_string, as `as_ids` gives them.
      ids: of the type; None: it has none.

    Raises:
      InputError: an id that is none of the type's.
    """
    if ids is None:
        raise InputError(
            f"{place}: {short(repr(asked[0].as_py()))} is an id of yours, and the type has none: give `ids`"
        )
    numbers = ids.find(asked)
    if (numbers < 0).any():
        position = int(np.argmax(numbers < 0))
        value = asked[position].as_py()
        words = f"{place}: {short(repr(value), 80)}, entry {position}, is no id of the type's {len(ids)}"
        raise InputError(words + _other_kind(value, ids))
    if len(asked) and is_text(asked.type) != is_text(ids.values.type):
        kinds = ("texts", "whole numbers")[:: 1 if is_text(asked.type) else -1]
        log.warning("%s: %s are compared with ids that are %s", place, *kinds)
    return numbers


def _other_kind(value: int | str, ids: Ids) -> str:
    """Return the end of an error where ids are numbers and what is asked for is a text that looks like one."""
    if (
        isinstance(value, str)
        and not is_text(ids.values.type)
        and re.fullmatch(r"\s*[+-]?[0-9]{1,18}(\.0*)?\s*", value)
    ):
        return f", whose ids are whole numbers: it is another text than {int(float(value))}"
    return ""


def node_numbers(given: Any, place: str) -> np.ndarray | pa.Array:
    """Return what names nodes at an end of edges: int64 node numbers or ids; or texts `[edges]` as an Arrow column.

    Raises:
      InputError: one is missing, or they are neither whole numbers nor texts.
    """
    plain = isinstance(given, np.ndarray) and not isinstance(given, np.ma.MaskedArray)
    if plain and given.ndim == 1 and given.dtype.kind == "i":
        return given.view()
    column = as_ids(given, place)
    return column if is_text(column.type) else to_numpy(column.cast(pa.int64()))


def is_inexact(kind: pa.DataType) -> bool:
    """Tell whether ids of this type are whole numbers only where each is looked at."""
    return pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_uint64(kind)


def whole_numbers(column: pa.Array) -> pa.Array:
    """Return whole numbers as int64; null where they have a fraction, or over 64 bits, or are no more exact in a column of floats."""
    try:
        if not pa.types.is_floating(column.type):
            return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array(map(_whole, column.to_pylist()), pa.int64())
    values = to_numpy(column.cast(pa.float64()), np.nan)
    exact = np.isfinite(values) & (np.abs(values) < EXACT)
    exact[exact] = values[exact] == np.floor(values[exact])
    return pa.array(np.where(exact, values, 0).astype(np.int64), mask=~exact)


def _whole(value: int | Decimal | None) -> int | None:
    """Return the number that an id is, if it is one of 64 bits."""
    return int(value) if value is not None and value == value // 1 and -MOST <= value < MOST else None


def check_ids(column: pa.Array, place: str) -> None:
    """Raise an InputError, which begins with `place`, unless these are whole numbers or texts."""
    kind = column.type
    if not (pa.types.is_integer(kind) or is_text(kind)):
        shown = "missing, all of them" if pa.types.is_null(kind) else str(kind)
        raise InputError(f"{place}: ids are {shown}, and should be whole numbers or texts")


def normal(ids: list[pa.Array]) -> pa.Array:
    """Return ids, whole numbers or texts, as they were read: int64 if all are whole numbers as Python writes them, else large_string.

    `007` stays a text: as a number it would be another id.
    """
    values = joined(ids, pa.int64())
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    numbers, wrong = written.whole_numbers(values.cast(pa.large_string()))
    return values if wrong.any() else to_arrow(numbers)
