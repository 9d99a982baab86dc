"""Look-up of node numbers by the users' ids, many at a time."""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.casts import written
from hetjax.casts.column import is_text
from hetjax.casts.ids import CANONICAL, check_ids, is_inexact, whole_numbers
from hetjax.graph.arrow import to_arrow
from hetjax.ingest.lookup import lookup
from hetjax.system.errors import InputError, short

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
        """Return node numbers int32 `[rows]`; -1 where there is no such id, or none. An error begins with `place`.

        Raises:
          InputError: the column can be no ids.
        """
        return self.lookup.find(_as(column, self.kind, place))

    def unknown(self, column: pa.Array, row: int) -> str:
        """Return an error's words about an id that no node has."""
        value = column[row].as_py()
        if value is None or value != value:
            return "missing"
        text = isinstance(value, str) and (self.kind == "text" or not CANONICAL.fullmatch(value))
        shown = short(repr(value), 80) if text else short(str(value), 80)
        words = f"{shown} is no id of node type {self.node_type!r}"
        if isinstance(value, str) and self.kind == "whole" and re.fullmatch("[+-]?[0-9]{1,30}", value.strip()):
            words += f", whose ids are whole numbers: it is another text than {int(value)}"
        return words


def _as(column: pa.Array, kind: str, place: str) -> pa.Array:
    """Return ids that are looked up, as int64 or large_string; null where they can be none of that kind."""
    if not (is_inexact(column.type) or pa.types.is_null(column.type)):  # as pandas makes of some that are missing
        check_ids(column, place)
    if is_text(column.type):
        return column.cast(pa.large_string()) if kind == "text" else _from_text(column)
    numbers = whole_numbers(column)
    return numbers.cast(pa.large_string()) if kind == "text" else numbers


def _from_text(column: pa.Array) -> pa.Array:
    """Return the numbers that texts say as Python writes them, int64; null where they say none."""
    numbers, wrong = written.whole_numbers(column.cast(pa.large_string()))
    return pa.array(numbers, mask=wrong) if wrong.any() else to_arrow(numbers)


def check_lengths(column: pa.Array, place: Callable[..., str], what: str) -> None:
    """Raise an InputError for a text of more than `LONGEST` bytes, as all distinct ones are held in memory."""
    if is_text(column.type) and len(column) and (pc.max(pc.binary_length(column)).as_py() or 0) > LONGEST:
        row = int(
            np.argmax(pc.greater(pc.binary_length(column), LONGEST).fill_null(False).to_numpy(zero_copy_only=False))
        )
        size = pc.binary_length(column)[row].as_py()
        raise InputError(f"{place(row)}: a text of {size:,} bytes, and {what} have at most {LONGEST:,}")
