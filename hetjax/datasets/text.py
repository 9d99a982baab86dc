"""Text in lines of cells between tabs, of which every number is held against the format, and not what Python takes for one."""

import contextlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np

from hetjax.errors import InputError, reading

Source = Path | zipfile.Path
LONGEST_LINE = 2**24  # bytes
LONG = 1500  # characters of numbers from which on Arrow is faster than Python
BUFFER = 2**20  # bytes
LONGEST_CELL = 40  # characters of a cell that an error shows, and an integer has


def rows(file: Source, columns: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    """`(line number, cells)` of every line that is not blank."""
    name = f"{file}"
    with reading(name), opened(file) as stream:
        for line, row in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
            if len(row) == LONGEST_LINE:
                raise InputError(f"{file}: line {line}: {LONGEST_LINE} bytes or more")
            with reading(f"{name}: line {line}"):
                cells = row.decode("utf-8").rstrip("\r\n").split("\t", max(columns))
            if cells == [""]:
                continue
            if len(cells) not in columns:
                found = f"{len(cells)} columns" + " or more" * (len(cells) > max(columns))
                raise InputError(f"{file}: line {line}: {found} != {' or '.join(map(str, columns))}")
            yield line, cells


def opened(file: Source) -> IO[bytes]:
    """The bytes of a file, or of a member of a zip."""
    if not file.exists():
        raise InputError(f"{file}: No such file")
    # A member of a zip gives lines slowly.
    return io.BufferedReader(cast(io.RawIOBase, file.open("rb")), BUFFER)


def integer(cell: str, file: Source, line: int, what: str, count: int) -> int:
    """The integer of a cell, from 0 to `count - 1`."""
    value = whole(cell)
    if value is None:
        raise InputError(f"{file}: line {line}: {what} {shown(cell)} is not an integer")
    if not 0 <= value < count:
        raise InputError(f"{file}: line {line}: {what} {shown(value)}, and there are {count}")
    return value


def whole(cell: str) -> int | None:
    """The integer that decimal digits say; Python's `int` takes more: spaces, underscores, the digits of all alphabets."""
    digits = cell.removeprefix("-")
    return int(cell) if digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_CELL else None


def shown(given: object) -> str:
    """What was given, as an error shows it."""
    text = repr(given)
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."


def numbers(cell: str, file: Source, line: int) -> np.ndarray:
    """Float32 `[n]` of numbers between commas; what does not fit is infinite."""
    if len(cell) < LONG:
        return _few(cell, file, line)
    import pyarrow
    from pyarrow import compute

    with contextlib.suppress(pyarrow.ArrowInvalid), np.errstate(over="ignore"):
        parts = compute.split_pattern(pyarrow.array([cell]), ",").values
        return compute.cast(parts, pyarrow.float64()).to_numpy().astype(np.float32)
    return _few(cell, file, line)  # which takes a little more, and says what it does not take


def _few(cell: str, file: Source, line: int) -> np.ndarray:
    values = cell.split(",")
    with reading(f"{file}: line {line}"), np.errstate(over="ignore"):
        if not cell.isascii() or "_" in cell:  # which Python's `float` takes
            odd = next(number for number in values if not number.isascii() or "_" in number)
            raise ValueError(f"feature {values.index(odd)} is {shown(odd)}, not a number")
        return np.array(values, np.float32)
