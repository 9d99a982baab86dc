"""Arrays and names in csv and csv.gz, through Arrow and within bounds: the files that OGB unpacks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from hetjax.datasets import packed, quotes
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

BLOCK = 2**24  # bytes of text at a time
SMALL = 2**20  # bytes of a file of a few rows
WHOLE, NUMBER, TEXT = pa.int64(), pa.float32(), pa.large_string()


def _batches(file: Path, kind: pa.DataType | list[pa.DataType], header: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some at a time, each column of a type."""
    size, out = file.stat().st_size, 0
    with open_regular(file) as raw:
        stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "gzip") if file.suffix == ".gz" else raw
        names = _columns(file, header)
        kinds = kind if isinstance(kind, list) else [kind] * len(names)
        if len(kinds) != len(names):
            raise InputError(f"{file}: {len(names)} columns != {len(kinds)}")
        options = pc_csv.ReadOptions(block_size=BLOCK, column_names=names, skip_rows=int(header), use_threads=False)
        convert = pc_csv.ConvertOptions(column_types=dict(zip(names, kinds)), strings_can_be_null=True)
        parse = pc_csv.ParseOptions(newlines_in_values=TEXT in kinds)
        checked = quotes.Checked(stream, parse.delimiter)
        try:
            for batch in pc_csv.open_csv(pa.PythonFile(checked, mode="r"), options, parse, convert):
                out += batch.nbytes
                packed.check(size, out)
                yield batch
            checked.end()
        except quotes.Misquoted as fault:
            with open_regular(file) as again:
                text = (
                    pa.CompressedInputStream(pa.PythonFile(again, mode="r"), "gzip") if file.suffix == ".gz" else again
                )
                raise InputError(f"{file}: line {quotes.line_at(text, fault.opened)}: {fault}") from None


def _columns(file: Path, header: bool) -> list[str]:
    """Return a name per column: its number."""
    with open_regular(file) as raw:
        stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "gzip") if file.suffix == ".gz" else raw
        first = stream.read(BLOCK)
    if not first:
        raise InputError(f"{file}: is empty")
    line = first.split(b"\n", 1)[0]
    table = pc_csv.read_csv(pa.BufferReader(line + b"\n"), pc_csv.ReadOptions(autogenerate_column_names=True))
    return [str(number) for number in range(table.num_columns)]


def matrix(file: Path, kind: pa.DataType = WHOLE) -> np.ndarray:
    """Return the numbers `[rows, columns]`, int64 or float32, of a file without a header; what is missing is NaN.

    Raises:
      InputError: it cannot be read, has a cell that is no such number, or rows of different lengths.
    """
    with reading(file):
        parts = []
        for batch in _batches(file, kind, False):
            if kind == WHOLE and (missing := [c for c in batch.columns if c.null_count]):
                raise InputError(f"{file}: {missing[0].null_count} cells are missing")
            parts.append(np.stack([c.to_numpy(zero_copy_only=False) for c in batch.columns], axis=1))
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def table(file: Path) -> dict[str, list[str]]:
    """Return the columns of a small file with a header, as texts.

    Raises:
      InputError: it cannot be read, or is no small file.
    """
    with reading(file):
        _check_small(file)
        rows = [[c.as_py() for c in row] for batch in _batches(file, TEXT, False) for row in zip(*batch.columns)]
        return dict(zip(rows[0], map(list, zip(*rows[1:])), strict=True))


def _check_small(file: Path) -> None:
    if (size := file.stat().st_size) > SMALL:
        raise InputError(f"{file}: {size} bytes, and there should be a few rows: at most {SMALL} bytes")


def texts(file: Path, columns: int) -> list[tuple[str, ...]]:
    """Return the rows of a small file without a header.

    Raises:
      InputError: it cannot be read, is no small file, or has another number of columns.
    """
    with reading(file):
        _check_small(file)
        rows = [
            tuple(c.as_py() for c in row) for b in _batches(file, [TEXT] * columns, False) for row in zip(*b.columns)
        ]
        if missing := [row for row in rows if None in row]:
            raise InputError(f"{file}: {missing[0]}, and there should be {columns} texts")
        return rows


def names(file: Path, count: int) -> pa.Array:
    """Return names in the order of their numbers, large_string `[count]`: of a file with a header, and a number and a name a row.

    What has no name gets its number, and names that are given several times get theirs behind, so that all differ.

    Raises:
      InputError: it cannot be read, or its numbers are not `0..count - 1`, each once.
    """
    with reading(file):
        batches = list(_batches(file, [WHOLE, TEXT], True))
        numbers, given = (pa.chunked_array([b.column(side) for b in batches]).combine_chunks() for side in (0, 1))
        order = np.argsort(numbers.to_numpy(zero_copy_only=False), kind="stable")
        found = numbers.to_numpy(zero_copy_only=False)[order]
        if not np.array_equal(found, np.arange(count)):
            raise InputError(f"{file}: {len(found)} numbers, which are not 0..{count - 1}, each once")
        given = given.take(pa.array(order))
        number_texts = pc.cast(pa.array(np.arange(count)), TEXT)
        given = pc.coalesce(pc.if_else(pc.equal(given, ""), pa.scalar(None, TEXT), given), number_texts)
        times = pc.value_counts(given)
        repeated = times.field("values").filter(pc.greater(times.field("counts"), 1))
        opened, between, closed = (pa.scalar(text, TEXT) for text in (" (", "", ")"))
        apart = pc.binary_join_element_wise(given, opened, number_texts, closed, between)
        return pc.if_else(pc.is_in(given, repeated), apart, given)
