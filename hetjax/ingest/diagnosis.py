"""The header of a table of text, and what is wrong with one that Arrow refuses, with its place."""

import csv
import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetjax.errors import InputError, reading, short
from hetjax.ingest.configuration import Format

WORDS = {"whole": "a whole number", "number": "a number"}


def _opened(file: Path, form: Format) -> Any:
    encoding = "utf-8-sig" if form.encoding.lower() in ("utf8", "utf-8") else form.encoding
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding=encoding, newline="")
    return open(file, encoding=encoding, newline="")


def header(file: Path, form: Format) -> list[str]:
    with reading(file), _opened(file, form) as stream:
        try:
            header = next(csv.reader(stream, delimiter=form.separator), None)
        except UnicodeDecodeError:
            raise _undecodable(file, form) from None
    if not header:
        raise InputError(f"{file}: no header")
    return header


def _undecodable(file: Path, form: Format) -> InputError:
    """What is said of a file of another encoding, with the first line that shows it."""
    with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(form.encoding)
            except UnicodeDecodeError as error:
                place = f"{file}: line {number}: byte 0x{error.object[error.start]:02x}"
                return InputError(f"{place} is not of encoding {form.encoding}; `encoding` of the format names another")
    return InputError(f"{file}: is not of encoding {form.encoding}; `encoding` of the format names another")


def diagnose(file: Path, form: Format, columns: Mapping[str, str]) -> None:
    """Read a file that Arrow refuses once more, and name the first row that is wrong; of one that seems right say nothing."""
    row = 0
    try:
        with _opened(file, form) as stream:
            reader = csv.reader(stream, delimiter=form.separator)
            header = next(reader)
            for row, cells in enumerate(reader, start=1):
                if cells and len(cells) != len(header):
                    raise InputError(f"{file}: row {row}: {len(cells)} cells != {len(header)} of the header")
                for name, cell in zip(header, cells):
                    kind = columns.get(name, "text")
                    if kind in WORDS and cell not in form.null_values and not _parses(cell, kind):
                        raise InputError(
                            f"{file}: row {row}, column {name!r}: {short(repr(cell), 80)} is not {WORDS[kind]}"
                        )
    except UnicodeDecodeError:
        raise _undecodable(file, form) from None
    except csv.Error as error:
        raise InputError(f"{file}: row {row + 1}: {error}") from None


def _parses(cell: str, kind: str) -> bool:
    """Whether Arrow reads a number there: Python's own would take `+1` and `1_000`."""
    cell = cell.strip(" \t")
    if kind == "whole":
        return bool(re.fullmatch("-?[0-9]{1,30}", cell)) and -(2**63) <= int(cell) < 2**63
    return bool(re.fullmatch(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", cell, re.I))
