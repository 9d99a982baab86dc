"""Labels of the rows of a table of edges: kept while the edges are read, and made a column of labelled pairs."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hetjax.casts.ids import node_ids, normal
from hetjax.graph.columns import Column
from hetjax.graph.schema import Relation
from hetjax.ingest import labels, tables
from hetjax.ingest.declared import EdgeTable, Format, Label, Pattern
from hetjax.ingest.finder import Finder
from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import read_bytes

Finders = Mapping[str, Finder]


class Made(NamedTuple):
    """A column with its full name, and the classes that are kept for later data."""

    name: str
    column: Column
    classes: list[str]


class EdgeLabels:
    """The rows of a table of edges that has labels.

    Args:
      table: of the edges.
    """

    def __init__(self, table: EdgeTable):
        self.table = table
        self.ends: list[tuple[np.ndarray, np.ndarray]] = []
        self.values: dict[tuple[str, str], list[pa.Array]] = {}

    def add(self, rows: tables.Rows, ends: tuple[np.ndarray, np.ndarray], right: np.ndarray) -> None:
        """Keep some rows, whose ends are nodes where `right`, bool `[rows]`."""
        mask = pa.array(right)
        self.ends.append((ends[0][right], ends[1][right]))
        for label in self.table.labels:
            for name, values in labels.kept(rows, label).items():
                self.values.setdefault((label.place, name), []).append(values.filter(mask))

    def column(self, label: Label, finders: Finders, seed: int) -> Made:
        """Return a label as a column of pairs.

        Raises:
          InputError: values that are no labels, or a file of a split that names no row.
        """
        relation = self.table.relation
        none = np.empty(0, np.int32)
        ends = np.concatenate([none, *(s for s, _ in self.ends)]), np.concatenate([none, *(t for _, t in self.ends)])
        found: tuple[np.ndarray, Any, list[str]] = (
            np.zeros(len(ends[0]), np.int32),
            None,
            ["0"],
        )  # links are of one class
        if label.column:
            chunks = self.values.get((label.place, label.column), [])
            found = labels.encode(chunks, label, self.table.format.explicit)
        numbers, names, classes = found
        by = self.values.get((label.place, label.by[0]), []) if label.by else []
        read = partial(_rows, label=label, relation=relation, finders=finders, ends=ends)
        splits = labels.split(label, numbers, by, read, seed)
        column = Column(numbers, splits, len(classes), names, relation, ends)
        return Made(f"{relation.key}.{label.name}", column, classes)


def _rows(
    file: Path, label: Label, relation: Relation, finders: Finders, ends: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return the rows whose pairs are in a file: parquet with two columns, or JSON: a list of pairs, or a pair on each line.

    Raises:
      InputError: an end that is no node, or a pair that no row has.
    """
    numbers = []
    for side, given in zip((relation.source, relation.target), _pairs(file, label.files_columns)):
        ids = normal([node_ids(given, partial(labels.entry, file))])
        found = finders[side].find(ids, str(file))
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            raise InputError(f"{file}: entry {row + 1}: {finders[side].unknown(ids, row)}")
        numbers.append(found.astype(np.int64))
    width = max(1, finders[relation.target].count)
    wanted, known = numbers[0] * width + numbers[1], ends[0].astype(np.int64) * width + ends[1]
    missing = ~np.isin(wanted, known)
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"{file}: entry {row + 1}: no row of {relation} in {label.place} has this pair")
    return np.flatnonzero(np.isin(known, wanted))


def _pairs(file: Path, columns: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
    """Return the sources and targets in a file."""
    if file.suffix == ".parquet":
        if len(columns) != 2:
            raise InputError(f"{file}: custom_split_filenames lacks 'column', and should have two, of the ends")
        pattern, form = Pattern(file.parent, file.name), Format("parquet")
        source, target = labels.columns_of(pattern, form, columns)
        return source, target
    with reading(file):
        text = read_bytes(file, labels.LARGEST).decode("utf-8-sig")
        whole = text.lstrip().startswith("[[") or text.strip() == "[]"
        given = json.loads(text) if whole else [json.loads(line) for line in text.split("\n") if line.strip()]
        for number, one in enumerate(given, start=1):
            if not isinstance(one, list) or len(one) != 2 or not all(map(_is_id, one)):
                raise InputError(f"{file}: entry {number}: {short(repr(one), 80)}, and should be a list of two ids")
        source, target = (pa.array([str(one[side]) for one in given], pa.large_string()) for side in (0, 1))
        return source, target


def _is_id(given: Any) -> bool:
    return isinstance(given, str | int) and not isinstance(given, bool)
