"""Tables of text, csv and csv.gz, some rows at a time.

Up to the first quote every line is a row, and pieces of lines are read side by side: whole numbers by code of our own, others by
Arrow. From there on Arrow reads one piece after another, as only it knows which lines end a row. Tables with numbers that are not whole
are read so from the start: where pieces begin would show in the last digit of their means.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv as pc_csv
from tqdm import tqdm

from hetjax.errors import InputError, reading, short
from hetjax.ingest import diagnosis, whole_numbers
from hetjax.ingest.configuration import Format
from hetjax.ingest.in_order import beside, in_order, under_way

PIECE, BLOCK = 2**21, 2**24  # bytes at a time, of lines and of what Arrow divides into rows
LINE = ord("\n")
RATIO, ALWAYS = 2000, 2**30  # packed text may unpack to so many times its size, and so many bytes in any case
KINDS = {"text": pa.large_string(), "whole": pa.int64(), "number": pa.float64()}
Made = TypeVar("Made")


def batches(
    file: Path, form: Format, columns: Mapping[str, str], make: Callable[[pa.RecordBatch], Made], bar: tqdm
) -> Iterator[tuple[pa.RecordBatch, Made]]:
    """The rows of a file, and what is made of them; of a column of texts that are whole numbers some may come as int64.

    Args:
      columns: that are read, each with its kind, one of `KINDS`.
      make: what is made of some rows, in the thread that read them, while they are in its cache.
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
            for batch, made in _batches(stream, form, header, columns, make):
                out += batch.nbytes
                if out > ALWAYS and out > RATIO * max(1, counted.size):
                    raise InputError(f"{file}: unpacks from {counted.size} bytes to {out} or more")
                yield batch, made
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

    def __init__(self, stream: io.BufferedReader, bar: tqdm):
        self.stream, self.bar, self.size = stream, bar, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.size += len(data)
        self.bar.update(len(data))
        return data

    def readinto(self, buffer: memoryview) -> int:
        size = self.stream.readinto(buffer)
        self.size += size
        self.bar.update(size)
        return size

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Lines:
    """Whole lines of a stream, a piece at a time and its size, up to a piece with a quote, or with a line too long for a piece.

    A piece is overwritten when `in_order` has made what there is to make of it: new memory for each costs as much as reading.

    Attributes:
      rest: what was read of the stream after those.
    """

    def __init__(self, stream: Any, first: bytes):
        self.stream, self.rest = stream, first

    def __iter__(self) -> Iterator[tuple[memoryview, int]]:
        for buffer in cycle(bytearray(2 * PIECE + 1 + whole_numbers.SPARE) for _ in range(under_way() + 1)):
            size = len(self.rest)
            buffer[:size] = self.rest
            read = self.stream.readinto(memoryview(buffer)[size : size + PIECE])
            size += read
            quoted = buffer.find(b'"', 0, size) >= 0
            if not read and size and not quoted and buffer[size - 1] != LINE:
                buffer[size], size = LINE, size + 1
            end = 0 if quoted else buffer.rfind(b"\n", 0, size) + 1
            self.rest = bytes(memoryview(buffer)[end:size])
            if end:
                yield memoryview(buffer), end
            if not read or not end or len(self.rest) > PIECE:
                return

    def read(self, size: int) -> bytes:
        """What comes after those lines, as a file gives it."""
        given, self.rest = self.rest[:size], self.rest[size:]
        return given + self.stream.read(size - len(given))

    closed = False


def _batches(
    stream: Any,
    form: Format,
    header: Sequence[str],
    columns: Mapping[str, str],
    make: Callable[[pa.RecordBatch], Made],
) -> Iterator[tuple[pa.RecordBatch, Made]]:
    both = beside(make)
    if not whole_numbers.usable(form, columns) or form.encoding.lower() not in ("utf8", "utf-8"):
        yield from in_order(both, _in_turn(stream, form, None, columns))
        return
    first = stream.read(PIECE)
    end = first.find(b"\n") + 1
    if not end or not _is(first[:end], form, header):
        yield from in_order(both, _in_turn(_Lines(stream, first), form, None, columns))
        return
    lines = _Lines(stream, first[end:])

    def read(piece: tuple[memoryview, int]) -> tuple[pa.RecordBatch, Made]:
        made = whole_numbers.read(*piece, form.separator, header, columns)
        if made is not None:
            return both(made)
        text, size = piece
        options = _options(form, header, columns, size + 1, use_threads=False)
        table = pc_csv.read_csv(pa.BufferReader(text[:size]), **options).combine_chunks()
        return both(pa.RecordBatch.from_arrays([_one(column) for column in table.columns], names=table.column_names))

    yield from in_order(read, lines)
    if lines.rest:
        yield from in_order(both, _in_turn(lines, form, header, columns))


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
