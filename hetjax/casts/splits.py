"""The nodes of each split, from masks, ids, node numbers, words or shares."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetjax.casts.column import as_column, is_text, kind_of
from hetjax.casts.ids import node_ids, positions
from hetjax.casts.words import Missing
from hetjax.graph.arrow import to_numpy
from hetjax.graph.columns import SPLITS
from hetjax.graph.names import Ids
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log

SPELLINGS = {"val": "validation", "valid": "validation", "dev": "validation", "training": "train"}
WORDS = "train, val (or valid, validation, dev) and test"
MASKS = {"train_mask": "train", "test_mask": "test"} | {
    f"{word}_mask": "validation" for word in ("val", "valid", "validation")
}
TRUTH = {"true": True, "false": False, "1": True, "0": False}


def as_splits(
    given: Mapping[str, Any], nodes: int, ids: Ids | None, ids_given: bool = True, numbered: bool = False
) -> dict[str, np.ndarray]:
    """Return the node numbers int64 of each split.

    Args:
      given: per split (also `val` for `validation`) a mask, or ids.
      nodes: of the target type, which masks have.
      ids: what they are called; None: ids in `given` are node numbers.
      ids_given: whether the user gave these ids; if not, whole numbers in `given` are node numbers, and texts alone are ids.
      numbered: whether whole numbers are node numbers also where the ids are texts, which a line says.

    Raises:
      InputError: no such split or id; or an id that is there twice, in one split or in two.
    """
    splits: dict[str, np.ndarray] = {}
    for word, chosen in given.items():
        name = SPELLINGS.get(word, word)
        if name not in SPLITS or name in splits:
            raise InputError(f"split {name!r}: the splits are {', '.join(SPLITS)}, each once")
        splits[name] = _chosen(as_column(chosen, f"split {name!r}"), f"split {name!r}", nodes, ids, ids_given, numbered)
    for name, numbers in splits.items():
        check_once(numbers, f"split {name!r}")
    return splits


def as_masks(given: Any, ids: Ids) -> Any:
    """Return a mask `[nodes]` per split of what names nodes by ids, as `as_splits` does; shares as they are."""
    if not isinstance(given, Mapping):
        return given
    masks = {}
    for name, numbers in as_splits(given, len(ids), ids).items():
        masks[name] = np.zeros(len(ids), bool)
        masks[name][numbers] = True
    return masks


def from_words(column: pa.Array, place: str) -> dict[str, np.ndarray]:
    """Return a mask `[nodes]` per split of a column of words: train; val, valid, validation, dev; test; in any case.

    A node whose word is missing is in no split.

    Raises:
      InputError: there are other values.
    """
    if column.null_count == len(column):  # also of floats, as pandas reads a column of empty cells
        return {name: np.zeros(len(column), bool) for name in SPLITS}
    if not is_text(column.type):
        present = column.drop_null()
        found = f"{present[0].as_py()!r}, " if len(present) else ""
        raise InputError(f"{place}: {found}{column.type}, and should be the words {WORDS}")
    missing = Missing()
    words = pc.utf8_lower(pc.utf8_trim_whitespace(missing.read(column)))
    missing.say(place)
    spelled = {name: name for name in SPLITS} | SPELLINGS
    right = pc.is_in(words, pa.array(list(spelled), pa.large_string()))
    wrong = pc.and_(words.is_valid(), pc.invert(right))
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        raise InputError(
            f"{place}: {short(repr(column[row].as_py()), 80)} of row {row}, and should be {WORDS}, or missing"
        )
    masks = {}
    for name in SPLITS:
        named = pa.array([word for word, meant in spelled.items() if meant == name], pa.large_string())
        masks[name] = pc.is_in(words, named).to_numpy(zero_copy_only=False)
    return masks


def from_masks(columns: Mapping[str, pa.Array], place: str) -> dict[str, np.ndarray]:
    """Return a mask `[nodes]` per split of the columns that are named as in `MASKS`.

    Raises:
      InputError: two are of one split, or a column is no mask.
    """
    masks: dict[str, np.ndarray] = {}
    for word, column in columns.items():
        if (name := MASKS[word]) in masks:
            raise InputError(f"{place}: column {word!r}, and another one is of split {name!r}: leave one")
        masks[name] = as_mask(column, f"{place}: column {word!r}")
    return masks


def as_mask(column: pa.Array, place: str) -> np.ndarray:
    """Return a mask, bool `[rows]`, of booleans or 0 and 1; what is missing is false.

    Raises:
      InputError: there are other values.
    """
    kind = kind_of(column)
    if kind == "empty":
        return np.zeros(len(column), bool)
    if kind == "text":
        words = pc.utf8_lower(Missing().read(column))
        truths = pa.array(list(TRUTH), pa.large_string())
        wrong = pc.and_(words.is_valid(), pc.invert(pc.is_in(words, truths)))
        true = pc.is_in(words, pa.array([word for word, truth in TRUTH.items() if truth], pa.large_string()))
    elif kind in ("whole", "number"):
        wrong = pc.and_(pc.not_equal(column, 0), pc.not_equal(column, 1))
        true = pc.equal(column, 1)
    elif kind == "boolean":
        return column.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        raise InputError(f"{place}: {column.type}, and should be true and false, or 1 and 0")
    if pc.any(wrong).as_py():
        row = pc.index(wrong.fill_null(False), True).as_py()
        value = short(repr(column[row].as_py()), 80)
        raise InputError(f"{place}: {value} of row {row}, and should be true and false, or 1 and 0")
    return true.fill_null(False).to_numpy(zero_copy_only=False)


def check_once(numbers: np.ndarray, place: str) -> None:
    """Raise an InputError for a node that is there twice."""
    values, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{place}: node {values[np.argmax(counts > 1)]} is there {counts.max()} times")


def _chosen(column: pa.Array, place: str, nodes: int, ids: Ids | None, ids_given: bool, numbered: bool) -> np.ndarray:
    if pa.types.is_boolean(column.type):
        if len(column) != nodes:
            raise InputError(f"{place}: a mask of shape ({len(column)},) != ({nodes},) of the nodes")
        return np.flatnonzero(as_mask(column, place))
    if not len(column):
        return np.empty(0, np.int64)
    asked = node_ids(column, lambda row=None: place if row is None else f"{place}: entry {row}")
    is_number = not is_text(asked.type)
    if ids is None or (is_number and not ids_given):
        return to_numpy(asked.cast(pa.int64())) if is_number else positions(asked, ids, place)
    if is_number and numbered and is_text(ids.values.type):
        if (ids.find(asked) >= 0).any():
            raise InputError(
                f"{place}: whole numbers may be node numbers, or the ids, which are texts: give texts, or a mask"
            )
        log.warning("%s: whole numbers are node numbers from 0, as the ids are texts", place)
        return to_numpy(asked.cast(pa.int64()))
    return positions(asked, ids, place)
