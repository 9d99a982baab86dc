"""The header of a table of text, and what is wrong with one that Arrow refuses, with its place."""

import csv
import gzip
import io
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from hetjax.casts.words import MISSING
from hetjax.datasets import quotes
from hetjax.ingest.declared import Format
from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import check_regular, open_regular

LONGEST = 2**24  # characters of a line
WORDS = {"whole": "a whole number", "number": "a number", "date": "a date"}
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?")
PROBED = 1000  # rows


def decoded(stream: Any, file: Path, form: Format) -> Any:
    """Return the text of a file that is open, in UTF-8: unpacked if the file's name ends in `.gz`, and of another encoding if `form` says so."""
    if file.suffix == ".gz":
        stream = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "gzip")
    if _utf8(form):
        return stream
    native = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
    return pa.transcoding_input_stream(native, form.encoding, "utf8")


def _utf8(form: Format) -> bool:
    return form.encoding.lower() in ("utf8", "utf-8")


def line_at(file: Path, form: Format, place: int) -> int:
    """Return the number of the line in which a byte of a file's text lies."""
    with reading(file), open_regular(file) as stream:
        return quotes.line_at(decoded(stream, file, form), place)


def misquoted(file: Path, form: Format, fault: quotes.Misquoted, before: int = 0) -> InputError:
    """Return an error that names the lines of a quote that is wrong; `before`: bytes of text before those that its places count from."""
    words = f"{file}: line {line_at(file, form, before + fault.opened)}: {fault}"
    if fault.closed is not None:
        words += f" in line {line_at(file, form, before + fault.closed)}"
    return InputError(f'{words}; a quote within a quoted cell is written twice, ""')


def _opened(file: Path, form: Format) -> Any:
    encoding = "utf-8-sig" if _utf8(form) else form.encoding
    if file.suffix == ".gz":
        check_regular(file)
        return gzip.open(file, "rt", encoding=encoding, newline="")
    return io.TextIOWrapper(open_regular(file), encoding, newline="")


def _lines(stream: Any, file: Path) -> Iterator[str]:
    """Yield the lines of a text, none of which is longer than `LONGEST`."""
    for number, line in enumerate(iter(lambda: stream.readline(LONGEST), ""), start=1):
        if len(line) == LONGEST:
            raise InputError(f"{file}: line {number}: {LONGEST} characters or more without a line end")
        yield line


def header(file: Path, form: Format) -> list[str]:
    """Return the names of the columns, which the first row gives."""
    with reading(file), _opened(file, form) as stream:
        try:
            header = next(csv.reader(_lines(stream, file), delimiter=form.separator, strict=True), None)
        except UnicodeDecodeError:
            raise _undecodable(file, form) from None
        except csv.Error as error:
            _check_quotes(file, form)
            raise InputError(f"{file}: header: {error}") from None
    if not header:
        raise InputError(f"{file}: no header")
    return header


def _check_quotes(file: Path, form: Format) -> None:
    """Raise an InputError where a quote is wrong."""
    try:
        with open_regular(file) as stream:
            checked = quotes.Checked(decoded(stream, file, form), form.separator)
            while checked.read(LONGEST):
                pass
    except quotes.Misquoted as fault:
        raise misquoted(file, form, fault) from None


def dates(file: Path, form: Format, columns: Collection[str]) -> set[str]:
    """Return the columns whose first value that is not missing is a date, year first; values are looked for in the first rows."""
    nulls, found, waiting = _nulls(form), set(), set(columns)
    with reading(file), _opened(file, form) as stream, suppress(UnicodeDecodeError, csv.Error):
        rows = csv.reader(_lines(stream, file), delimiter=form.separator)
        names = next(rows, [])
        for cells in islice(rows, PROBED):
            for name, cell in zip(names, cells):
                if name in waiting and cell not in nulls:
                    waiting.remove(name)
                    found |= {name} if DATE.fullmatch(cell) else set()
            if not waiting:
                break
    return found


def _nulls(form: Format) -> set[str]:
    return set(form.null_values) | (set() if form.explicit else MISSING)


def _undecodable(file: Path, form: Format) -> InputError:
    """Return an error about a file of another encoding, with the first line that shows it."""
    with gzip.open(file) if file.suffix == ".gz" else open_regular(file) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST), b""), start=1):
            try:
                line.decode(form.encoding)
            except UnicodeDecodeError as error:
                place = f"{file}: line {number}: byte 0x{error.object[error.start]:02x}"
                return InputError(f"{place} is not of encoding {form.encoding}; `encoding` of the format names another")
    return InputError(f"{file}: is not of encoding {form.encoding}; `encoding` of the format names another")


def diagnose(file: Path, form: Format, columns: Mapping[str, str]) -> None:
    """Read a file that Arrow refuses once more, and name the first row that is wrong; do nothing if the file seems right."""
    row, nulls = 0, _nulls(form)
    try:
        _check_quotes(file, form)
        with _opened(file, form) as stream:
            reader = csv.reader(_lines(stream, file), delimiter=form.separator)
            header = next(reader)
            for row, cells in enumerate(reader, start=1):
                if cells and len(cells) != len(header):
                    raise InputError(f"{file}: row {row}: {len(cells)} cells != {len(header)} of the header")
                for name, cell in zip(header, cells):
                    kind = columns.get(name, "text")
                    if kind in WORDS and cell not in nulls and not _parses(cell, kind):
                        raise InputError(
                            f"{file}: row {row}, column {name!r}: {short(repr(cell), 80)} is not {WORDS[kind]}"
                        )
    except UnicodeDecodeError:
        raise _undecodable(file, form) from None
    except csv.Error as error:
        raise InputError(f"{file}: row {row + 1}: {error}") from None


def _parses(cell: str, kind: str) -> bool:
    """Tell whether Arrow reads a number there: Python's own would take `+1` and `1_000`."""
    if kind == "date":
        return bool(DATE.fullmatch(cell)) and _is_date(cell)
    cell = cell.strip(" \t")
    if kind == "whole":
        return bool(re.fullmatch("-?[0-9]{1,30}", cell)) and -(2**63) <= int(cell) < 2**63
    return bool(re.fullmatch(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", cell, re.I))


def _is_date(cell: str) -> bool:
    try:
        datetime.fromisoformat(cell)
    except ValueError:
        return False
    return True
