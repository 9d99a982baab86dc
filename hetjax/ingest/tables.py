"""Tables in files, some rows at a time, so that memory does not grow with them: csv, csv.gz, parquet and HDF5, through Arrow."""

import csv
import glob
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from tqdm import tqdm

from hetjax.errors import InputError, reading, short
from hetjax.ingest import hdf5
from hetjax.ingest.configuration import Format

BLOCK = 2**24  # bytes of text at a time
ROWS = 2**17  # of parquet at a time
RATIO, ALWAYS = 2000, 2**30  # packed text may unpack to so many times its size, and so many bytes in any case
KINDS = {"text": pa.large_string(), "whole": pa.int64(), "number": pa.float64()}
WORDS = {"whole": "a whole number", "number": "a number"}


class Rows(NamedTuple):
    """Some rows of a file, of which `first` is the number of the first, from 1, without the header."""

    file: Path
    first: int
    batch: pa.RecordBatch

    def column(self, name: str) -> pa.Array:
        return self.batch.column(self.batch.schema.get_field_index(name))

    def place(self, column: str, row: int | None = None) -> str:
        """What an error begins with; `row` counts from 0 within these."""
        at = f"rows from {self.first}" if row is None else f"row {self.first + row}"
        return f"{self.file}: {at}, column {column!r}"


def paths(patterns: Sequence[Path]) -> list[Path]:
    """The files that patterns name, in their order.

    Raises:
      InputError: none is there.
    """
    found: list[Path] = []
    for pattern in patterns:
        there = sorted(glob.glob(str(pattern))) if any(c in str(pattern) for c in "*?[") else [str(pattern)]
        if not there or not Path(there[0]).exists():
            raise InputError(f"{pattern}: no such file; --root names the folder in which relative paths begin")
        found += map(Path, there)
    return found


def rows(patterns: Sequence[Path], form: Format, columns: Mapping[str, str], bar: tqdm) -> Iterator[Rows]:
    """The rows of a table.

    Args:
      columns: that are read, each with its kind, one of `KINDS`. Parquet says kinds itself, and texts alone are made of what it has.
      bar: of bytes that are read.

    Raises:
      InputError: a file, a column or a value that is not as it should be, with its place.
    """
    for file in paths(patterns):
        if form.name == "hdf5":
            made = hdf5.batches(file, columns, bar)
        else:
            made = _parquet(file, columns, bar) if form.name == "parquet" else _text(file, form, columns, bar)
        first = 1
        for batch in made:
            yield Rows(file, first, batch)
            first += batch.num_rows


def _require(file: Path, columns: Mapping[str, str], there: Sequence[str]) -> None:
    for name in columns:
        if there.count(name) != 1:
            times = "no column" if name not in there else f"{there.count(name)} columns"
            raise InputError(f"{file}: {times} {name!r} among {short(', '.join(map(str, there)))}")


def _parquet(file: Path, columns: Mapping[str, str], bar: tqdm) -> Iterator[pa.RecordBatch]:
    with reading(file), open(file, "rb") as stream, pq.ParquetFile(stream) as parquet:
        _require(file, columns, parquet.schema_arrow.names)
        total, size = max(1, parquet.metadata.num_rows), file.stat().st_size
        for batch in parquet.iter_batches(batch_size=ROWS, columns=list(columns)):
            yield pa.RecordBatch.from_arrays([_plain(c) for c in batch.columns], names=batch.schema.names)
            bar.update(size * batch.num_rows // total)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class _Counted:
    """A file that moves a progress bar as it is read, and is not read when too much came out of it."""

    def __init__(self, stream: IO[bytes], bar: tqdm):
        self.stream, self.bar, self.size = stream, bar, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.size += len(data)
        self.bar.update(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _text(file: Path, form: Format, columns: Mapping[str, str], bar: tqdm) -> Iterator[pa.RecordBatch]:
    _require(file, columns, _header(file, form))
    with reading(file), open(file, "rb") as raw:
        counted, out = _Counted(raw, bar), 0
        stream: Any = pa.PythonFile(counted, mode="r")
        if file.suffix == ".gz":
            stream = pa.CompressedInputStream(stream, "gzip")
        try:
            for batch in pc_csv.open_csv(
                stream,
                pc_csv.ReadOptions(block_size=BLOCK, encoding=form.encoding),
                pc_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
                pc_csv.ConvertOptions(
                    column_types={name: KINDS[kind] for name, kind in columns.items()},
                    include_columns=list(columns),
                    null_values=list(form.null_values),
                    strings_can_be_null=True,
                ),
            ):
                out += batch.nbytes
                if out > ALWAYS and out > RATIO * max(1, counted.size):
                    raise InputError(f"{file}: unpacks from {counted.size} bytes to {out} or more")
                yield batch
        except pa.ArrowInvalid as error:
            _diagnose(file, form, columns)
            raise InputError(f"{file}: {short(str(error))}") from None


def _opened(file: Path, form: Format) -> Any:
    encoding = "utf-8-sig" if form.encoding.lower() in ("utf8", "utf-8") else form.encoding
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding=encoding, newline="")
    return open(file, encoding=encoding, newline="")


def _header(file: Path, form: Format) -> list[str]:
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


def _diagnose(file: Path, form: Format, columns: Mapping[str, str]) -> None:
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
    try:
        (int if kind == "whole" else float)(cell)
    except ValueError:
        return False
    return kind != "whole" or -(2**63) <= int(cell) < 2**63
