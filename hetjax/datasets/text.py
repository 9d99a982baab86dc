"""Text in lines of cells between tabs. Every number is checked against the format, and not against what Python takes for one.

What is as plain as most is read many lines at a time; all else line by line, by what says where it is wrong.
"""

import contextlib
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np

from hetjax.datasets import packed
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

Source = Path | zipfile.Path
LONGEST_LINE = 2**24  # bytes
LONG = 1500  # characters of numbers from which on Arrow is faster than Python
BUFFER = 2**20  # bytes
AT_ONCE = 2**24  # bytes of lines that are read together
# Lines of three integers of at most 18 digits, and perhaps of a cell more.
PLAIN = re.compile(rb"(?:[0-9]{1,18}\t[0-9]{1,18}\t[0-9]{1,18}(?:\t[^\t\r\n\x80-\xff]*+)?+\r?+\n)*+")
LONGEST_CELL = 40  # characters of a cell that an error shows, and an integer has


def rows(file: Source, columns: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line number, cells)` of every line that is not blank."""
    with reading(f"{file}"), opened(file) as stream:
        yield from rows_of(stream, file, columns)


def rows_of(
    stream: IO[bytes], file: Source, columns: tuple[int, ...], first: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Yield `rows` of bytes, the first of which are line `first` of a file."""
    name = f"{file}"
    for line, row in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=first):
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


def blocks(stream: packed.Readable, place: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield the text, some whole lines at a time, each time with the number of the first."""
    rest, line = b"", 1
    while data := stream.read(AT_ONCE):
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
        else:
            block, rest = rest + data[:end], data[end:]
            yield line, block
            line += block.count(b"\n")
        if len(rest) >= LONGEST_LINE:
            raise InputError(f"{place}: line {line}: {LONGEST_LINE} bytes or more")
    if rest:
        yield line, rest


def plain(block: bytes) -> np.ndarray | None:
    """Return the first three cells of lines, int64 `[lines, 3]`, if all of them are integers, written in the usual way."""
    if not block.endswith(b"\n"):  # the file's last line
        block += b"\n"
    if not PLAIN.fullmatch(block):
        return None
    import pyarrow
    from pyarrow import csv

    columns, wanted = 1 + block[: block.index(b"\n")].count(b"\t"), list("012")
    read = csv.ReadOptions(column_names=list("0123"[:columns]), use_threads=False)
    parse = csv.ParseOptions(delimiter="\t", quote_char=False)
    convert = csv.ConvertOptions(column_types=dict.fromkeys(wanted, pyarrow.int64()), include_columns=wanted)
    try:
        table = csv.read_csv(pyarrow.BufferReader(block), read, parse, convert)
    except pyarrow.ArrowInvalid:  # some lines have three cells, and some four
        return None
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def opened(file: Source) -> IO[bytes]:
    """Return a stream of the bytes of a file, or of a member of a zip."""
    if not file.exists():
        raise InputError(f"{file}: No such file")
    # A member of a zip gives lines slowly.
    stream = open_regular(file) if isinstance(file, Path) else file.open("rb")
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)


def integer(cell: str, file: Source, line: int, what: str, count: int) -> int:
    """Return the integer of a cell, from 0 to `count - 1`."""
    value = whole(cell)
    if value is None:
        raise InputError(f"{file}: line {line}: {what} {shown(cell)} is not an integer")
    if not 0 <= value < count:
        raise InputError(f"{file}: line {line}: {what} {shown(value)}, and there are {count}")
    return value


def whole(cell: str) -> int | None:
    """Return the integer that decimal digits say. Python's `int` takes more: spaces, underscores, the digits of all alphabets."""
    digits = cell.removeprefix("-")
    return int(cell) if digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_CELL else None


def shown(given: object) -> str:
    """Return a given value as an error shows it."""
    text = repr(given)
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."


def numbers(cell: str, file: Source, line: int) -> np.ndarray:
    """Return numbers between commas, float32 `[n]`; what does not fit is infinite."""
    digits = _digits(cell)
    if digits is not None:
        return digits
    if len(cell) < LONG:
        return _few(cell, file, line)
    import pyarrow
    from pyarrow import compute

    with contextlib.suppress(pyarrow.ArrowInvalid), np.errstate(over="ignore"):
        parts = compute.split_pattern(pyarrow.array([cell]), ",").values
        return compute.cast(parts, pyarrow.float64()).to_numpy().astype(np.float32)
    return _few(cell, file, line)  # which takes a little more, and says what it does not take


def _digits(cell: str) -> np.ndarray | None:
    """Return numbers of one digit each, as of a bag of words, all without a point or all with `.0`; None if others are among them."""
    text = f"{cell},".encode()
    for words, rest in (("<u2", b","), ("<u4", b".0,")):
        if len(text) % (len(rest) + 1) == 0:
            given = np.frombuffer(text, words)
            digits = (given & 0xFF) - ord("0")  # of other letters above 9
            if (given >> 8 == int.from_bytes(rest, "little")).all() and (digits < 10).all():
                return digits.astype(np.float32)
    return None


def _few(cell: str, file: Source, line: int) -> np.ndarray:
    values = cell.split(",")
    with reading(f"{file}: line {line}"), np.errstate(over="ignore"):
        if not cell.isascii() or "_" in cell:  # which Python's `float` takes
            odd = next(number for number in values if not number.isascii() or "_" in number)
            raise ValueError(f"feature {values.index(odd)} is {shown(odd)}, not a number")
        return np.array(values, np.float32)
