"""Tables of text, csv and csv.gz, some rows at a time.

Up to the first quote every line is a row, and pieces of lines are read side by side: whole numbers by code of our own, others by
Arrow. From there on Arrow reads one piece after another, as only it knows which lines end a row. Tables with numbers that are not whole
are read so from the start: where pieces begin would show in the last digit of their means.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pc_csv
from tqdm import tqdm

from hetjax.errors import InputError, reading, short
from hetjax.ingest import diagnosis, whole_numbers
from hetjax.ingest.configuration import Format
from hetjax.ingest.in_order import in_order

PIECE, BLOCK = 2**22, 2**24  # bytes at a time, of lines and of what Arrow divides into rows
RATIO, ALWAYS = 2000, 2**30  # packed text may unpack to so many times its size, and so many bytes in any case
KINDS = {"text": pa.large_string(), "whole": pa.int64(), "number": pa.float64()}


def batches(file: Path, form: Format, columns: Mapping[str, str], bar: tqdm) -> Iterator[pa.RecordBatch]:
    """The rows of a file; of a column of texts that are whole numbers some may come as int64.

    Args:
      columns: that are read, each with its kind, one of `KINDS`.
      bar: of bytes that are read.

    Raises:
      InputError: a column or a value that is not as it should be, with its place.
    """
    header = diagnosis.header(file, form)
    require(file, columns, header)
    with reading(file), open(file, "rb") as raw:
        counted, out = _Counted(raw, bar), 0
        stream: Any = counted
        if file.suffix == ".gz":
            stream = pa.CompressedInputStream(pa.PythonFile(counted, mode="r"), "gzip")
        try:
            for batch in _batches(stream, form, header, columns):
                out += batch.nbytes
                if out > ALWAYS and out > RATIO * max(1, counted.size):
                    raise InputError(f"{file}: unpacks from {counted.size} bytes to {out} or more")
                yield batch
        except pa.ArrowInvalid as error:
            diagnosis.diagnose(file, form, columns)
            raise InputError(f"{file}: {short(str(error))}") from None


def require(file: Path, columns: Mapping[str, str], there: Sequence[str]) -> None:
    """Raise an InputError unless every column is there once."""
    for name in columns:
        if there.count(name) != 1:
            times = "no column" if name not in there else f"{there.count(name)} columns"
            raise InputError(f"{file}: {times} {name!r} among {short(', '.join(map(str, there)))}")


class _Counted:
    """A file that moves a progress bar as it is read."""

    def __init__(self, stream: IO[bytes], bar: tqdm):
        self.stream, self.bar, self.size = stream, bar, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.size += len(data)
        self.bar.update(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Lines:
    """Whole lines of a stream, a piece at a time, up to a piece with a quote, or with a line too long for a piece.

    Attributes:
      rest: what was read of the stream after those.
    """

    def __init__(self, stream: Any, first: bytes):
        self.stream, self.rest = stream, first

    def __iter__(self) -> Iterator[memoryview]:
        text, ended = self.rest, False
        while b'"' not in text and len(text) < BLOCK:
            end = text.rfind(b"\n") + 1
            if ended and end < len(text):
                text += b"\n"
                end = len(text)
            self.rest = text[end:]
            if end:
                yield memoryview(text)[:end]
            if ended:
                return
            data = self.stream.read(PIECE)
            text, ended = self.rest + data, not data
        self.rest = text

    def read(self, size: int) -> bytes:
        """What comes after those lines, as a file gives it."""
        given, self.rest = self.rest[:size], self.rest[size:]
        return given + self.stream.read(size - len(given))

    closed = False


def _batches(stream: Any, form: Format, header: Sequence[str], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    if not whole_numbers.usable(form, columns) or form.encoding.lower() not in ("utf8", "utf-8"):
        yield from _in_turn(stream, form, None, columns)
        return
    first = stream.read(PIECE)
    end = first.find(b"\n") + 1
    if not end or not _is(first[:end], form, header):
        yield from _in_turn(_Lines(stream, first), form, None, columns)
        return
    lines = _Lines(stream, first[end:])

    def read(piece: memoryview) -> pa.RecordBatch:
        made = whole_numbers.read(piece, form.separator, header, columns)
        if made is not None:
            return made
        options = _options(form, header, columns, len(piece) + 1, use_threads=False)
        table = pc_csv.read_csv(pa.BufferReader(piece), **options).combine_chunks()
        return pa.RecordBatch.from_arrays([_one(column) for column in table.columns], names=table.column_names)

    yield from in_order(read, lines)
    if lines.rest:
        yield from _in_turn(lines, form, header, columns)


def _is(line: bytes, form: Format, header: Sequence[str]) -> bool:
    """Whether the header is this line and no more."""
    text = line.decode("utf-8-sig", errors="replace").removesuffix("\n").removesuffix("\r")
    return "\r" not in text and list(csv.reader(io.StringIO(text), delimiter=form.separator)) == [list(header)]


def _in_turn(
    stream: Any, form: Format, header: Sequence[str] | None, columns: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a stream, by Arrow; the first is the header if none is given."""
    source = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
    yield from pc_csv.open_csv(source, **_options(form, header, columns, BLOCK))


def _options(
    form: Format, header: Sequence[str] | None, columns: Mapping[str, str], block: int, use_threads: bool = True
) -> dict[str, Any]:
    return {
        "read_options": pc_csv.ReadOptions(
            block_size=block, encoding=form.encoding, column_names=header, use_threads=use_threads
        ),
        "parse_options": pc_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
        "convert_options": pc_csv.ConvertOptions(
            column_types={name: KINDS[kind] for name, kind in columns.items()},
            include_columns=list(columns),
            null_values=list(form.null_values),
            strings_can_be_null=True,
        ),
    }


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
