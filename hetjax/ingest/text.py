"""Tables of text, csv and csv.gz, some rows at a time.

Up to the first quote every line is a row, and pieces of lines are read side by side: whole numbers by code of our own, others by
Arrow. From there on Arrow reads one piece after another, as only it knows which lines end a row, and quotes are checked on the way. Tables with numbers that are not whole
are read so from the start: where pieces begin would show in the last digit of their means.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
from tqdm import tqdm

from hetjax.casts.words import MISSING
from hetjax.datasets import quotes
from hetjax.ingest import diagnosis, whole_numbers
from hetjax.ingest.declared import Format
from hetjax.ingest.in_order import beside, in_order, under_way
from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import open_regular
from hetjax.system.logs import log

PIECE, BLOCK = 2**21, 2**24  # bytes at a time, of lines and of what Arrow divides into rows
LINE = ord("\n")
RATIO, ALWAYS = 2000, 2**30  # packed text may unpack to so many times its size, and so many bytes in any case
KINDS = {"text": pa.large_string(), "whole": pa.int64(), "number": pa.float64(), "date": pa.timestamp("us")}
Result = TypeVar("Result")


def batches(
    file: Path, form: Format, columns: Mapping[str, str], make: Callable[[pa.RecordBatch], Result], bar: tqdm
) -> Iterator[tuple[pa.RecordBatch, Result]]:
    """Yield the rows of a file, and what is made of them; of a column of texts that are whole numbers some may come as int64.

    Args:
      columns: that are read, each with its kind, one of `KINDS`.
      make: what is made of some rows, in the thread that read them, while they are in its cache.
      bar: of bytes that are read.

    Raises:
      InputError: a column or a value that is not as it should be, with its place.
    """
    header = diagnosis.header(file, form)
    require(file, columns, header)
    with reading(file), open_regular(file) as raw:
        counted, out = _Counted(raw, bar), 0
        text = _Text(diagnosis.decoded(counted, file, form), form, header, columns)
        try:
            for batch, result in text.batches(make):
                out += batch.nbytes
                if out > ALWAYS and out > RATIO * max(1, counted.size):
                    raise InputError(f"{file}: unpacks from {counted.size} bytes to {out} or more")
                yield batch, result
        except quotes.Misquoted as fault:
            raise diagnosis.misquoted(file, form, fault, text.read) from None
        except pa.ArrowInvalid as error:
            diagnosis.diagnose(file, form, columns)
            raise InputError(f"{file}: {short(str(error))}") from None
        if rows := text.checked.rows:
            line = diagnosis.line_at(file, form, text.read + text.checked.first)
            what = "row spans" if rows == 1 else "rows span"
            log.info(
                f"{file}: {rows:,} {what} several lines, as a quoted cell has line ends; the first from line {line}"
            )


def require(file: Path, columns: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise an InputError unless every column is there once."""
    for name in columns:
        if names.count(name) != 1:
            times = "no column" if name not in names else f"{names.count(name)} columns"
            near = get_close_matches(name, [str(one) for one in names if one != name], 1)
            hint = f"; the nearest is {near[0]!r}" if near and name not in names else ""
            raise InputError(f"{file}: {times} {name!r} among {short(', '.join(map(str, names)))}{hint}")


class _Counted:
    """A file that moves a progress bar as it is read."""

    def __init__(self, stream: Any, bar: tqdm):
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
        """Read what comes after those lines, as from a file."""
        given, self.rest = self.rest[:size], self.rest[size:]
        return given + self.stream.read(size - len(given))

    closed = False


class _Text:
    """The text of a file, in UTF-8, which becomes rows.

    Attributes:
      read: bytes of the lines before the first quote, which were read without `checked`.
      checked: what was read after those.
    """

    def __init__(self, stream: Any, form: Format, header: Sequence[str], columns: Mapping[str, str]):
        self.stream, self.form, self.header, self.columns = stream, form, header, columns
        self.read, self.checked = 0, quotes.Checked(stream, form.separator)

    def batches(self, make: Callable[[pa.RecordBatch], Result]) -> Iterator[tuple[pa.RecordBatch, Result]]:
        """Yield the rows, and what is made of them."""
        both = beside(make)
        if not whole_numbers.usable(self.form, self.columns):
            yield from in_order(both, self._in_turn(self.stream, None))
            return
        first = self.stream.read(PIECE)
        end = first.find(b"\n") + 1
        if not end or not _is(first[:end], self.form, self.header):
            yield from in_order(both, self._in_turn(_Lines(self.stream, first), None))
            return
        lines, self.read = _Lines(self.stream, first[end:]), end

        def pieces() -> Iterator[tuple[memoryview, int]]:
            for piece in lines:
                self.read += piece[1]
                yield piece

        def read(piece: tuple[memoryview, int]) -> tuple[pa.RecordBatch, Result]:
            parsed = whole_numbers.read(*piece, self.form.separator, self.header, self.columns)
            return both(self._by_arrow(*piece) if parsed is None else parsed)

        yield from in_order(read, pieces())
        if lines.rest:
            yield from in_order(both, self._in_turn(lines, self.header))

    def _by_arrow(self, text: memoryview, size: int) -> pa.RecordBatch:
        """Return the rows in some whole lines without quotes."""
        options = _options(self.form, self.header, self.columns, size + 1, use_threads=False)
        table = pc_csv.read_csv(pa.BufferReader(text[:size]), **options).combine_chunks()
        return pa.RecordBatch.from_arrays([_one(column) for column in table.columns], names=table.column_names)

    def _in_turn(self, stream: Any, header: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream, by Arrow; the first is the header if none is given."""
        self.checked = quotes.Checked(stream, self.form.separator)
        source = pa.PythonFile(self.checked, mode="r")
        batches = pc_csv.open_csv(source, **_options(self.form, header, self.columns, BLOCK))
        yield from map(_without_empty, batches) if _words(self.form, self.columns) else batches
        self.checked.end()


def _is(line: bytes, form: Format, header: Sequence[str]) -> bool:
    """Tell whether the header is this line and no more."""
    text = line.decode("utf-8-sig", errors="replace").removesuffix("\n").removesuffix("\r")
    return "\r" not in text and list(csv.reader(io.StringIO(text), delimiter=form.separator)) == [list(header)]


def _options(
    form: Format, header: Sequence[str] | None, columns: Mapping[str, str], block: int, use_threads: bool = True
) -> dict[str, Any]:
    return {
        "read_options": pc_csv.ReadOptions(block_size=block, column_names=header, use_threads=use_threads),
        "parse_options": pc_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
        "convert_options": pc_csv.ConvertOptions(
            column_types={name: KINDS[kind] for name, kind in columns.items()},
            include_columns=list(columns),
            null_values=sorted(MISSING) if _words(form, columns) else list(form.null_values),
            strings_can_be_null=not _words(form, columns),
        ),
    }


def _words(form: Format, columns: Mapping[str, str]) -> bool:
    """Tell whether words such as `NA` stand for missing numbers; then Arrow would take texts of these words for missing too."""
    return not form.explicit and not {"number", "date"}.isdisjoint(columns.values())


def _without_empty(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows, in which empty texts are missing."""
    columns = [
        pc.if_else(empty, None, column)
        if pa.types.is_large_string(column.type) and pc.any(empty := pc.equal(column, "")).as_py()
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
