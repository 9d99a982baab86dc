"""The users' own ids of nodes, and the names of classes: parquet files beside a store's arrays, read when they are asked for."""

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hetjax.graph import arrow
from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import open_regular

if TYPE_CHECKING:
    import pyarrow as pa

    from hetjax.graph.schema import Schema

CLASSES = "classes"  # the file of classes; that of a node type is `ids_NUMBER`
COLUMN = "id"
LARGEST = 2**34  # bytes that may come out of a file
SHOWN = 80  # characters of an id that an error shows
AT_ONCE = 2**24  # bytes
CLOSE = 8  # places per id, up to which numbers are close together


class Ids:
    """The users' ids of the nodes of one type, or the names of the classes: distinct whole numbers or texts, by hetjax's own numbers.

    Args:
      given: a sequence of them; or a function that gives it, which is called when they are first needed.
    """

    def __init__(self, given: Any):
        self._given = given

    @cached_property
    def values(self) -> "pa.Array":
        """The ids, int64 or large_string `[count]`."""
        return as_array(self._given() if callable(self._given) else self._given)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> int | str:
        return self.values[int(number)].as_py()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and self.values.equals(other.values)

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that is compared by its values

    def find(self, asked: Any) -> np.ndarray:
        """Return the number of each id that is asked for, int64 `[asked]`; -1 where there is no such id.

        A text and a whole number are one id only where the text is how Python writes the number: `007` is another id than 7.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted, values = as_array(asked), self.values
        if wanted.type != values.type:
            wanted, values = (pc.cast(ids, pa.large_string()) for ids in (wanted, values))
        return _positions(wanted, values)


def _positions(wanted: "pa.Array", values: "pa.Array") -> np.ndarray:
    import pyarrow.compute as pc

    return pc.fill_null(pc.index_in(wanted, values), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def as_array(given: Any) -> "pa.Array":
    """Return ids as an Arrow array of int64 or large_string.

    Raises:
      InputError: they are neither whole numbers nor texts, or both.
    """
    import pyarrow as pa

    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if not isinstance(given, pa.Array):
        try:
            if isinstance(given, np.ndarray) and given.dtype.kind in "OSUT":
                given = given.tolist()  # of fixed width, or objects
            given = pa.array(given, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
            raise InputError(f"ids are to be whole numbers, or texts: {short(str(error))}") from None
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if pa.types.is_null(given.type):
        return given.cast(pa.int64())
    if pa.types.is_integer(given.type):
        return given.cast(pa.int64())
    if pa.types.is_string(given.type) or pa.types.is_large_string(given.type) or pa.types.is_string_view(given.type):
        return given.cast(pa.large_string())
    raise InputError(f"ids are {given.type}, and should be whole numbers or texts")


@dataclass(frozen=True)
class Names:
    """The names of nodes and classes, as far as they are known.

    Attributes:
      nodes: the users' ids per node type; a type that is absent has hetjax's own numbers alone.
      classes: the name of every class; None: they have numbers alone.
    """

    nodes: Mapping[str, Ids] = field(default_factory=dict)
    classes: Ids | None = None

    def __post_init__(self):
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))

    def __bool__(self) -> bool:
        return bool(self.nodes) or self.classes is not None

    def node(self, node_type: str, number: int) -> str:
        """Return the form of a node in errors: its number, and the user's id if it is known and differs."""
        ids = self.nodes.get(node_type)
        if ids is None or not 0 <= number < len(ids) or ids[number] == number:
            return f"node {number}"
        return f"node {number} ({short(repr(ids[number]), SHOWN)})"

    def of(self, node_type: str, count: int) -> "pa.Array":
        """Return the users' ids of all nodes of a type; hetjax's own numbers, if they have none."""
        return self.nodes[node_type].values if node_type in self.nodes else arrow.to_arrow(np.arange(count))

    def class_names(self, count: int) -> list[str]:
        """Return a text per class: its name, or its number."""
        return [str(name) for name in (range(count) if self.classes is None else self.classes.values.to_pylist())]

    def check(self, schema: "Schema", where: str) -> None:
        """Raise an InputError for the first id that is missing, there twice, or of no node type; read all of them."""
        counts = {name: (self.nodes[name], f"type {name!r}") for name in self.nodes}
        for name in counts.keys() - schema.nodes.keys():
            raise InputError(f"{where}: ids of {name!r}, which is not among the node types {sorted(schema.nodes)}")
        for name, (ids, what) in counts.items():
            with _in(f"{where}: ids of {what}"):
                _check(ids.values, schema.nodes[name], "nodes")
        if self.classes is not None:
            with _in(f"{where}: names of classes"):
                _check(self.classes.values, schema.classes, "classes")


@contextmanager
def _in(place: str) -> Iterator[None]:
    """Put the place before the text of an InputError."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error.__cause__


def _check(values: "pa.Array", count: int, what: str) -> None:
    import pyarrow.compute as pc

    if len(values) != count:
        raise InputError(f"{len(values)} != {count} {what}")
    if values.null_count:
        raise InputError(
            f"{what[:-2] if what == 'classes' else what[:-1]} {pc.index(values.is_null(), True).as_py()} has none"
        )
    if not distinct(values):
        times = pc.value_counts(values)
        first = next(one for one in times if one["counts"].as_py() > 1)
        raise InputError(f"{short(repr(first['values'].as_py()), SHOWN)} is given {first['counts']} times")


def distinct(values: "pa.Array") -> bool:
    """Return whether ids, none of which is missing, are all different; numbers by marks or by sorting, which are faster than hashing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(values.type):
        return len(pc.unique(values)) == len(values)
    numbers = arrow.to_numpy(values)
    if len(numbers) and (spread := int(numbers.max()) - int(numbers.min()) + 1) <= CLOSE * len(numbers):
        seen = np.zeros(spread, bool)
        seen[numbers - numbers.min()] = True
        return np.count_nonzero(seen) == len(numbers)
    ordered = np.sort(numbers)
    return not (ordered[1:] == ordered[:-1]).any()


def write(
    names: Names,
    schema: "Schema",
    folder: Path,
    types: Sequence[str] | None = None,
    others: Mapping[str, Ids] | None = None,
) -> dict[str, int]:
    """Write the files of names into a store's folder.

    Args:
      types: the node types whose ids are written, if not all.
      others: names of classes of other columns of labels, by the names of their files.

    Returns:
      The CRC-32 of every file, by its name without `.parquet`; what `read` takes.
    """
    files = dict(others or {})
    for number, name in enumerate(schema.nodes):
        if name in names.nodes and (types is None or name in types):
            files[f"ids_{number}"] = names.nodes[name]
    if names.classes is not None:
        files[CLASSES] = names.classes
    for name, ids in files.items():
        write_column(folder / f"{name}.parquet", ids.values)
    return {name: checksum(folder / f"{name}.parquet") for name in files}


def write_column(file: Path, values: "pa.Array") -> None:
    """Write ids as the one column of a parquet file, each in full, so that no small file can be a large array."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open(file, "xb") as stream:
        pq.write_table(pa.table({COLUMN: values}), stream, use_dictionary=False, compression="snappy")


def read(folder: Path, schema: "Schema", files: Mapping[str, int]) -> Names:
    """Return the names in a store's folder, as `write` left them; a file is opened when its names are needed."""

    nodes = {t: stored(folder, f"ids_{n}", schema.nodes[t]) for n, t in enumerate(schema.nodes) if f"ids_{n}" in files}
    return Names(nodes, stored(folder, CLASSES, schema.classes) if CLASSES in files else None)


def stored(folder: Path, name: str, count: int) -> Ids:
    """Return so many names in a file of a store's folder, which is opened when they are needed."""
    return Ids(lambda: read_column(folder / f"{name}.parquet", count))


def read_column(file: Path, count: int) -> "pa.Array":
    """Return the ids in a parquet file that `write_column` wrote.

    Raises:
      InputError: it cannot be read, or has other columns or another number of rows.
    """
    import pyarrow.parquet as pq

    with reading(file), open_regular(file) as stream, pq.ParquetFile(stream) as parquet:
        about = parquet.metadata
        if parquet.schema_arrow.names != [COLUMN] or about.num_rows != count:
            found = f"{about.num_rows} rows of the columns {parquet.schema_arrow.names}"
            raise InputError(f"{file}: {short(found)} != {count} rows of the column {COLUMN!r}")
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        size = sum(group.total_byte_size for group in groups)
        if size > LARGEST or any(group.column(0).has_dictionary_page for group in groups):
            raise InputError(f"{file}: {size} bytes, or a dictionary; at most {LARGEST} are read, and each id in full")
        values = as_array(parquet.read().column(0))
        values.validate(full=True)  # texts may be no UTF-8
        return values


def checksum(file: str | os.PathLike) -> int:
    """Return the CRC-32 of a file's bytes."""
    crc = 0
    with reading(file), open_regular(file) as stream:
        while piece := stream.read(AT_ONCE):
            crc = zlib.crc32(piece, crc)
    return crc
