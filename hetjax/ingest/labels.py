"""Labels of a table, the classes that they name, and the nodes of each split."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hetjax.datasets.splits import Split, divide
from hetjax.errors import InputError, reading, short
from hetjax.graph.arrow import to_numpy
from hetjax.graph.hetgraph import SPLITS, UNLABELLED
from hetjax.graph.names import Ids
from hetjax.ingest import tables
from hetjax.ingest.configuration import Label
from hetjax.ingest.finder import Finder, check_ids, joined, normal

FILES = {"train": "train", "validation": "valid", "test": "test"}
KEPT = "graph.json"  # of a store: the configuration with what was fitted
LARGEST = 2**30  # bytes of a file of ids


def encode(chunks: list[pa.Array], label: Label) -> tuple[np.ndarray, Ids | None, list[str]]:
    """Class numbers int32 `[nodes]`, -1 where there is no label; the classes' names; and what is kept of them for later data.

    Whole numbers from 0 up, of which none is left out, are class numbers. Other values are names, in their order.

    Raises:
      InputError: there is no label; or one of a class that `classes` does not have.
    """
    values = joined(chunks, pa.large_string())
    if pa.types.is_floating(values.type):
        values = _whole(values, label)
    coded = values.dictionary_encode()
    texts = coded.dictionary.cast(pa.large_string())
    distinct = texts.to_pylist()
    if not distinct and not label.classes:
        raise InputError(
            f"{label.place}: column {label.column!r} has no label, and no `classes` are given; {KEPT} of a store has them"
        )
    numbers = [int(text) for text in distinct if text.isdigit() and str(int(text)) == text]
    ordered = sorted(distinct)
    if len(numbers) == len(distinct):
        ordered = [str(number) for number in sorted(numbers)]
    classes = list(label.classes) or ordered
    numbered = {name: number for number, name in enumerate(classes)}
    found = np.array([*(numbered.get(text, UNLABELLED) for text in distinct), UNLABELLED], np.int32)
    which = to_numpy(coded.indices, len(distinct))
    encoded = found[which]
    unknown = (encoded < 0) & (which < len(distinct))
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(
            f"{label.place}: row {row + 1}: class {short(repr(distinct[which[row]]), 80)} is not among {short(', '.join(classes))}"
        )
    plain = classes == [str(number) for number in range(len(classes))]
    return encoded, None if plain else Ids(classes), classes


def none(nodes: int) -> tuple[np.ndarray, None, list[str]]:
    """Of so many nodes without labels: what `encode` gives. The class is one, as a graph has at least one."""
    return np.full(nodes, UNLABELLED, np.int32), None, ["0"]


def _whole(values: pa.Array, label: Label) -> pa.Array:
    numbers = values.to_numpy(zero_copy_only=False)
    known = np.isfinite(numbers)
    if (numbers[known] != np.round(numbers[known])).any():
        raise InputError(
            f"{label.place}: column {label.column!r} has numbers that are not whole: classes are whole numbers or texts"
        )
    return pa.array(np.where(known, numbers, 0).astype(np.int64), mask=~known)


def split(
    label: Label | None, labels: np.ndarray, column: list[pa.Array], finder: Finder, seed: int
) -> dict[str, np.ndarray]:
    """Node numbers per split: from files, by ranges of a column, or by shares; none without labels.

    Raises:
      InputError: an id of a file that is no node's.
    """
    if label is None:
        return {}
    if label.files:
        return {name: _from_files(label, FILES[name], finder) for name in SPLITS if FILES[name] in label.files}
    if label.by:
        return _by_range(label, labels, column)
    return divide(labels, Split("random", seed, label.shares), {}, label.place)


def _by_range(label: Label, labels: np.ndarray, column: list[pa.Array]) -> dict[str, np.ndarray]:
    """Validation begins at the first end, test at the second: numbers, or texts such as dates, year first."""
    assert label.by is not None
    values = joined(column, pa.large_string())
    ends: list = list(label.by[1])
    try:
        ends, values = [float(end) for end in ends], values.cast(pa.float64())
    except (ValueError, pa.ArrowInvalid):
        values = values.cast(pa.large_string())
    known = (labels != UNLABELLED) & values.is_valid().to_numpy(zero_copy_only=False)
    late = [pc.greater_equal(values, end).fill_null(False).to_numpy(zero_copy_only=False) for end in ends]
    chosen = known & ~late[0], known & late[0] & ~late[1], known & late[1]
    return {name: np.flatnonzero(mask) for name, mask in zip(SPLITS, chosen)}


def _from_files(label: Label, name: str, finder: Finder) -> np.ndarray:
    found = []
    for file in tables.paths(label.files[name]):
        given = _ids(file, label.files_column)
        check_ids(given, str(file))
        ids = normal([given])
        numbers = finder.find(ids, str(file))
        if (numbers < 0).any():
            row = int(np.argmax(numbers < 0))
            raise InputError(f"{file}: entry {row + 1}: {finder.unknown(ids, row)}")
        found.append(numbers)
    return np.concatenate(found)


def _ids(file: Path, column: str) -> pa.Array:
    """The ids in a parquet file, in a JSON list, or a line each, also as JSON."""
    with reading(file):
        if file.stat().st_size > LARGEST:
            raise InputError(f"{file}: over {LARGEST} bytes")
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            if column and column not in table.column_names:
                raise InputError(f"{file}: no column {column!r} among {', '.join(table.column_names)}")
            return table.column(column or 0).combine_chunks()
        text = file.read_text(encoding="utf-8-sig")
        given = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [_line(line) for line in text.split("\n") if line.strip()]
        )
        return pa.array([str(one) for one in given], pa.large_string())


def _line(line: str) -> str:
    return str(json.loads(line)) if line.lstrip().startswith('"') else line.strip()
