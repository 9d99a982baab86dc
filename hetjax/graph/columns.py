"""Named columns of labels of a graph's node types and relations, one of which a run predicts."""

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from hetjax.graph.checks import sorted_ids, whole_numbers
from hetjax.graph.label_rows import Ends, NodeRows, PairRows
from hetjax.graph.names import Ids, Names
from hetjax.graph.relation_names import find_relation
from hetjax.graph.schema import Relation, Schema, check_text
from hetjax.system.errors import InputError, short

SPLITS = ("train", "validation", "test")
UNLABELLED = -1
NO_FILES: Mapping[str, str] = MappingProxyType({})
LABEL_NAME = "label"  # of a column that nobody named


@dataclass(frozen=True)
class Column:
    """A column of labels of the nodes of one type, or of labelled pairs of nodes of one relation.

    Its name is `TYPE.NAME`; the type is what stands before the last dot. That of a relation is `RELATION.NAME`, with the
    relation's key: `user--rates--item.stars`. The pairs of a relation need not be edges of the graph, and a pair may be there
    several times.

    Attributes:
      labels, splits: as of `hetjax.graph.hetgraph.HetGraph`, of the nodes; of a relation, row i is pair i, and splits hold
        numbers of rows.
      classes: number of classes; of numbers, how many a node or a pair has.
      names: the names of the classes, or of several numbers; None: they have numbers alone.
      relation: whose pairs have the labels; None: row i is node i of the type.
      ends: source and target node ids of the pairs, int32 `[pairs]` each; None: row i is node i of the type.
    """

    labels: np.ndarray
    splits: Mapping[str, np.ndarray]
    classes: int
    names: Ids | None = None
    relation: Relation | None = None
    ends: Ends | None = None

    def __post_init__(self):
        object.__setattr__(self, "splits", MappingProxyType(dict(self.splits)))

    @property
    def numeric(self) -> bool:
        """Return whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The labels, the rows of each split, and the ends of pairs if there are any."""
        return (self.labels, *self.splits.values(), *(self.ends or ()))

    def labelled(self, ids: np.ndarray) -> np.ndarray:
        """Return for each of the rows `ids` (of nodes or pairs) whether its label is known: bool, of the shape of `ids`."""
        if self.numeric:
            known = ~np.isnan(self.labels[ids])
            return known if self.labels.ndim == 1 else known.any(axis=-1)
        return (self.labels[ids, 0] if self.labels.ndim == 2 else self.labels[ids]) != UNLABELLED

    def words(self) -> str:
        """Return what the labels are, and how many nodes or pairs each split has; or that none is known."""
        row = "node" if self.relation is None else "pair"
        pairs = "" if self.relation is None else f"{len(self.labels):,} pairs of {self.relation}: "
        if not self.labelled(np.arange(len(self.labels))).any():
            return f"{pairs}none is known"
        several = f", of which a {row} may have several" * (self.labels.ndim == 2)
        what = f"{self.classes} class{'es' * (self.classes > 1)}{several}"
        what = numbers_in_words(self.classes, row) if self.numeric else what
        return f"{pairs}{what}; " + ", ".join(f"{len(ids):,} {name}" for name, ids in self.splits.items())


def numbers_in_words(count: int, row: str = "node") -> str:
    """Return what a node, or a pair, has, of which so many numbers are predicted."""
    return f"a number of each {row}" if count == 1 else f"{count} numbers of each {row}"


def column_type(name: str) -> str:
    """Return the node type of a column's name, `TYPE.NAME`; the relation's key of a relation's."""
    return name.rpartition(".")[0]


def relation_column(name: str, relations: Iterable[Relation], where: str) -> tuple[str, Relation]:
    """Return the full name of a relation's column, `RELATION.NAME` with the relation's key, and the relation.

    Args:
      name: with any spelling of the relation (`hetjax.graph.relation_names`).

    Raises:
      InputError: there is no such relation, or it may be several; or there is no name.
    """
    text, _, label = name.rpartition(".")
    check_text(label)
    relation = find_relation(text, relations, f"{where}: column of labels {short(repr(name))}")
    if relation is None or not label:
        keys = reprlib.repr(sorted(r.key for r in relations))
        raise InputError(
            f"{where}: column of labels {short(repr(name))}, and should be RELATION.NAME of a relation among {keys}"
        )
    return f"{relation.key}.{label}", relation


def check_name(name: str, schema: Schema, where: str) -> None:
    """Raise an InputError for the name of a column that is not `TYPE.NAME`."""
    check_text(name)
    node_type, _, label = name.rpartition(".")
    if node_type not in schema.nodes or not label:
        types = reprlib.repr(sorted(schema.nodes))
        raise InputError(
            f"{where}: column of labels {short(repr(name))}, and should be TYPE.NAME of a type among {types}"
        )


def column_rows(column: Column, node_type: str, nodes: Mapping[str, int], names: Names) -> NodeRows | PairRows:
    """Return the rows of a column, for its errors.

    Args:
      node_type: of a column of nodes.
      nodes: number of nodes per type.
    """
    if column.relation is None or column.ends is None:
        return NodeRows(node_type, nodes[node_type], names)
    return PairRows(column.relation, column.ends, names)


def checked(column: Column, rows: NodeRows | PairRows, where: str, files: Mapping[str, str] = NO_FILES) -> Column:
    """Return labels and splits in the types that a graph has, once they are checked.

    Args:
      rows: of the column, whose ends are checked.
      where, files: as of `build`.
    """
    for name in column.splits:
        if name not in SPLITS:
            raise InputError(f"{where}: split {name!r}, and the splits are {', '.join(SPLITS)}")
    splits = {
        name: _split(column.splits.get(name, np.empty(0, np.int32)), f"{files.get(name, where)}: split {name!r}", rows)
        for name in SPLITS
    }
    labels, place = np.asarray(column.labels), files.get("labels", where)
    if labels.ndim not in (1, 2):
        raise InputError(
            f"{place}: labels of shape {labels.shape}, and there should be [nodes] or [nodes, classes]; -1: not known"
        )
    if labels.dtype.kind == "f" and labels.shape[1:] == (1,):
        labels = labels[:, 0]
    if labels.ndim == 1 and (labels.dtype.kind != "f" or column.classes > 1):
        labels = whole_numbers(labels, f"{place}: labels", "iub")
    check_values(labels, column.classes, rows, place)  # before int8 or int32 wraps a wrong value into a right one
    dtype = np.float32 if labels.dtype.kind == "f" else np.int8 if labels.ndim == 2 else np.int32
    labels = np.ascontiguousarray(labels, dtype) if labels.ndim == 2 else np.asarray(labels, dtype)
    return replace(column, labels=labels, splits=splits)


def _split(ids, place: str, rows: NodeRows | PairRows) -> np.ndarray:
    ids = whole_numbers(ids, place)
    if ids.ndim != 1:
        raise InputError(f"{place}: ids of shape {ids.shape}, and there should be (ids,)")
    rows.check(ids, f"{place}: entry")  # before int32 wraps a wrong one
    return sorted_ids(ids).astype(np.int32)


def check_column(column: Column, rows: NodeRows | PairRows, where: str, files: Mapping[str, str] = NO_FILES) -> None:
    """Raise an InputError for the first label, end of a pair or entry of a split that is wrong.

    Args:
      rows: of the column.
      where, files: as of `hetjax.graph.hetgraph.build`.
    """
    check_values(column.labels, column.classes, rows, files.get("labels", where))
    check_splits(column, rows, where, files)


def check_values(labels: np.ndarray, classes: int, rows: NodeRows | PairRows, where: str) -> None:
    """Raise an InputError for the first label that is wrong."""
    if labels.dtype.kind == "f":
        _check_numbers(labels, classes, rows, where)
    elif labels.ndim == 2:
        _check_label_matrix(labels, classes, rows, where)
    else:
        _check_label_vector(labels, classes, rows, where)


def _check_numbers(labels: np.ndarray, classes: int, rows: NodeRows | PairRows, where: str) -> None:
    shape = (rows.count,) if classes == 1 else (rows.count, classes)
    if labels.shape != shape:
        raise InputError(f"{where}: numbers of shape {labels.shape} != {shape} of {rows}")
    wrong = np.argwhere(~(np.isnan(labels) | (np.abs(labels) <= np.finfo(np.float32).max)))
    if len(wrong):
        value = labels[tuple(wrong[0])]
        raise InputError(f"{where}: label {value} of {rows.row(int(wrong[0, 0]))} is no float32")


def _check_label_vector(labels: np.ndarray, classes: int, rows: NodeRows | PairRows, where: str) -> None:
    if labels.shape != (rows.count,):
        raise InputError(f"{where}: labels of shape {labels.shape} != {rows}")
    wrong = np.flatnonzero((labels < UNLABELLED) | (labels >= classes))
    if len(wrong):
        raise InputError(f"{where}: label {labels[wrong[0]]} of {rows.row(wrong[0])} is outside 0..{classes - 1}")


def _check_label_matrix(labels: np.ndarray, classes: int, rows: NodeRows | PairRows, where: str) -> None:
    if labels.shape != (rows.count, classes):
        raise InputError(f"{where}: labels of shape {labels.shape} != {rows} and {classes} classes")
    if labels.dtype.kind not in "iub":
        raise InputError(f"{where}: labels [nodes, classes] are {labels.dtype}, and may be integers or bool")
    step = max(1, 2**24 // classes)
    for start in range(0, rows.count, step):
        block = labels[start : start + step]
        unknown = block == UNLABELLED
        wrong = (block < UNLABELLED) | (block > 1) | (unknown & ~unknown.all(axis=1, keepdims=True))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(
                f"{where}: label {block[row, column]} of {rows.row(start + row)} for class {column} is neither 0 nor 1, nor is its row {UNLABELLED} throughout"
            )


def check_splits(column: Column, rows: NodeRows | PairRows, where: str, files: Mapping[str, str] = NO_FILES) -> None:
    """Raise an InputError for an entry of a split that is no row, is there twice, or has no label."""
    owner = np.full(rows.count, -1, np.int8)
    for number, name in enumerate(SPLITS):
        ids, place = column.splits[name], files.get(name, where)
        rows.check(ids, f"{place}: split {name!r}: entry")
        ordered = sorted_ids(ids)
        if (ordered[1:] == ordered[:-1]).any():
            values, times = np.unique(ids, return_counts=True)
            raise InputError(f"{place}: split {name!r} has {rows.row(values[times > 1][0])} {times.max()} times")
        unlabelled = ids[~column.labelled(ids)]
        if len(unlabelled):
            raise InputError(f"{place}: split {name!r} has {rows.row(unlabelled[0])}, which has no label")
        taken = ids[owner[ids] >= 0]
        if len(taken):
            raise InputError(
                f"{place}: {rows.row(taken[0])} is in both split {SPLITS[owner[taken[0]]]!r} and split {name!r}"
            )
        owner[ids] = number
