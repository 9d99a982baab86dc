"""The nodes of one type: their ids, features and labels, from one table or several whose rows belong together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from hetjax.casts.column import is_text, joined
from hetjax.casts.ids import EXACT, node_ids, normal
from hetjax.casts.words import MISSING, Missing
from hetjax.graph.arrow import to_arrow
from hetjax.graph.names import distinct
from hetjax.graph.schema import MOST_NODES
from hetjax.ingest import diagnosis, labels, tables, transforms
from hetjax.ingest.declared import Feature, NodeTable
from hetjax.ingest.finder import Finder, check_lengths
from hetjax.ingest.transforms import Transform
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log
from hetjax.system.mapped import mapped


class Column(NamedTuple):
    """A column that becomes features; `kind`: as what it is read."""

    table: NodeTable
    name: str
    transform: Transform
    dtype: str
    missing: Missing
    kind: str

    def values(self, rows: tables.Rows) -> pa.Array:
        """Return the values of some rows; null where a text is a word for a missing one."""
        given = rows.column(self.name)
        text = self.kind == "text" and is_text(given.type)
        return self.missing.read(given) if text else given


@dataclass(frozen=True)
class Nodes:
    """The tables of one type, read once.

    Attributes:
      count: how many nodes there are.
      ids: the users', int64 or large_string `[count]`; None: nodes are numbered by their rows.
      columns: what becomes features.
      labels: the values of labels and of what splits them, by node; by the label's place and the column.
      orders: the nodes of a table's rows, int32 `[count]`, by the table's place; a table that is absent has them in their order.
    """

    node_type: str
    count: int
    ids: pa.Array | None
    columns: list[Column]
    labels: dict[tuple[str, str], list[pa.Array]]
    orders: dict[str, np.ndarray]

    @cached_property
    def finder(self) -> Finder:
        return Finder(to_arrow(np.arange(self.count)) if self.ids is None else self.ids, self.node_type)


class _Read(NamedTuple):
    """The content of one table, some rows at a time; `starts`: the file and the number of the first of these rows."""

    columns: list[Column]
    rows: int
    ids: list[pa.Array]
    starts: list[tuple[Path, int]]
    labels: dict[tuple[str, str], list[pa.Array]]


def read(node_type: str, given: Sequence[NodeTable], bar: tqdm) -> Nodes:
    """Read the tables of a type once: ids and labels are kept, and transforms are fitted.

    Raises:
      InputError: an id that is missing or there twice, tables of different nodes, or a value that does not fit.
    """
    keyed = [table.place for table in given if table.id_column]
    for table in given if keyed else ():
        if not table.id_column:
            what = f"{table.place}: lacks 'node_id_col', which {keyed[0]} of node type {node_type!r} has"
            raise InputError(f"{what}; rows of several tables are matched by their ids")
    parts = [_read_table(table, bar) for table in given]
    count = parts[0].rows
    for table, part in zip(given, parts):
        if part.rows != count:
            where = f"node type {node_type!r} in {given[0].place}"
            raise InputError(f"{table.place}: {part.rows} rows != {count} of {where}")
    if count > MOST_NODES:
        raise InputError(f"node type {node_type!r}: {count} rows, over {MOST_NODES}")
    if len(given) > 1 and not keyed:
        places = ", ".join(table.place for table in given)
        log.info(f"node type {node_type!r}: {places} have no node_id_col, so their rows are matched by their order")
    values = normal(parts[0].ids) if keyed else None
    if values is not None:
        _check_distinct(values, parts[0], node_type)
    columns = [column for part in parts for column in part.columns]
    nodes = Nodes(node_type, count, values, columns, {}, {})
    for table, part in zip(given, parts):
        found = part.labels
        if keyed and part is not parts[0]:
            nodes.orders[table.place] = order = _order(nodes, table, part)
            rows = np.empty(count, np.int64)
            rows[order] = np.arange(count)
            found = {key: [joined(chunks, pa.null()).take(to_arrow(rows))] for key, chunks in found.items()}
        nodes.labels.update(found)
    return nodes


def _read_table(table: NodeTable, bar: tqdm) -> _Read:
    columns = _columns(table)
    content, count, dated = _Read(columns, 0, [], [], {}), 0, set[str]()
    for rows in tables.rows(table.files, table.format, _kinds(table, columns), bar):
        for column in columns:
            values = column.values(rows)
            if column.transform.kind == "number" and pa.types.is_temporal(values.type):
                dated.add(column.name)
            column.transform.observe(values, partial(rows.place, column.name))
        if table.id_column:
            place = partial(rows.place, table.id_column)
            content.ids.append(node_ids(rows.column(table.id_column), place))
            check_lengths(content.ids[-1], place, "ids")
            content.starts.append((rows.file, rows.first))
        for label in table.labels:
            for name, values in labels.kept(rows, label).items():
                content.labels.setdefault((label.place, name), []).append(values)
        count += rows.batch.num_rows
    for name in sorted(dated):
        log.info(f"{table.place}: column {name!r}: dates are read as days since 1970-01-01")
    for column in columns:
        column.transform.fit()
        column.missing.say(f"{table.place}: column {column.name!r}")
    return content._replace(rows=count)


def _columns(table: NodeTable) -> list[Column]:
    """Return the columns of a table that become features; of those that are numbers, which are dates in csv is seen in the first rows."""
    given = [(f, name, transforms.make(f.transform, f.place)) for f in table.features for name in f.columns]
    numbers = [name for _, name, transform in given if transform.kind == "number"]
    dates: set[str] = set()
    if table.format.name == "csv" and numbers:
        dates = set.union(*(diagnosis.dates(file, table.format, numbers) for file in tables.paths(table.files)))
    return [
        Column(table, name, prepared, f.dtype, _words(table, f), "date" if name in dates else prepared.kind)
        for f, name, prepared in given
    ]


def _words(table: NodeTable, feature: Feature) -> Missing:
    """Return the words that are missing values: none that the table or the feature means otherwise."""
    named = feature.transform.get("mapping") or ()
    return Missing(() if table.format.explicit else MISSING - set(named))


def _order(nodes: Nodes, table: NodeTable, part: _Read) -> np.ndarray:
    """Return the nodes of the rows of a further table of a type, which has each of them once."""
    ids = normal(part.ids)
    _check_distinct(ids, part, nodes.node_type)
    found = nodes.finder.find(ids, table.place)
    if (found < 0).any():
        position = int(np.argmax(found < 0))
        raise InputError(f"{_place(part, position)}: {nodes.finder.unknown(ids, position)}")
    return found


def _kinds(table: NodeTable, columns: Sequence[Column]) -> dict[str, str]:
    """Return the columns that are read, each as a text or a number; one that is wanted as both is an error."""
    texts = [table.id_column] if table.id_column else []
    kinds = dict.fromkeys(texts, "text")
    for label in table.labels:
        for name, kind in label.kinds.items():
            split_alone = label.by and name == label.by[0] and name != label.column
            of_feature = next((column.kind for column in columns if column.name == name), kind)
            kind = of_feature if split_alone else kind  # numbers and dates are compared as such
            if kinds.setdefault(name, kind) != kind and not split_alone and table.format.name == "csv":
                raise InputError(f"{table.place}: column {name!r} is read as {kinds[name]}, and as {kind}")
    for column in columns:
        if kinds.setdefault(column.name, column.kind) != column.kind and table.format.name == "csv":
            raise InputError(
                f"{table.place}: column {column.name!r} is read as {kinds[column.name]}, and as {column.kind}"
            )
    return kinds


def _place(part: _Read, position: int) -> str:
    """Return the file and the row of an id of a table."""
    ends = np.cumsum([len(chunk) for chunk in part.ids])
    chunk = int(np.searchsorted(ends, position, side="right"))
    file, first = part.starts[chunk]
    return f"{file}: row {first + position - (ends[chunk] - len(part.ids[chunk]))}"


def _check_distinct(values: pa.Array, part: _Read, node_type: str) -> None:
    if distinct(values):
        return
    counts = pc.value_counts(values)
    twice = counts.filter(pc.greater(pc.struct_field(counts, "counts"), 1))[0]["values"]
    first, second = np.flatnonzero(pc.equal(values, twice).to_numpy(zero_copy_only=False))[:2]
    what = f"id {short(repr(twice.as_py()), 80)} of node type {node_type!r}"
    raise InputError(f"{_place(part, second)}: {what} is there already, {_place(part, first)}")


def write_features(nodes: Nodes, folder: Path, number: int, bar: tqdm) -> np.ndarray:
    """Read the tables of a type that has features once more, and write these as an array on disk, `[nodes, width]`."""
    dtypes = [c.transform.dtype if c.transform.dtype == "uint8" else c.dtype for c in nodes.columns]
    ends = np.cumsum([0, *(column.transform.width for column in nodes.columns)])
    shape = nodes.count, int(ends[-1])
    matrix = mapped(folder / f"features_{number}", shape, np.result_type(*dtypes))
    for table in {column.table.place: column.table for column in nodes.columns}.values():
        columns = [(column, start) for column, start in zip(nodes.columns, ends) if column.table is table]
        rounded = Counter[str]()
        kinds, order = {column.name: column.kind for column, _ in columns}, nodes.orders.get(table.place)
        for rows, which in tables.numbered(
            tables.rows(table.files, table.format, kinds, bar), nodes.count, table.place
        ):
            for column, start in columns:
                values = column.transform.apply(column.values(rows), partial(rows.place, column.name))
                at = which if order is None else order[which]
                rounded[column.name] += _rounded(values, matrix.dtype)
                try:
                    with np.errstate(over="raise"):
                        matrix[at, start : start + column.transform.width] = values
                except FloatingPointError:
                    row = int(np.argmax((np.abs(values) > np.finfo(matrix.dtype).max).any(axis=1)))
                    value = values[row][np.argmax(np.abs(values[row]))]
                    raise InputError(f"{rows.place(column.name, row)}: {value} is no {matrix.dtype}") from None
        for name, count in rounded.items():
            if count:
                log.info(f"{table.place}: column {name!r}: whole numbers that {matrix.dtype} rounds: {count:,}")
    return matrix


def _rounded(values: np.ndarray, dtype: np.dtype) -> int:
    """Count the whole numbers that change where they are written as a narrower float."""
    if (
        dtype.kind != "f"
        or values.dtype.kind != "f"
        or not values.size
        or np.abs(values).max() <= 2 ** np.finfo(dtype).nmant
    ):
        return 0
    with np.errstate(over="ignore", invalid="ignore"):
        changed = (values.astype(dtype) != values) | (np.abs(values) >= EXACT)
        return int(np.count_nonzero(changed & (values == np.floor(values))))
