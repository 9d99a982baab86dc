"""Tables in parquet, some rows at a time, so that a small file cannot fill the memory: its text may unfold to a thousand times its size."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from hetjax.casts.column import is_text
from hetjax.ingest.text import require
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

ROWS, AT_ONCE = 2**17, 2**25  # rows and bytes at a time
ALWAYS, RATIO = 2**30, 500  # bytes that may be read in any case, and how many times the file's size


def first(file: Path) -> str:
    """Return the name of the first column of a file."""
    with reading(file), open_regular(file) as stream, pq.ParquetFile(stream) as parquet:
        names = parquet.schema_arrow.names
    if not names:
        raise InputError(f"{file}: no columns")
    return names[0]


def batches(file: Path, columns: Mapping[str, str], bar: tqdm) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some at a time; columns as of `tables.made`.

    Raises:
      InputError: a column is missing, or far more comes out of the file than it has.
    """
    with reading(file), open_regular(file) as stream, pq.ParquetFile(stream) as parquet:
        require(file, columns, parquet.schema_arrow.names)
        total, size = max(1, parquet.metadata.num_rows), file.stat().st_size
        width, out = _width(parquet.metadata, columns), 0
        _check(file, size, width * total)
        for group in range(parquet.num_row_groups):
            widest = max(width, _widest(file, group, columns))
            rows = max(1, min(ROWS, AT_ONCE // max(1, widest)))
            for batch in parquet.iter_batches(rows, [group], list(columns)):
                arrays = [_plain(column) for column in batch.columns]
                out += sum(array.nbytes for array in arrays)
                _check(file, size, out)
                yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
                bar.update(size * batch.num_rows // total)


def _check(file: Path, size: int, out: int) -> None:
    if out > max(ALWAYS, RATIO * size):
        raise InputError(f"{file}: unpacks from {size} bytes to {out} or more, over {RATIO} times as many")


def _holds_text(kind: pa.DataType | None) -> bool:
    kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return kind is not None and is_text(kind)


def _width(metadata: Any, columns: Mapping[str, str]) -> int:
    """Return the bytes of a row as the file's metadata give them: of lists all values count, and of texts what is written of them."""
    total = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.split(".")[0] in columns:
                total += max(column.total_uncompressed_size, 8 * column.num_values)
    return total // max(1, metadata.num_rows)


def _widest(file: Path, group: int, columns: Mapping[str, str]) -> int:
    """Return the bytes of the longest texts of a group of rows that are written once, and referred to: a row of them may repeat them all."""
    with open_regular(file) as stream, pq.ParquetFile(stream) as plain:
        group_metadata = plain.metadata.row_group(group)
        written = [
            column
            for column in map(group_metadata.column, range(group_metadata.num_columns))
            if column.has_dictionary_page
        ]
        kinds = {field.name: field.type for field in plain.schema_arrow}
        names = [
            c.path_in_schema
            for c in written
            if c.path_in_schema in columns and _holds_text(kinds.get(c.path_in_schema))
        ]
    if not names:
        return 0
    with open_regular(file) as stream, pq.ParquetFile(stream, read_dictionary=names) as parquet:
        batch = next(parquet.iter_batches(1, [group], names), None)
        return sum(map(_longest, batch.columns)) if batch else 0


def _longest(column: pa.Array) -> int:
    return 8 + (pc.max(pc.binary_length(column.dictionary)).as_py() or 0) if pa.types.is_dictionary(column.type) else 8


def _plain(column: pa.Array) -> pa.Array:
    """Return the same values, each in full.

    Raises:
      pa.ArrowInvalid: a text is no UTF-8.
    """
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if _holds_text(column.type):
        column.validate(full=True)
    return column
