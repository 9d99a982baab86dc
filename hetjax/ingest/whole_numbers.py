"""Columns of whole numbers in plain text, several times as fast as Arrow reads them: most tables of edges are such.

A piece of text that has anything else in these columns is left to Arrow.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from hetjax.compiled import compiled
from hetjax.ingest.configuration import Format

MINUS, ZERO, RETURN, LINE = (np.uint8(ord(c)) for c in "-0\r\n")
START, STEP = np.uintp(0), np.uintp(1)
DIGITS = 18  # of an int64, whatever they are


def usable(form: Format, columns: Mapping[str, str]) -> bool:
    """Whether a table may be read so: its columns can be whole numbers, and no number stands for a missing one."""
    numbers = any(re.fullmatch("-?[0-9]+", null) for null in form.null_values)
    return "number" not in columns.values() and not numbers and form.separator not in '0123456789-"\r\n'


def read(text: memoryview, separator: str, header: Sequence[str], columns: Mapping[str, str]) -> pa.RecordBatch | None:
    """The rows in a piece of text, or None if they are anything else than whole numbers of at most 18 digits.

    Args:
      text: whole lines without quotes, the last of which ends.
      header: the names of the cells of a line.
      columns: that are wanted, each with its kind: `whole`, or `text` of whole numbers as Python writes them, so that the text
        can be made of the number.

    Returns:
      int64 columns.
    """
    places = np.array([list(columns).index(name) if name in columns else -1 for name in header])
    strict = np.array([kind == "text" for kind in columns.values()])
    content = np.frombuffer(text, np.uint8)
    numbers = np.empty((len(columns), _lines(content)), np.int64)
    if not _read(content, np.uint8(ord(separator)), places, strict, numbers):
        return None
    return pa.RecordBatch.from_arrays([pa.array(column) for column in numbers], names=list(columns))


@compiled
def _lines(text):
    lines = 0
    for byte in text:
        lines += byte == LINE
    return lines


@compiled
def _read(text, separator, places, strict, numbers):
    """Fill `numbers` `[columns, lines]`; false if there is anything else. Places without a sign are half as much work for numba."""
    at, rows, last = START, START, len(places) - 1
    size = np.uintp(len(text))
    while at < size:
        for cell in range(len(places)):
            place = places[cell]
            if place < 0:
                while text[at] != separator and text[at] != LINE and text[at] != RETURN:
                    at += STEP
            else:
                minus = text[at] == MINUS
                if minus:
                    at += STEP
                start, value = at, np.int64(0)
                digit = np.uint8(text[at] - ZERO)
                while digit < 10:
                    value = 10 * value + np.int64(digit)
                    at += STEP
                    digit = np.uint8(text[at] - ZERO)
                length = at - start
                if length == 0 or length > DIGITS:
                    return False
                if strict[place] and text[start] == ZERO and (length > 1 or minus):
                    return False
                numbers[place, rows] = -value if minus else value
            if cell == last and text[at] == RETURN:
                at += STEP
            if text[at] != (LINE if cell == last else separator):
                return False
            at += STEP
        rows += STEP
    return True
