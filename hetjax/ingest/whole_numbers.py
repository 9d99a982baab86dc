"""Reader of columns of whole numbers in plain text, several times as fast as Arrow: most tables of edges are such.

What is no digit is found 64 bytes at a time, and eight digits become a number at once. A piece of text that has anything else
than whole numbers in these columns is left to Arrow.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import types

from hetjax.datasets.marks import EIGHT_BITS, WORD_BITS, load, trailing_zeros
from hetjax.graph.arrow import to_arrow
from hetjax.ingest.declared import Format
from hetjax.system.compiled import compiled, intrinsic

MINUS, ZERO, RETURN, LINE = (np.uint8(ord(c)) for c in "-0\r\n")
START, STEP, WORD, BLOCK = map(np.uintp, (0, 1, 8, 64))
SPARE = 80  # bytes after a text that are looked at, whatever they are
DIGITS = 18  # of an int64, whatever they are
TENS = np.array([10**k for k in range(9)], np.int64)
UNREAD = np.uintp(2**31)  # the place of a column that is not wanted


def usable(form: Format, columns: Mapping[str, str]) -> bool:
    """Tell whether a table may be read so: its columns can be whole numbers, and no number stands for a missing one."""
    numbers = any(re.fullmatch("-?[0-9]+", null) for null in form.null_values)
    return {"number", "date"}.isdisjoint(columns.values()) and not numbers and form.separator not in '0123456789-"\r\n'


def read(
    text: memoryview, size: int, separator: str, header: Sequence[str], columns: Mapping[str, str]
) -> pa.RecordBatch | None:
    """Return the rows in a piece of text, or None if they are anything else than whole numbers of at most 18 digits.

    Args:
      text: whole lines without quotes, the last of which ends, and then `SPARE` bytes or more.
      size: bytes of these lines.
      header: the names of the cells of a line.
      columns: that are wanted, each with its kind: `whole`, or `text` of whole numbers as Python writes them, so that the text
        can be made of the number.

    Returns:
      int64 columns.
    """
    places = np.array([list(columns).index(name) if name in columns else UNREAD for name in header], np.uintp)
    strict = np.array([kind == "text" for kind in columns.values()])
    content = np.frombuffer(text, np.uint8)
    assert len(content) >= size + SPARE
    numbers = np.empty((len(columns), _lines(content[:size])), np.int64)
    if not _read(content, np.uintp(size), np.uint8(ord(separator)), places, strict, numbers):
        return None
    return pa.RecordBatch.from_arrays([to_arrow(values) for values in numbers], names=list(columns))


@compiled
def _lines(text):
    lines = 0
    for byte in text:
        lines += byte == LINE
    return lines


@compiled
def _read(text, size, separator, places, strict, numbers):
    """Fill `numbers` `[columns, lines]`; false if there is anything else. What ends a cell is looked at once, and what stands between never."""
    last = np.uintp(len(places) - 1)
    cell, row, at, minus = START, START, START, False  # `at`: where the cell's digits begin
    for block in range(START, size, BLOCK):
        marks = _no_digits(text, block)
        if size - block < BLOCK:
            marks &= (STEP << (size - block)) - STEP
        while marks != 0:
            end = block + trailing_zeros(marks)
            marks &= marks - STEP
            place, byte = places[cell], text[end]
            if byte != (LINE if cell == last else separator):
                if place != UNREAD and byte == MINUS and end == at and not minus:
                    minus, at = True, at + STEP
                elif byte == RETURN:
                    if cell != last or text[end + STEP] != LINE:
                        return False
                elif place != UNREAD or byte in (separator, LINE):
                    return False
                continue
            if place != UNREAD:
                length = end - at
                if cell == last and length > START and text[end - STEP] == RETURN:
                    length -= STEP
                if length == START or length > DIGITS:
                    return False
                if strict[place] and text[at] == ZERO and (length > STEP or minus):
                    return False
                if length <= WORD:  # as most are, without the call
                    value = np.int64(_eight(_word(text, at) << (BLOCK - WORD * length)))
                else:
                    value = _long(text, at, length)
                numbers[place, row] = -value if minus else value
            at, minus = end + STEP, False
            if cell == last:
                cell, row = START, row + STEP
            else:
                cell += STEP
    return True


@compiled
def _long(text, at, length):
    """Return the number of more than eight digits."""
    value = np.int64(0)
    while length > WORD:
        value = 10**8 * value + np.int64(_eight(_word(text, at)))
        at, length = at + WORD, length - WORD
    return TENS[length] * value + np.int64(_eight(_word(text, at) << (BLOCK - WORD * length)))


@compiled
def _eight(word):
    """Return the number of eight digits, or of the last ones where the first bytes are 0: neighbours are put together thrice."""
    word &= np.uint64(0x0F0F0F0F0F0F0F0F)
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (word * np.uint64(10000) + (word >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


@intrinsic
def _word(context: Any, text: Any, at: Any) -> tuple[Any, Callable]:
    """Return eight bytes of a text from `at`, the first as the lowest."""

    def build(context, builder, signature, args):
        return load(context, builder, signature, args, WORD_BITS)

    return types.uint64(text, at), build


@intrinsic
def _no_digits(context: Any, text: Any, at: Any) -> tuple[Any, Callable]:
    """Return the bytes that are no digits among 64 of a text from `at`: a bit each, the first as the lowest."""

    def build(context, builder, signature, args):
        kind = ir.VectorType(EIGHT_BITS, 64)
        values = builder.sub(load(context, builder, signature, args, kind), ir.Constant(kind, 64 * [int(ZERO)]))
        return builder.bitcast(builder.icmp_unsigned(">", values, ir.Constant(kind, 64 * [9])), WORD_BITS)

    return types.uint64(text, at), build
