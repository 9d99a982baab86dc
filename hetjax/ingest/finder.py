"""From the users' ids to node numbers, many at a time."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.errors import InputError, short
from hetjax.ingest.lookup import lookup

CANONICAL = re.compile("0|-?[1-9][0-9]{0,18}")  # a whole number as Python writes it
MOST, EXACT = 2**63, 2**53  # of an id, and of one among floats
DIGITS = 40  # of a number that an error shows
LONGEST = 2**12  # bytes of an id, or of the name of a class or category


class Finder:
    """The ids of one type.

    Args:
      ids: int64 or large_string `[nodes]`, distinct.
      node_type: they are of.

    Attributes:
      count: how many there are.
      kind: of the ids: `whole` or `text`.
    """

    def __init__(self, ids: pa.Array, node_type: str):
        self.node_type, self.count, self.lookup = node_type, len(ids), lookup(ids)
        self.kind = "whole" if pa.types.is_int64(ids.type) else "text"

    def find(self, column: pa.Array, place: str) -> np.ndarray:
        """Node numbers int32 `[rows]`; -1 where there is no such id, or none. An error begins with `place`.

        Raises:
          InputError: the column can be no ids.
        """
        return self.lookup.find(_as(column, self.kind, place))

    def unknown(self, column: pa.Array, row: int) -> str:
        """What an error says of an id that is none."""
        value = column[row].as_py()
        if value is None:
            return "missing"
        text = isinstance(value, str) and (self.kind == "text" or not CANONICAL.fullmatch(value))
        shown = short(repr(value), 80) if text else short(str(value), 80)
        words = f"{shown} is no id of node type {self.node_type!r}"
        if isinstance(value, str) and self.kind == "whole" and re.fullmatch("[+-]?[0-9]{1,30}", value.strip()):
            words += f", whose ids are whole numbers: it is another text than {int(value)}"
        return words


def _as(column: pa.Array, kind: str, place: str) -> pa.Array:
    """Ids that are looked up, as int64 or large_string; null where they can be none of that kind."""
    if not (
        pa.types.is_floating(column.type) or pa.types.is_decimal(column.type) or pa.types.is_null(column.type)
    ):  # as pandas makes of some that are missing
        check_ids(column, place)
    if _is_text(column.type):
        return column.cast(pa.large_string()) if kind == "text" else _from_text(column)
    whole = _from_numbers(column)
    return whole.cast(pa.large_string()) if kind == "text" else whole


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _from_text(column: pa.Array) -> pa.Array:
    """The numbers that texts say as Python writes them, int64: `007` is another id than 7."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:  # some are no such numbers, and so none of these
        usual = pc.match_substring_regex(column, f"^({CANONICAL.pattern})$")
        column = pc.if_else(usual, column, None)
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # of over 64 bits
            values = [None if text is None else int(text) for text in column.to_pylist()]
            return pa.array([one if one is None or -MOST <= one < MOST else None for one in values], pa.int64())
    same = pc.equal(numbers.cast(column.type), column)
    return numbers if pc.all(same).as_py() in (True, None) else pc.if_else(same, numbers, None)


def _from_numbers(column: pa.Array) -> pa.Array:
    """Whole numbers, int64; null where they have a fraction, or over 64 bits, or are no more exact in a column of floats."""
    try:
        if not pa.types.is_floating(column.type):
            return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array(map(_whole, column.to_pylist()), pa.int64())
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    exact = np.isfinite(values) & (np.abs(values) < EXACT)
    exact[exact] = values[exact] == np.floor(values[exact])
    return pa.array(np.where(exact, values, 0).astype(np.int64), mask=~exact)


def _whole(value: int | Decimal | None) -> int | None:
    """The number that an id is, if it is one of 64 bits."""
    return int(value) if value is not None and value == value // 1 and -MOST <= value < MOST else None


def node_ids(column: pa.Array, place: Callable[..., str]) -> pa.Array:
    """Ids of nodes, as they are told apart: int64, or texts.

    Args:
      place: of a row, or of all: what an error begins with.

    Raises:
      InputError: they are of another kind; or one is missing, is no whole number, has over 64 bits or is too long.
    """
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type) or pa.types.is_uint64(column.type):
        found = _from_numbers(column)
    else:
        check_ids(column, place())
        found = column
    if found.null_count:
        row = pc.index(found.is_null(), True).as_py()
        value = column[row].as_py()
        if value is None or value != value:
            raise InputError(f"{place(row)}: missing, and every node has an id")
        raise InputError(f"{place(row)}: {value} is no id: ids are whole numbers of 64 bits, or texts")
    check_lengths(found, place, "ids")
    return found


def check_lengths(column: pa.Array, place: Callable[..., str], what: str) -> None:
    """Raise an InputError for a text of more than `LONGEST` bytes, as all distinct ones are held in memory."""
    if _is_text(column.type) and len(column) and (pc.max(pc.binary_length(column)).as_py() or 0) > LONGEST:
        row = int(
            np.argmax(pc.greater(pc.binary_length(column), LONGEST).fill_null(False).to_numpy(zero_copy_only=False))
        )
        size = pc.binary_length(column)[row].as_py()
        raise InputError(f"{place(row)}: a text of {size:,} bytes, and {what} have at most {LONGEST:,}")


def check_ids(column: pa.Array, place: str) -> None:
    """Raise an InputError, which begins with `place`, unless these are whole numbers or texts."""
    kind = column.type
    if not (pa.types.is_integer(kind) or _is_text(kind)):
        raise InputError(f"{place}: ids are {kind}, and should be whole numbers or texts")


def normal(ids: list[pa.Array]) -> pa.Array:
    """Ids, whole numbers or texts, as they were read: int64 if all are whole numbers as Python writes them, else large_string.

    `007` stays a text: as a number it would be another id.
    """
    values = joined(ids, pa.int64())
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return values
    return numbers if numbers.cast(pa.large_string()).equals(values) else values


def joined(chunks: Sequence[pa.Array], otherwise: pa.DataType) -> pa.Array:
    """One column of several pieces, as texts if some are texts; of no piece, an empty one of the type `otherwise`."""
    if not chunks:
        return pa.array([], otherwise)
    several = len({chunk.type for chunk in chunks}) > 1 or pa.types.is_string(chunks[0].type)
    made = pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks] if several else chunks)
    one = made.combine_chunks()
    return one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one
