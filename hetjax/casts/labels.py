"""Labels: class numbers, or names of classes; and what stands for a label that is not known."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.casts.column import as_column, as_dense, is_text, kind_of
from hetjax.casts.ids import EXACT
from hetjax.casts.words import MISSING, Missing
from hetjax.graph.arrow import to_numpy
from hetjax.graph.columns import UNLABELLED
from hetjax.graph.names import Ids
from hetjax.graph.schema import MOST_CLASSES
from hetjax.system.errors import InputError, short

NO_CLASS = "-1"  # of a node without a label, where labels are texts
CLASS_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
WHOLE = re.compile(r"-?[0-9]{1,18}(\.0+)?")


class Categories(NamedTuple):
    """Labels with the names of all classes, in their order.

    Attributes:
      codes: class numbers `[nodes]`, -1 where there is none; or names of classes, missing where there is none.
      categories: the name of every class.
    """

    codes: Any
    categories: Any


def as_labels(given: Any, place: str) -> tuple[np.ndarray, Ids | None]:
    """Return class numbers `[nodes]`, -1 where no label is known, and the names of classes, if they have some.

    Whole numbers, also as floats, are class numbers. Texts and booleans are names of classes in their order, texts that are all
    whole numbers by number. Categories keep their order. Not known are missing values, -1, and the words of
    `hetjax.casts.words`. A matrix `[nodes, classes]` of 0 and 1 is for nodes of several labels, with rows of -1 or NaN for none.

    Raises:
      InputError: they can be no classes.
    """
    if isinstance(given, Categories):
        names = [str(name) for name in as_column(given.categories, place).to_pylist()]
        codes = as_dense(given.codes, place)
        several = codes.ndim == 2 and codes.shape[1] != 1
        if several:
            return _checked(_matrix(codes, place)[0], len(names), place), Ids(names)
        column = as_column(codes.reshape(-1), place)
        if kind_of(column) == "text":
            return encoded(class_names(column, place, MISSING - set(names)), place, names)
        return _checked(class_numbers(column, place), len(names), place), Ids(names)
    shape: tuple[int, ...] = tuple(getattr(given, "shape", ()))
    if (len(shape) == 2 and shape[1] != 1) or (not shape and _is_nested(given)):
        return _matrix(given, place)
    if (ordered := _categories(given, place)) is not None:
        return _coded(as_column(given, place), ordered, place)
    column = as_column(as_dense(given, place)[:, 0] if len(shape) == 2 else _flat(given), place)
    kind = kind_of(column)
    if kind in ("text", "boolean"):
        return encoded(class_names(column, place), place)
    return class_numbers(column, place), None


def class_numbers(column: pa.Array, place: str) -> np.ndarray:
    """Return class numbers int64 `[nodes]` of a column of numbers, -1 where one is missing.

    Raises:
      InputError: one is not whole, or below -1; or they are no numbers.
    """
    values = _whole(column, place)
    numbers = to_numpy(values.cast(pa.int64()), UNLABELLED) if len(values) else np.empty(0, np.int64)
    wrong = (numbers < UNLABELLED) | (numbers >= MOST_CLASSES)
    if wrong.any():
        node = int(np.argmax(wrong))
        least = f"0 or more, or {UNLABELLED} where there is no label"
        raise InputError(
            f"{place}: {numbers[node]} of node {node}: class numbers are {least}, and below {MOST_CLASSES}"
        )
    return numbers


def class_names(column: pa.Array, place: str, words: Collection[str] = MISSING) -> pa.Array:
    """Return names of classes, large_string `[nodes]`, null where there is no label; whole numbers as Python writes them.

    Args:
      words: of texts that stand for a missing label; a line says which were read so.

    Raises:
      InputError: they can be no classes.
    """
    missing = Missing(words)
    names = missing.read(column) if is_text(column.type) else None
    missing.say(place)
    if names is not None:
        return names
    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.large_string())
    return _whole(column, place).cast(pa.large_string())


def encoded(names: pa.Array, place: str, classes: Sequence[str] = (), numbers: bool = False) -> tuple[np.ndarray, Ids]:
    """Return class numbers int32 `[nodes]` of names of classes, -1 where one is missing or `-1`; and the names of all classes.

    Args:
      classes: all names in their order, among which `-1` may be one; without them those that are there, whole numbers by number.
      numbers: names that are whole numbers from 0 are class numbers, unless more are left out than are there.

    Raises:
      InputError: a name that is none of `classes`, or too many classes.
    """
    coded = names.dictionary_encode()
    distinct = alike(coded.dictionary.to_pylist(), place)
    classes_found = {name for name in distinct if name != NO_CLASS or name in classes}
    ordered = list(classes) or (_class_numbers(classes_found) if numbers else []) or _in_order(classes_found)
    if len(ordered) > MOST_CLASSES:
        raise InputError(f"{place}: {len(ordered):,} classes, over {MOST_CLASSES:,}")
    numbered = {name: number for number, name in enumerate(ordered)}
    found = np.array([*(numbered.get(name, UNLABELLED) for name in distinct), UNLABELLED], np.int32)
    which = to_numpy(coded.indices, len(distinct))
    wrong = np.array([*(name in classes_found and name not in numbered for name in distinct), False])[which]
    if wrong.any():
        row = int(np.argmax(wrong))
        name = short(repr(distinct[which[row]]), 80)
        raise InputError(f"{place}: row {row + 1}: class {name} is not among {short(', '.join(ordered))}")
    return found[which], Ids(pa.array(ordered, pa.large_string()))


def _class_numbers(names: Collection[str]) -> list[str]:
    """Return all class numbers up to the largest, where names are such from 0 and at most half are left out; else none."""
    if "0" not in names or not all(CLASS_NUMBER.fullmatch(name) for name in names):
        return []
    count = max(map(int, names)) + 1
    return list(map(str, range(count))) if count <= 2 * len(names) else []


def _in_order(names: Collection[str]) -> list[str]:
    """Return names of classes in their order; if all are whole numbers, by number."""
    if all(WHOLE.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def alike(names: list[str], place: str) -> list[str]:
    """Return names of classes in which, if all are whole numbers, `1.0` is 1.

    Raises:
      InputError: all are whole numbers, and one is below -1.
    """
    if not all(WHOLE.fullmatch(name) for name in names):
        return [NO_CLASS if re.fullmatch(r"-1(\.0+)?", name) else name for name in names]
    names = [re.sub(r"\.0+$", "", name) for name in names]
    negative = [name for name in names if name.startswith("-") and int(name) < int(NO_CLASS)]
    if negative:
        raise InputError(f"{place}: {negative[0]}, and class numbers are 0 or more, or -1 where there is no label")
    return names


def _whole(column: pa.Array, place: str) -> pa.Array:
    """Return the whole numbers of a column of numbers; null where one is missing."""
    kind = kind_of(column)
    if kind == "whole" or kind == "empty":
        if pa.types.is_uint64(column.type) and (pc.max(column).as_py() or 0) >= MOST_CLASSES:
            raise InputError(f"{place}: {pc.max(column).as_py()} is no class number: these are below {MOST_CLASSES}")
        return column.cast(pa.int64())
    if kind not in ("number", "decimal"):
        raise InputError(f"{place}: {column.type}, and should be whole numbers, texts, or true and false")
    numbers = to_numpy(column.cast(pa.float64(), safe=False), np.nan)
    present = ~np.isnan(numbers)
    wrong = present & ~(np.isfinite(numbers) & (np.abs(numbers) < EXACT) & (numbers == np.round(numbers)))
    if wrong.any():
        node = int(np.argmax(wrong))
        raise InputError(
            f"{place}: {numbers[node]} of node {node} is no class: classes are whole numbers or texts; numbers to predict are given with numbers=True"
        )
    return pa.array(np.where(present, numbers, 0).astype(np.int64), mask=~present)


def _is_nested(given: Any) -> bool:
    """Tell whether a list has rows of several labels."""
    first = next((row for row in given if row is not None), None) if isinstance(given, list | tuple) else None
    return len(first) > 1 if isinstance(first, list | tuple) else isinstance(first, np.ndarray) and first.size > 1


def _flat(given: Any) -> Any:
    """Return a list of rows of one label as a list of labels."""
    if (
        isinstance(given, list | tuple)
        and given
        and all(isinstance(row, list | tuple) and len(row) == 1 for row in given)
    ):
        return [row[0] for row in given]
    return given


def _matrix(given: Any, place: str) -> tuple[np.ndarray, None]:
    matrix = as_dense(given, place)
    if matrix.dtype.kind in "iub" and matrix.ndim == 2:
        return matrix.view(), None
    if matrix.dtype.kind == "O":
        matrix = np.array([[np.nan if one is None else one for one in row] for row in matrix.tolist()])
    if matrix.dtype.kind != "f" or matrix.ndim != 2:
        raise InputError(f"{place}: {matrix.dtype} {matrix.shape}, and should be (nodes,), or 0 and 1 (nodes, classes)")
    present = ~np.isnan(matrix)
    wrong = np.argwhere(present & ~(np.isfinite(matrix) & (matrix == np.round(matrix))))
    if len(wrong):
        first = tuple(wrong[0])
        raise InputError(f"{place}: {matrix[first]} of node {first[0]} is no class: classes are whole numbers or texts")
    return np.where(present, matrix, UNLABELLED).astype(np.int64), None


def _categories(given: Any, place: str) -> list[str] | None:
    """Return the names of categories, in their order; None where a column has none of its own."""
    categorical = getattr(given, "cat", given)
    if hasattr(categorical, "categories") and hasattr(categorical, "codes"):
        return as_column(class_names(as_column(categorical.categories, place), place, ()), place).to_pylist()
    kind = getattr(given, "type", None)
    if isinstance(kind, pa.DictionaryType) and kind.ordered:
        pieces = given.chunks if isinstance(given, pa.ChunkedArray) else [given]
        if pieces and all(piece.dictionary.equals(pieces[0].dictionary) for piece in pieces):
            return class_names(as_column(pieces[0].dictionary, place), place, ()).to_pylist()
    return None


def _coded(column: pa.Array, ordered: list[str], place: str) -> tuple[np.ndarray, Ids]:
    """Return the class numbers of categories; what stands for a missing label is no class."""
    none = MISSING | {NO_CLASS}
    classes = [name for name in ordered if name not in none]
    names = class_names(column, place)
    found = pc.index_in(names, pa.array(classes, pa.large_string())).fill_null(UNLABELLED)
    return to_numpy(found.cast(pa.int64())).astype(np.int64), Ids(pa.array(classes, pa.large_string()))


def _checked(codes: np.ndarray, classes: int, place: str) -> np.ndarray:
    """Return the codes of categories, none of which is beyond the last."""
    if codes.size and codes.ndim == 1 and (codes.max() >= classes or codes.min() < UNLABELLED):
        node = int(np.argmax((codes >= classes) | (codes < UNLABELLED)))
        raise InputError(f"{place}: class {codes[node]} of node {node}, and {short(str(classes))} classes have names")
    return codes
