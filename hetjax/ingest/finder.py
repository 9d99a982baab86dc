"""From the users' ids to node numbers, many at a time."""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hetjax.errors import InputError, short
from hetjax.ingest.lookup import lookup


class Finder:
    """The ids of one type.

    Args:
      ids: int64 or large_string `[nodes]`, distinct.
      node_type: they are of.

    Attributes:
      count: how many there are.
      kind: in which edges are to be read: `whole` or `text`.
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
        value = str(value) if self.kind == "text" and value is not None else value
        return "missing" if value is None else f"{short(repr(value), 80)} is no id of node type {self.node_type!r}"


def _as(column: pa.Array, kind: str, place: str) -> pa.Array:
    if not (
        pa.types.is_floating(column.type) or pa.types.is_null(column.type)
    ):  # as pandas makes of some that are missing
        check_ids(column, place)
    if kind == "text":
        return column.cast(pa.large_string())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # some are no such numbers, and so none of these
        return pa.array(map(_whole, column.to_pylist()), pa.int64())


def check_ids(column: pa.Array, place: str) -> None:
    """Raise an InputError, which begins with `place`, unless these are whole numbers or texts."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{place}: ids are {kind}, and should be whole numbers or texts")


def _whole(value: int | float | str | None) -> int | None:
    """The number that an id is, if it is one of 64 bits."""
    if isinstance(value, str):
        value = int(value) if re.fullmatch("-?[0-9]{1,19}", value) else None
    return int(value) if value is not None and value == value // 1 and -(2**63) <= value < 2**63 else None


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
