"""Edges in text, a line each: source, target and, if there are weights, weight, between blanks, tabs or a comma.

One compiled pass reads the bytes, and knows the line of whatever it does not take. Blank lines and those that begin with
`#` or `%` are skipped, as in the files of SNAP and of the Matrix Market.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hetjax.datasets import packed
from hetjax.datasets.homogeneous import Edges
from hetjax.datasets.text import LONGEST_CELL, blocks, shown
from hetjax.graph.schema import no_node
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

NEWLINE, RETURN, BLANK, TAB, COMMA, HASH, PERCENT = (ord(c) for c in "\n\r \t,#%")
PLUS, MINUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = (ord(c) for c in "+-.09eE")
RIGHT, MALFORMED, COLUMNS, SOURCE, TARGET = range(5)
POWERS = np.array([float(f"1e{power}") for power in range(23)])  # which a float64 holds exactly
MOST_DIGITS, MOST_EXPONENT = 10**15, 10**6
CELL = re.compile(rb"[^ \t,\r\n]+")


def read(file: Path, nodes: int) -> Edges:
    """Read a file, packed if its name ends in `.gz`.

    Args:
      nodes: how many there are; ids begin at 0.

    Raises:
      InputError: it cannot be read; or a line is no edge, has more or fewer columns than those before, or names a node that
        does not exist.
    """
    with reading(file), open_regular(file) as raw:
        stream = raw if file.suffix != ".gz" else packed.Checked(gzip.GzipFile(fileobj=raw), file.stat().st_size)
        parts = list(parsed(stream, nodes, file))
    source, target = (np.concatenate([np.empty(0, np.int32), *(part[side] for part in parts)]) for side in (0, 1))
    if not parts or parts[0].weights is None:
        return Edges(source, target)
    return Edges(source, target, np.concatenate([part.weights for part in parts if part.weights is not None]))


def parsed(stream: packed.Readable, nodes: int, place: str | Path, ended: bool = False) -> Iterator[Edges]:
    """Yield the edges of a text, some at a time.

    Args:
      stream: the text.
      nodes: how many there are; ids begin at 0.
      place: the file to name in an error.
      ended: whether the last line must have an end too, without which the text may have been cut short.

    Raises:
      InputError: as `read`.
    """
    lines = columns = 0
    for _, text in blocks(stream, place):
        if ended and not text.endswith(b"\n"):
            raise InputError(f"{place}: line {lines + 1}: has no end; was the file cut short?")
        part, columns, lines = _read_block(text, nodes, columns, lines, place)
        if len(part.source):
            yield part


def _read_block(text: bytes, nodes: int, columns: int, lines: int, place: str | Path) -> tuple[Edges, int, int]:
    """Return the edges of a block, the number of columns, and of lines with those before."""
    most = text.count(b"\n") + 1
    source, target = np.empty((2, most), np.int32)
    weights, starts = np.empty(most), np.empty(most, np.int64)
    found = _parse(np.frombuffer(text, np.uint8), nodes, columns, source, target, weights, starts)
    edges, read_lines, columns, fault = found
    if fault:
        raise InputError(_words(fault, text, read_lines, columns, nodes, f"{place}: line {lines + read_lines}"))
    if columns != 3:
        return Edges(source[:edges], target[:edges]), columns, lines + read_lines
    weights, starts = weights[:edges], starts[:edges]
    for edge in np.flatnonzero(np.isnan(weights)):  # of more digits than float64 holds exactly
        number = CELL.match(text, int(starts[edge]))
        assert number is not None  # `_parse` saw it
        weights[edge] = float(number[0])
    with np.errstate(over="ignore"):
        narrow = weights.astype(np.float32)
    infinite = np.flatnonzero(~np.isfinite(narrow))
    if len(infinite):
        line = lines + text[: starts[infinite[0]]].count(b"\n") + 1
        raise InputError(f"{place}: line {line}: weight {weights[infinite[0]]} is not a finite number of 32 bits")
    return Edges(source[:edges], target[:edges], narrow), columns, lines + read_lines


def _words(fault: int, text: bytes, line: int, columns: int, nodes: int, place: str) -> str:
    """Return what is wrong with a line of a block."""
    content = text.split(b"\n", line)[line - 1].rstrip(b"\r").decode(errors="backslashreplace")
    cells = [cell for cell in re.split("[ \t,]+", content) if cell]
    if fault in (SOURCE, TARGET):
        return f"{place}: {no_node(cells[fault == TARGET][:LONGEST_CELL], nodes)}"
    if fault == COLUMNS:
        return f"{place}: {len(cells)} columns != {columns} of the lines before"
    return f"{place}: {shown(content)}, and should be SOURCE TARGET or SOURCE TARGET WEIGHT, ids being whole numbers from 0 and weights finite numbers; other lines begin with # or %"


@compiled
def _parse(text, nodes, columns, source, target, weights, starts):
    """Fill arrays with the edges of some lines.

    Returns:
      `(edges, lines, columns, fault)`; after a fault the last of the lines is the one that has it. A weight that takes more
      care is not a number; `starts` says where each stands.
    """
    edges, lines, at, end = 0, 0, 0, len(text)
    while at < end:
        lines += 1
        stop = at
        while stop < end and text[stop] != NEWLINE:
            stop += 1
        after = stop + 1
        if stop > at and text[stop - 1] == RETURN:
            stop -= 1
        at = _skip_blanks(text, at, stop)
        if at < stop and text[at] != HASH and text[at] != PERCENT:
            first, at = _whole(text, at, stop)
            at = _skip_separator(text, at, stop)
            second, at = _whole(text, at, stop)
            found, last = 2, _skip_blanks(text, at, stop)
            if first < 0 or second < 0:
                return edges, lines, columns, MALFORMED
            if last < stop:
                found, starts[edges] = 3, _skip_separator(text, at, stop)
                weights[edges], last = _number(text, starts[edges], stop)
                if starts[edges] == at or last < 0 or _skip_blanks(text, last, stop) < stop:
                    return edges, lines, columns, MALFORMED
            if columns and found != columns:
                return edges, lines, columns, COLUMNS
            if first >= nodes or second >= nodes:
                return edges, lines, columns, SOURCE if first >= nodes else TARGET
            source[edges], target[edges], columns = first, second, found
            edges += 1
        at = after
    return edges, lines, columns, RIGHT


@compiled
def _skip_blanks(text, at, stop):
    while at < stop and (text[at] == BLANK or text[at] == TAB):
        at += 1
    return at


@compiled
def _skip_separator(text, at, stop):
    at = _skip_blanks(text, at, stop)
    if at < stop and text[at] == COMMA:
        at = _skip_blanks(text, at + 1, stop)
    return at


@compiled
def _whole(text, at, stop):
    """Return the number that digits say, and where they end; -1 where there are none, or something else follows."""
    value, start = 0, at
    while at < stop and ZERO <= text[at] <= NINE:
        value = min(10 * value + (text[at] - ZERO), MOST_DIGITS)
        at += 1
    ends = at == stop or text[at] == BLANK or text[at] == TAB or text[at] == COMMA
    return value if ends and at > start else -1, at


@compiled
def _number(text, at, stop):
    """Return the number that a cell says, or not a number if that takes more care, and where it ends; -1 where it says none."""
    negative = at < stop and text[at] == MINUS
    if at < stop and (text[at] == MINUS or text[at] == PLUS):
        at += 1
    digits, power, seen, pointed = 0, 0, 0, False
    while at < stop and (ZERO <= text[at] <= NINE or (text[at] == POINT and not pointed)):
        if text[at] == POINT:
            pointed = True
        else:
            digits, seen = min(10 * digits + (text[at] - ZERO), MOST_DIGITS), seen + 1
            power -= pointed
        at += 1
    exponent, signed = 0, 1
    if seen and at < stop and (text[at] == SMALL_E or text[at] == LARGE_E):
        at, seen = at + 1, 0
        if at < stop and (text[at] == MINUS or text[at] == PLUS):
            signed = -1 if text[at] == MINUS else 1
            at += 1
        while at < stop and ZERO <= text[at] <= NINE:
            exponent, seen = min(10 * exponent + (text[at] - ZERO), MOST_EXPONENT), seen + 1
            at += 1
    if not seen or not (at == stop or text[at] == BLANK or text[at] == TAB):
        return 0.0, -1
    power += signed * exponent
    if digits == MOST_DIGITS or abs(power) >= len(POWERS):
        return np.nan, at
    value = digits / POWERS[-power] if power < 0 else digits * POWERS[power]
    return -value if negative else value, at
