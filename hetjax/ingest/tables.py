"""Tables in files, some rows at a time, so that memory does not grow with them: csv, csv.gz, parquet and HDF5, through Arrow."""

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
from tqdm import tqdm

from hetjax.ingest import diagnosis, hdf5, parquet, text
from hetjax.ingest.declared import Format, Pattern
from hetjax.ingest.in_order import beside, in_order
from hetjax.system.errors import InputError, reading

Result = TypeVar("Result")


class Rows(NamedTuple):
    """Some rows of a file, of which `first` is the number of the first, from 1, without the header."""

    file: Path
    first: int
    batch: pa.RecordBatch

    def column(self, name: str) -> pa.Array:
        return self.batch.column(self.batch.schema.get_field_index(name))

    def place(self, column: str, row: int | None = None) -> str:
        """Return the beginning of an error; `row` counts from 0 within these."""
        at = f"rows from {self.first}" if row is None else f"row {self.first + row}"
        return f"{self.file}: {at}, column {column!r}"


def paths(patterns: Sequence[Pattern]) -> list[Path]:
    """Return the files that patterns name, in their order; a file whose own name has `*`, `?` or `[` is meant before others.

    Raises:
      InputError: none is there.
    """
    found: list[Path] = []
    for pattern in patterns:
        names = [pattern.name]
        with reading(pattern.path):
            if not pattern.path.exists() and any(character in pattern.name for character in "*?["):
                names = sorted(glob.glob(pattern.name, root_dir=pattern.root))
            missing = not names or not (pattern.root / names[0]).exists()
        if missing:
            raise InputError(f"{pattern.path}: no such file; --root names the folder in which relative paths begin")
        found += [pattern.root / name for name in names]
    return found


def rows(patterns: Sequence[Pattern], form: Format, columns: Mapping[str, str], bar: tqdm) -> Iterator[Rows]:
    """Yield the rows of a table; arguments and errors are those of `made`."""
    return (some for some, _ in made(patterns, form, columns, lambda batch: None, bar))


def numbered(given: Iterator[Rows], count: int, place: str) -> Iterator[tuple[Rows, slice]]:
    """Yield rows of a table that was read before, and which of all they are.

    Raises:
      InputError: there are other than `count`, as were before, so that the file changed meanwhile, or a column is of another length.
    """
    done = 0
    for some in given:
        which = slice(done, done + some.batch.num_rows)
        done = which.stop
        if done > count:
            raise InputError(f"{some.file}: more than the {count} rows of {place} that were read before")
        yield some, which
    if done != count:
        raise InputError(f"{place}: {done} rows != {count} that were read before")


def made(
    patterns: Sequence[Pattern],
    form: Format,
    columns: Mapping[str, str],
    make: Callable[[pa.RecordBatch], Result],
    bar: tqdm,
) -> Iterator[tuple[Rows, Result]]:
    """Yield the rows of a table, and what is made of them in several threads.

    Args:
      columns: that are read, each with its kind, one of `text.KINDS`; none: the first one, for the number of rows. Parquet says kinds itself, and texts alone are made of what it has.
      make: a function of some rows that works without the interpreter's lock.
      bar: of bytes that are read.

    Raises:
      InputError: a file, a column or a value that is not as it should be, with its place.
    """
    for file in paths(patterns):
        placed, wanted = _placed(make, file), columns or {_first(file, form): "text"}
        if form.name == "hdf5":
            batches = in_order(beside(placed), hdf5.batches(file, wanted, bar))
        elif form.name == "parquet":
            batches = in_order(beside(placed), parquet.batches(file, wanted, bar))
        else:
            batches = text.batches(file, form, wanted, placed, bar)
        first = 1
        for batch, result in batches:
            yield Rows(file, first, batch), result
            first += batch.num_rows


def _first(file: Path, form: Format) -> str:
    """Return the name of the first column of a file."""
    if form.name == "hdf5":
        return hdf5.first(file)
    return parquet.first(file) if form.name == "parquet" else diagnosis.header(file, form)[0]


def _placed(make: Callable[[pa.RecordBatch], Result], file: Path) -> Callable[[pa.RecordBatch], Result]:
    """Return the same function, whose errors begin with the file."""

    def placed(batch: pa.RecordBatch) -> Result:
        try:
            return make(batch)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None

    return placed
