"""Labels of a table, the classes that they name, and the nodes of each split."""

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from hetjax.casts.column import is_text, is_time, joined, kind_of
from hetjax.casts.ids import node_ids, normal
from hetjax.casts.labels import CLASS_NUMBER, class_names, encoded
from hetjax.casts.rows import as_matrix
from hetjax.casts.words import MISSING, Missing
from hetjax.datasets.splits import Split, divide
from hetjax.graph.arrow import to_numpy
from hetjax.graph.columns import SPLITS, UNLABELLED
from hetjax.graph.names import Ids
from hetjax.ingest import parquet, tables
from hetjax.ingest.declared import Format, Label, Pattern
from hetjax.ingest.finder import Finder, check_lengths
from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import read_bytes
from hetjax.system.logs import log

FILES = {"train": "train", "validation": "valid", "test": "test"}
KEPT = "graph.json"  # of a store: the configuration with what was fitted
LARGEST = 2**30  # bytes of a file of ids
NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2}([ T][0-9:.]+Z?)?)?)?")  # a year first, and parts of a date after it


def kept(rows: tables.Rows, label: Label) -> dict[str, pa.Array]:
    """Return what is kept of some rows of a table: the labels, numbers as float64 with NaN, and what splits them; by column.

    Raises:
      InputError: a number that is none, or a text that is too long.
    """
    values = {}
    for name, kind in label.kinds.items():
        column, place = rows.column(name), partial(rows.place, name)
        if kind == "number":
            numbers = as_matrix(column, place, missing=True)
            if numbers.shape[1] != 1:
                raise InputError(f"{place()}: lists of {numbers.shape[1]} numbers, and a label is one")
            column = pa.array(numbers[:, 0])
        check_lengths(column, place, "labels, and what splits them,")
        values[name] = column
    return values


def encode(chunks: list[pa.Array], label: Label, explicit: bool = False) -> tuple[np.ndarray, Ids | None, list[str]]:
    """Return class numbers int32 `[rows]`, -1 where there is no label; the classes' names; and what is kept of them for later data.

    Numbers to predict are float32 `[rows]`, NaN where one is missing, of one class. Whole numbers from 0, of which at most half are left out, are class numbers. Other values are names, in their order; a line
    says so of whole numbers. What is missing, and -1, is no label.

    Args:
      explicit: whether the table says itself which words are missing.

    Raises:
      InputError: there is no label; one of a class that `classes` does not have; or values that can be no classes.
    """
    place = f"{label.place}: column {label.column!r}"
    if label.numeric:
        values = to_numpy(joined(chunks, pa.float64()), math.nan)
        if (large := np.abs(values) > np.finfo(np.float32).max).any():
            raise InputError(f"{place}: {values[np.argmax(large)]} of row {np.argmax(large) + 1} is no float32")
        return values.astype(np.float32), None, ["0"]
    missing = Missing(() if explicit else MISSING - set(label.classes))
    names = [missing.read(c) if is_text(c.type) else class_names(c, place, ()) for c in chunks]
    missing.say(place)
    numbers, ids = encoded(joined(names, pa.large_string()), place, label.classes, numbers=True)
    classes = ids.values.to_pylist()
    if not classes:
        raise InputError(f"{place} has no label, and no `classes` are given; {KEPT} of a store has them")
    plain = classes == [str(number) for number in range(len(classes))]
    if not plain and not label.classes and all(map(CLASS_NUMBER.fullmatch, classes)):
        log.info(f"{place}: whole numbers are names of {len(classes)} classes: {short(', '.join(classes), 80)}")
    elif not plain and not label.classes and all(map(_is_numeral, classes)):
        log.warning(f"{place}: numbers are names of {len(classes)} classes: {short(', '.join(classes), 80)}")
    return numbers, None if plain else ids, classes


def none(nodes: int) -> np.ndarray:
    """Return the labels of nodes of which none is known."""
    return np.full(nodes, UNLABELLED, np.int32)


def split(
    label: Label, labels: np.ndarray, column: list[pa.Array], read: Callable[[Path], np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """Return numbers of rows per split: from files, by ranges of a column, or by shares.

    Args:
      read: gives the rows that a file names.

    Raises:
      InputError: a file names no row.
    """
    if label.files:
        given = {name: tables.paths(label.files[FILES[name]]) for name in SPLITS if FILES[name] in label.files}
        return {name: np.concatenate([read(file) for file in files]) for name, files in given.items()}
    if label.by:
        return _by_range(label, labels, column)
    return divide(labels, Split("random", seed, label.shares), {}, label.place)


def _by_range(label: Label, labels: np.ndarray, column: list[pa.Array]) -> dict[str, np.ndarray]:
    """Return splits by ranges. Validation begins at the first end, test at the second: numbers, or texts such as dates, year first."""
    assert label.by is not None
    place = f"{label.place}.split_by: column {label.by[0]!r}"
    values, ends = _comparable(joined(column, pa.large_string()), label.by[1], place)
    usable = ((labels == labels) if label.numeric else (labels != UNLABELLED)) & values.is_valid().to_numpy(
        zero_copy_only=False
    )
    late = [pc.greater_equal(values, end).fill_null(False).to_numpy(zero_copy_only=False) for end in ends]
    chosen = usable & ~late[0], usable & late[0] & ~late[1], usable & late[1]
    return {name: np.flatnonzero(mask) for name, mask in zip(SPLITS, chosen)}


def _comparable(values: pa.Array, ends: Sequence[str | float], place: str) -> tuple[pa.Array, list]:
    """Return a column and the ends of ranges as values of one kind, all numbers or all texts.

    Raises:
      InputError: they cannot be compared.
    """
    kind, texts = values.type, [str(end) for end in ends]
    if kind_of(values) in ("whole", "number", "decimal"):
        if not all(_is_numeral(text) for text in texts):
            raise InputError(
                f"{place}: numbers, and `from` is {short(', '.join(texts), 80)}, and should be numbers too"
            )
        numbers = values.cast(pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(numbers), None, numbers), [float(text) for text in texts]
    if is_time(kind):
        if not all(DATE.fullmatch(text) for text in texts):
            raise InputError(
                f"{place}: {kind}, and `from` is {short(', '.join(texts), 80)}, and should be years or dates"
            )
        return values.cast(pa.large_string()), [text.replace("T", " ") for text in texts]
    if kind_of(values) not in ("text", "empty"):
        raise InputError(f"{place}: {kind}, and should be numbers, dates or texts")
    missing = Missing()
    column = missing.read(values)
    missing.say(place)
    if all(_is_numeral(text) for text in texts):
        try:
            return column.cast(pa.float64()), [float(text) for text in texts]
        except pa.ArrowInvalid:
            if not all(DATE.fullmatch(text) for text in texts):
                _check(column, NUMBER, place, texts, "numbers")
                raise InputError(f"{place}: some numbers have over 64 bits") from None
            _check(column, DATE, place, texts, "numbers, or dates if these are years")
    elif all(DATE.fullmatch(text) for text in texts):
        _check(column, DATE, place, texts, "dates, year first")
    dates = pc.replace_substring_regex(column, "^([0-9]{4}-[0-9]{2}-[0-9]{2})T", r"\1 ")
    return dates, [text.replace("T", " ") if DATE.fullmatch(text) else text for text in texts]


def _check(column: pa.Array, form: re.Pattern, place: str, ends: Sequence[str], expected: str) -> None:
    """Raise an InputError for the first text of another form, which would be compared with the ends letter by letter."""
    right = pc.match_substring_regex(column, f"^({form.pattern})$").fill_null(True)
    if not pc.all(right).as_py():
        row = pc.index(right, False).as_py()
        found = short(repr(column[row].as_py()), 80)
        raise InputError(f"{place}: row {row + 1}: {found}, and `from` is {', '.join(ends)}: should be {expected}")


def _is_numeral(text: str) -> bool:
    return bool(NUMBER.fullmatch(text)) and math.isfinite(float(text))


def of_file(file: Path, label: Label, finder: Finder) -> np.ndarray:
    """Return the numbers of the nodes whose ids are in a file: parquet, a JSON list, or a line each.

    Raises:
      InputError: an id that is no node's.
    """
    given = _ids(file, label.files_columns[0] if label.files_columns else "")
    ids = normal([node_ids(given, partial(entry, file))])
    numbers = finder.find(ids, str(file))
    if (numbers < 0).any():
        row = int(np.argmax(numbers < 0))
        raise InputError(f"{file}: entry {row + 1}: {finder.unknown(ids, row)}")
    return numbers


def entry(file: Path, row: int | None = None) -> str:
    """Return the beginning of an error about an id in a file of ids."""
    return f"{file}" if row is None else f"{file}: entry {row + 1}"


def _ids(file: Path, column: str) -> pa.Array:
    """Return the ids in a parquet file, in a JSON list, or a line each, also as JSON."""
    with reading(file):
        if file.suffix == ".parquet":
            form, name = Format("parquet"), column or parquet.first(file)
            return columns_of(Pattern(file.parent, file.name), form, [name])[0]
        text = read_bytes(file, LARGEST).decode("utf-8-sig")
        given = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [_line(line) for line in text.split("\n") if line.strip()]
        )
        for number, one in enumerate(given, start=1):
            if not isinstance(one, str | int) or isinstance(one, bool):
                raise InputError(
                    f"{file}: entry {number}: {short(repr(one), 80)}, and should be a whole number or a text"
                )
        return pa.array([str(one) for one in given], pa.large_string())


def columns_of(pattern: Pattern, form: Format, names: Sequence[str]) -> list[pa.Array]:
    """Return columns of ids of a file."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in names}
    with tqdm(disable=True) as bar:
        for rows in tables.rows([pattern], form, dict.fromkeys(names, "text"), bar):
            for name in names:
                parts[name].append(rows.column(name))
    return [joined(chunks, pa.int64()) for chunks in parts.values()]


def _line(line: str) -> Any:
    return json.loads(line) if line.lstrip().startswith('"') else line.strip()
