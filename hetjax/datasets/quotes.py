"""Quotes in csv, checked while the text is read: Arrow closes a quote that is still open at the end of the file, without an error.

A quote at the beginning of a cell opens it, and the next one that is not doubled must end it: anything else between that quote and
the separator is refused. A quote within a cell that does not begin with one is a character like any other, as in Python's `csv`.
"""

from typing import Any

import numpy as np

from hetjax.datasets.marks import STEP, quotes_and_ends, trailing_zeros
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError

LINE, RETURN, QUOTE = (ord(c) for c in '\n\r"')
PLAIN, QUOTED, CLOSED = range(3)  # where the text is: outside of quotes, within, or just after a quote within
MODE, BEFORE, OPENED, SPANS, ROWS, FIRST = range(6)  # what is known so far, by its place in an array
AT_ONCE = 2**20  # bytes


class Checked:
    """A stream of csv in UTF-8 whose quotes are checked as it is read.

    Args:
      stream: has `read`; it begins where a row begins.
      separator: one character of ASCII.

    Attributes:
      size: how many bytes were read.
      rows: how many rows span several lines, because a quoted cell has line ends.
      first: where the first of those cells begins, in bytes.
    """

    def __init__(self, stream: Any, separator: str):
        self.stream, self.separator, self.size = stream, ord(separator), 0
        self._state = np.array([PLAIN, LINE, 0, 0, 0, 0], np.int64)

    @property
    def rows(self) -> int:
        return int(self._state[ROWS])

    @property
    def first(self) -> int:
        return int(self._state[FIRST])

    def read(self, size: int = -1) -> bytes:
        """Read some bytes, and check them.

        Raises:
          Misquoted: a quote is not closed, or is closed within a cell.
        """
        data = bytes(self.stream.read(size))
        begin = len(BOM) if not self.size and data.startswith(BOM) else 0
        if not data and size:
            self.end()
        elif self._state[MODE] != PLAIN or data.find(b'"') >= 0:
            wrong = _check(np.frombuffer(data, np.uint8)[begin:], self.separator, self.size + begin, self._state)
            if wrong >= 0:
                raise Misquoted(int(self._state[OPENED]), "a quoted cell goes on after its closing quote", wrong)
        else:
            self._state[SPANS], self._state[BEFORE] = 0, data[-1] if len(data) > begin else LINE
        self.size += len(data)
        return data

    def end(self) -> None:
        """Raise a `Misquoted` if a quote is open where the text ends."""
        if self._state[MODE] == QUOTED:
            raise Misquoted(int(self._state[OPENED]), "a quote is opened and never closed")

    closed = False


BOM = b"\xef\xbb\xbf"


class Misquoted(InputError):
    """An error about a quote, with the places in the text at which it opens and perhaps is closed, in bytes."""

    def __init__(self, opened: int, words: str, closed: int | None = None):
        super().__init__(words)
        self.opened, self.closed = opened, closed


def line_at(stream: Any, place: int) -> int:
    """Return the number, from 1, of the line in which a byte of a stream lies; `\n`, `\r\n` and `\r` end lines."""
    line, before = 1, b""
    while place > 0 and (piece := bytes(stream.read(min(place, AT_ONCE)))):
        line += piece.count(b"\n") + piece.count(b"\r") - (before + piece).count(b"\r\n")
        place, before = place - len(piece), piece[-1:]
    return line


@compiled
def _check(text, separator, start, state):
    """Check some text, which begins `start` bytes after the first; return where a quoted cell goes on after its quote, or -1."""
    size, quoted, spans, rows = len(text), state[MODE] == QUOTED, state[SPANS], state[ROWS]
    opened, first, before, later = state[OPENED], state[FIRST], state[BEFORE], 0
    if state[MODE] == CLOSED and size:
        later = _after_quote(text, 0, separator)
        if later < 0:
            return start
        quoted = later > 0
    for at in range(0, size, STEP):
        marks = quotes_and_ends(text, at) if size - at >= STEP else _last_marks(text, at)
        while marks != 0:
            place = at + np.int64(trailing_zeros(marks))
            marks &= marks - np.uint64(1)
            if place < later:  # the second of two quotes
                continue
            if text[place] == QUOTE and not quoted:
                before = text[place - 1] if place else before
                if before == separator or before == LINE or before == RETURN:  # noqa: SIM109 (faster)
                    quoted, opened = True, start + place
            elif text[place] == QUOTE:
                later = _after_quote(text, place + 1, separator)
                if later < 0:
                    state[OPENED] = opened
                    return start + place + 1
                quoted = later > place + 1
            elif not quoted:
                spans = 0
            elif not spans:
                first = first if rows else opened
                spans, rows = 1, rows + 1
    closed = size and text[size - 1] == QUOTE and not quoted and later == size
    state[MODE] = CLOSED if closed else QUOTED if quoted else PLAIN
    state[BEFORE] = text[size - 1] if size else state[BEFORE]
    state[OPENED], state[SPANS], state[ROWS], state[FIRST] = opened, spans, rows, first
    return -1


@compiled
def _after_quote(text, after, separator):
    """Return the place to look further after a quote within quotes: one byte on if that is doubled; -1 if what follows may not."""
    if after == len(text):
        return after
    if text[after] == QUOTE:
        return after + 1
    ends = text[after] == separator or text[after] == LINE or text[after] == RETURN
    return after if ends else -1


@compiled
def _last_marks(text, at):
    """Return the quotes and line ends of fewer than 64 bytes, as `quotes_and_ends` does."""
    marks = np.uint64(0)
    for place in range(at, len(text)):
        if text[place] == QUOTE or text[place] == LINE or text[place] == RETURN:
            marks |= np.uint64(1) << np.uint64(place - at)
    return marks
