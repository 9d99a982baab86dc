"""From the users' ids to node numbers, many at a time."""

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

    def find(self, column: pa.Array) -> np.ndarray:
        """Node numbers int32 `[rows]`; -1 where there is no such id, or none."""
        return self.lookup.find(_as(column, self.kind))

    def unknown(self, column: pa.Array, row: int) -> str:
        """What an error says of an id that is none."""
        value = column[row].as_py()
        value = str(value) if self.kind == "text" and value is not None else value
        return "missing" if value is None else f"{short(repr(value), 80)} is no id of node type {self.node_type!r}"


def _as(column: pa.Array, kind: str) -> pa.Array:
    if kind == "text":
        return column.cast(pa.large_string())
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # some are no numbers, and so none of these
        numbers = [
            int(value) if value is not None and str(value).lstrip("-").isdigit() else None
            for value in column.to_pylist()
        ]
        return pa.array(numbers, pa.int64())


def normal(ids: list[pa.Array]) -> pa.Array:
    """Ids as they were read: int64 if all are whole numbers as Python writes them, else large_string.

    `007` stays a text: as a number it would be another id.
    """
    for kind in {chunk.type for chunk in ids}:
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"ids are {kind}, and should be whole numbers or texts")
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
