"""Named columns of labels of a graph's node types, one of which a run predicts."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from hetjax.graph.checks import check_ids, sorted_ids, whole_numbers
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Schema, check_text
from hetjax.system.errors import InputError, short

SPLITS = ("train", "validation", "test")
UNLABELLED = -1
NO_FILES: Mapping[str, str] = MappingProxyType({})
LABEL_NAME = "label"  # of a column that nobody named


@dataclass(frozen=True)
class Column:
    """A column of labels of the nodes of one type.

    Its name is `TYPE.NAME`; the type is what stands before the last dot.

    Attributes:
      labels, splits: as of `hetjax.graph.hetgraph.HetGraph`.
      classes: number of classes; of numbers, how many a node has.
      names: the names of the classes, or of a node's several numbers; None: they have numbers alone.
    """

    labels: np.ndarray
    splits: Mapping[str, np.ndarray]
    classes: int
    names: Ids | None = None

    def __post_init__(self):
        object.__setattr__(self, "splits", MappingProxyType(dict(self.splits)))

    @property
    def numeric(self) -> bool:
        """Return whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    def labelled(self, ids: np.ndarray) -> np.ndarray:
        """Return for each of the nodes `ids` whether its label is known: bool, of the shape of `ids`."""
        if self.numeric:
            known = ~np.isnan(self.labels[ids])
            return known if self.labels.ndim == 1 else known.any(axis=-1)
        return (self.labels[ids, 0] if self.labels.ndim == 2 else self.labels[ids]) != UNLABELLED

    def words(self) -> str:
        """Return what the labels are, and how many nodes each split has; or that none is known."""
        if not self.labelled(np.arange(len(self.labels))).any():
            return "none is known"
        several = ", of which a node may have several" * (self.labels.ndim == 2)
        what = f"{self.classes} class{'es' * (self.classes > 1)}{several}"
        what = numbers_in_words(self.classes) if self.numeric else what
        return f"{what}; " + ", ".join(f"{len(ids):,} {name}" for name, ids in self.splits.items())


def numbers_in_words(count: int) -> str:
    """Return what a node has, of which so many numbers are predicted."""
    return "a number of each node" if count == 1 else f"{count} numbers of each node"


def column_type(name: str) -> str:
    """Return the node type of a column's name, `TYPE.NAME`."""
    return name.rpartition(".")[0]


def schema_of(schema: Schema, name: str, classes: int) -> Schema:
    """Return the schema of a graph whose labels are those of the column `name`."""
    return replace(schema, target=column_type(name), classes=classes)


def check_name(name: str, schema: Schema, where: str) -> None:
    """Raise an InputError for the name of a column that is not `TYPE.NAME`."""
    check_text(name)
    node_type, _, label = name.rpartition(".")
    if node_type not in schema.nodes or not label:
        types = reprlib.repr(sorted(schema.nodes))
        raise InputError(
            f"{where}: column of labels {short(repr(name))}, and should be TYPE.NAME of a type among {types}"
        )


def checked(column: Column, schema: Schema, where: str, names: Names, files: Mapping[str, str]) -> Column:
    """Return labels and splits in the types that a graph has, once they are checked.

    Args:
      schema, names: with the column's type and classes as the target's.
      where, files: as of `build`.
    """
    for name in column.splits:
        if name not in SPLITS:
            raise InputError(f"{where}: split {name!r}, and the splits are {', '.join(SPLITS)}")
    splits = {
        name: _split(
            column.splits.get(name, np.empty(0, np.int32)), f"{files.get(name, where)}: split {name!r}", schema
        )
        for name in SPLITS
    }
    labels, place = np.asarray(column.labels), files.get("labels", where)
    if labels.ndim not in (1, 2):
        raise InputError(
            f"{place}: labels of shape {labels.shape}, and there should be [nodes] or [nodes, classes]; -1: not known"
        )
    if labels.dtype.kind == "f" and labels.shape[1:] == (1,):
        labels = labels[:, 0]
    if labels.ndim == 1 and (labels.dtype.kind != "f" or schema.classes > 1):
        labels = whole_numbers(labels, f"{place}: labels", "iub")
    check_values(labels, schema, place, names)  # before int8 or int32 wraps a wrong value into a right one
    dtype = np.float32 if labels.dtype.kind == "f" else np.int8 if labels.ndim == 2 else np.int32
    labels = np.ascontiguousarray(labels, dtype) if labels.ndim == 2 else np.asarray(labels, dtype)
    return Column(labels, splits, column.classes, column.names)


def _split(ids, place: str, schema: Schema) -> np.ndarray:
    ids = whole_numbers(ids, place)
    if ids.ndim != 1:
        raise InputError(f"{place}: ids of shape {ids.shape}, and there should be (ids,)")
    check_ids(ids, schema.nodes[schema.target], f"{place}: entry", schema.target)  # before int32 wraps a wrong one
    return sorted_ids(ids).astype(np.int32)


def check_values(labels: np.ndarray, schema: Schema, where: str, names: Names) -> None:
    """Raise an InputError for the first label that is wrong, of the nodes of the schema's target."""
    if labels.dtype.kind == "f":
        _check_numbers(labels, schema, where, names)
    elif labels.ndim == 2:
        _check_label_matrix(labels, schema, where, names)
    else:
        _check_label_vector(labels, schema, where, names)


def _check_numbers(labels: np.ndarray, schema: Schema, where: str, names: Names) -> None:
    count, target = schema.nodes[schema.target], schema.target
    shape = (count,) if schema.classes == 1 else (count, schema.classes)
    if labels.shape != shape:
        raise InputError(f"{where}: numbers of shape {labels.shape} != {shape} of {count} nodes of type {target!r}")
    wrong = np.argwhere(~(np.isnan(labels) | (np.abs(labels) <= np.finfo(np.float32).max)))
    if len(wrong):
        node, value = wrong[0, 0], labels[tuple(wrong[0])]
        raise InputError(f"{where}: label {value} of {target!r} {names.node(target, node)} is no float32")


def _check_label_vector(labels: np.ndarray, schema: Schema, where: str, names: Names) -> None:
    count = schema.nodes[schema.target]
    if labels.shape != (count,):
        raise InputError(f"{where}: labels of shape {labels.shape} != {count} nodes of type {schema.target!r}")
    wrong = np.flatnonzero((labels < UNLABELLED) | (labels >= schema.classes))
    if len(wrong):
        raise InputError(
            f"{where}: label {labels[wrong[0]]} of {schema.target!r} {names.node(schema.target, wrong[0])} is outside 0..{schema.classes - 1}"
        )


def _check_label_matrix(labels: np.ndarray, schema: Schema, where: str, names: Names) -> None:
    count, classes = schema.nodes[schema.target], schema.classes
    if labels.shape != (count, classes):
        raise InputError(
            f"{where}: labels of shape {labels.shape} != {count} nodes of type {schema.target!r} and {classes} classes"
        )
    if labels.dtype.kind not in "iub":
        raise InputError(f"{where}: labels [nodes, classes] are {labels.dtype}, and may be integers or bool")
    rows = max(1, 2**24 // classes)
    for start in range(0, count, rows):
        block = labels[start : start + rows]
        unknown = block == UNLABELLED
        wrong = (block < UNLABELLED) | (block > 1) | (unknown & ~unknown.all(axis=1, keepdims=True))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(
                f"{where}: label {block[row, column]} of {schema.target!r} {names.node(schema.target, start + row)} for class {column} is neither 0 nor 1, nor is its row {UNLABELLED} throughout"
            )


def check_splits(column: Column, schema: Schema, where: str, names: Names, files: Mapping[str, str] = NO_FILES) -> None:
    """Raise an InputError for an entry of a split that is no node, is there twice, or has no label."""
    target, count = schema.target, schema.nodes[schema.target]
    node = partial(names.node, target)
    owner = np.full(count, -1, np.int8)
    for number, name in enumerate(SPLITS):
        ids, place = column.splits[name], files.get(name, where)
        check_ids(ids, count, f"{place}: split {name!r}: entry", target)
        ordered = sorted_ids(ids)
        if (ordered[1:] == ordered[:-1]).any():
            values, times = np.unique(ids, return_counts=True)
            raise InputError(f"{place}: split {name!r} has {target!r} {node(values[times > 1][0])} {times.max()} times")
        unlabelled = ids[~column.labelled(ids)]
        if len(unlabelled):
            raise InputError(f"{place}: split {name!r} has {target!r} {node(unlabelled[0])}, which has no label")
        taken = ids[owner[ids] >= 0]
        if len(taken):
            raise InputError(
                f"{place}: {target!r} {node(taken[0])} is in both split {SPLITS[owner[taken[0]]]!r} and split {name!r}"
            )
        owner[ids] = number
