"""From the users' ids to node numbers, many at a time."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.errors import InputError, short

SPREAD = 8  # a table of numbers may have so many places per id


class Finder:
    """The ids of one type.

    Args:
      ids: int64 or large_string `[nodes]`, distinct.
      node_type: they are of.

    Attributes:
      kind: in which edges are to be read: `whole` or `text`.
    """

    def __init__(self, ids: pa.Array, node_type: str):
        self.ids, self.node_type = ids, node_type
        self.kind = "whole" if pa.types.is_int64(ids.type) else "text"
        if self.kind == "whole":
            values = ids.to_numpy(zero_copy_only=False)
            self.low = int(values.min(initial=0)) if len(values) else 0
            spread = int(values.max(initial=0)) - self.low + 1 if len(values) else 0
            self.direct = spread <= SPREAD * len(values) + 1024
            if self.direct:
                self.table = np.full(spread, -1, np.int32)
                self.table[values - self.low] = np.arange(len(values), dtype=np.int32)
            else:
                self.order = np.argsort(values, kind="stable").astype(np.int32)
                self.sorted = values[self.order]

    def find(self, column: pa.Array) -> np.ndarray:
        """Node numbers int32 `[rows]`; -1 where there is no such id, or none."""
        wanted = _as(column, self.kind)
        if self.kind == "text":
            found = pc.index_in(wanted, self.ids, skip_nulls=True)
            return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        nulls = wanted.is_null().to_numpy(zero_copy_only=False) if wanted.null_count else None
        values = wanted.fill_null(0).to_numpy(zero_copy_only=False)
        if self.direct:
            places = values - self.low
            outside = (places < 0) | (places >= len(self.table))
            if outside.any():
                places = np.where(outside, 0, places)
                found = np.where(outside, -1, self.table[places]) if len(self.table) else np.full(len(values), -1)
            else:
                found = self.table[places]
        else:
            places = np.minimum(np.searchsorted(self.sorted, values), len(self.sorted) - 1)
            found = np.where(self.sorted[places] == values, self.order[places], -1)
        return found.astype(np.int32, copy=False) if nulls is None else np.where(nulls, -1, found).astype(np.int32)

    def unknown(self, column: pa.Array, row: int) -> str:
        """What an error says of an id that is none."""
        value = column[row].as_py()
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
    if not ids:
        return pa.array([], pa.int64())
    joined = pa.chunked_array(
        [chunk.cast(pa.large_string()) if pa.types.is_string(chunk.type) else chunk for chunk in ids]
    )
    values = joined.combine_chunks()
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    if not pa.types.is_large_string(values.type):
        raise InputError(f"ids are {values.type}, and should be whole numbers or texts")
    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return values
    return numbers if numbers.cast(pa.large_string()).equals(values) else values
