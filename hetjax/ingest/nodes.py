"""The nodes of one type: their ids, features and labels, from one table or several whose rows belong together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from hetjax.errors import InputError, short
from hetjax.graph.arrow import to_arrow
from hetjax.graph.names import distinct
from hetjax.graph.schema import MOST_NODES
from hetjax.ingest import tables, transforms
from hetjax.ingest.configuration import NodeTable
from hetjax.ingest.finder import Finder, check_ids, normal
from hetjax.ingest.transforms import Transform


class Column(NamedTuple):
    """A column that becomes features."""

    table: NodeTable
    name: str
    transform: Transform
    dtype: str


@dataclass(frozen=True)
class Nodes:
    """What was read once of a type: `ids` are the users', or None: the rows count; label and split columns as they are."""

    node_type: str
    count: int
    ids: pa.Array | None
    columns: list[Column]
    label: list[pa.Array]
    split: list[pa.Array]

    @cached_property
    def finder(self) -> Finder:
        return Finder(to_arrow(np.arange(self.count)) if self.ids is None else self.ids, self.node_type)


def read(node_type: str, given: Sequence[NodeTable], bar: tqdm) -> Nodes:
    """Read the tables of a type once: ids and labels are kept, and transforms are fitted.

    Raises:
      InputError: an id that is missing or there twice, tables of different length, or a value that does not fit.
    """
    with_ids = [table for table in given if table.id_column]
    if len(with_ids) > 1:
        raise InputError(f"node type {node_type!r}: {len(with_ids)} tables have node_id_col, and one of a type may")
    columns, counts = [], {}
    ids: list[pa.Array] = []
    starts: list[tuple[Path, int]] = []
    label: list[pa.Array] = []
    split: list[pa.Array] = []
    for table in given:
        own = [
            Column(table, name, transforms.make(feature.transform, feature.place), feature.dtype)
            for feature in table.features
            for name in feature.columns
        ]
        count = 0
        for rows in tables.rows(table.files, table.format, _kinds(table, own), bar):
            for column in own:
                column.transform.observe(rows.column(column.name), partial(rows.place, column.name))
            if table.id_column:
                check_ids(rows.column(table.id_column), rows.place(table.id_column))
                _check_missing(rows, table.id_column)
                ids.append(rows.column(table.id_column))
                starts.append((rows.file, rows.first))
            if table.label:
                label.append(rows.column(table.label.column))
                split += [rows.column(table.label.by[0])] if table.label.by else []
            count += rows.batch.num_rows
        for column in own:
            column.transform.fit()
        columns += own
        counts[table.place] = count
    count = next(iter(counts.values()))
    for place, other in counts.items():
        if other != count:
            raise InputError(f"{place}: {other} rows != {count} of node type {node_type!r} in {next(iter(counts))}")
    if count > MOST_NODES:
        raise InputError(f"node type {node_type!r}: {count} rows, over {MOST_NODES}")
    values = normal(ids) if with_ids else None
    if values is not None:
        _check_distinct(values, ids, starts, node_type)
    return Nodes(node_type, count, values, columns, label, split)


def _kinds(table: NodeTable, columns: Sequence[Column]) -> dict[str, str]:
    """The columns that are read, each as a text or a number; one that is wanted as both is an error."""
    texts = [table.id_column] if table.id_column else []
    texts += [table.label.column] if table.label else []
    texts += [table.label.by[0]] if table.label and table.label.by else []
    kinds = dict.fromkeys(texts, "text")
    for column in columns:
        if kinds.setdefault(column.name, column.transform.kind) != column.transform.kind and table.format.name == "csv":
            raise InputError(
                f"{table.place}: column {column.name!r} is read as {kinds[column.name]}, and as {column.transform.kind}"
            )
    return kinds


def _check_missing(rows: tables.Rows, column: str) -> None:
    values = rows.column(column)
    if values.null_count:
        row = pc.index(values.is_null(), True).as_py()
        raise InputError(f"{rows.place(column, row)}: missing, and every node has an id")


def _check_distinct(
    values: pa.Array, chunks: Sequence[pa.Array], starts: Sequence[tuple[Path, int]], node_type: str
) -> None:
    if distinct(values):
        return
    counts = pc.value_counts(values)
    twice = counts.filter(pc.greater(pc.struct_field(counts, "counts"), 1))[0]["values"]
    positions = np.flatnonzero(pc.equal(values, twice).to_numpy(zero_copy_only=False))[:2]
    ends = np.cumsum([len(chunk) for chunk in chunks])
    places = []
    for position in positions:
        chunk = int(np.searchsorted(ends, position, side="right"))
        file, first = starts[chunk]
        places.append(f"{file}: row {first + position - (ends[chunk] - len(chunks[chunk]))}")
    raise InputError(
        f"{places[1]}: id {short(repr(twice.as_py()), 80)} of node type {node_type!r} is there already, {places[0]}"
    )


def write_features(nodes: Nodes, folder: Path, number: int, bar: tqdm) -> np.ndarray:
    """Read the tables of a type that has features once more, and write these as an array on disk, `[nodes, width]`."""
    dtypes = [c.transform.dtype if c.transform.dtype == "uint8" else c.dtype for c in nodes.columns]
    ends = np.cumsum([0, *(column.transform.width for column in nodes.columns)])
    file, shape = folder / f"features_{number}.npy", (nodes.count, int(ends[-1]))
    matrix = np.lib.format.open_memmap(file, "w+", np.result_type(*dtypes), shape)
    for table in {column.table.place: column.table for column in nodes.columns}.values():
        own = [(column, start) for column, start in zip(nodes.columns, ends) if column.table is table]
        kinds, done = {column.name: column.transform.kind for column, _ in own}, 0
        for rows in tables.rows(table.files, table.format, kinds, bar):
            for column, start in own:
                made = column.transform.apply(rows.column(column.name), partial(rows.place, column.name))
                part = matrix[done : done + len(made), start : start + column.transform.width]
                try:
                    with np.errstate(over="raise"):
                        part[:] = made
                except FloatingPointError:
                    row = int(np.argmax((np.abs(made) > np.finfo(matrix.dtype).max).any(axis=1)))
                    value = made[row][np.argmax(np.abs(made[row]))]
                    raise InputError(f"{rows.place(column.name, row)}: {value} is no {matrix.dtype}") from None
            done += rows.batch.num_rows
    return matrix
