"""Graphs of one kind of node and edge: a `HetGraph` of the node type `node` and the relation `edge`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hetjax.datasets.splits import Shipped, Split, divide
from hetjax.graph.checks import check_ids
from hetjax.graph.columns import NO_FILES, UNLABELLED, Column
from hetjax.graph.csc import as_weights
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import MOST_CLASSES, Relation, Schema
from hetjax.system.errors import InputError

NO_ARRAYS: Mapping[str, np.ndarray] = MappingProxyType({})
NODE = "node"
EDGE = Relation(NODE, "edge", NODE)
AT_ONCE = 2**16  # values, which stay in the processor's cache with what is made of them


@dataclass(frozen=True)
class Options:
    """Options of reading the arrays of a graph.

    Attributes:
      undirected: add the reverse of every edge; every edge is then there once.
      edge_weights: read weights, where there are some.
      normalize_features: `none`, or `row`: divide every node's features by their sum, as Kipf and Welling's code does.
      split: which nodes train, validate and test.
    """

    undirected: bool = True
    edge_weights: bool = True
    normalize_features: str = "none"
    split: Split = field(default_factory=Split)


class Edges(NamedTuple):
    """Integer ids `[edges]` of both ends, and numbers `[edges]` where they have weights."""

    source: np.ndarray
    target: np.ndarray
    weights: np.ndarray | None = None


def names_of(ids: Sequence | None, classes: Sequence | None) -> Names:
    """Return the names in a graph's files, of which there may be none."""
    return Names({} if ids is None else {NODE: Ids(ids)}, None if classes is None else Ids(classes))


def assemble(
    edges: Edges,
    features: np.ndarray | None,
    labels: np.ndarray,
    shipped: Shipped,
    options: Options,
    where: str,
    names: Names | None = None,
    files: Mapping[str, str] = NO_FILES,
    others: Mapping[str, np.ndarray] = NO_ARRAYS,
) -> HetGraph:
    """Return a graph of arrays, which are not trusted.

    Args:
      edges: as they were read.
      features: numbers `[nodes, width]`, or None: a model learns them.
      labels: `[nodes]`, as `hetjax.casts.labels.as_labels` reads them; or 0 and 1 `[nodes, classes]`, with rows of -1.
      shipped: the splits that came with them.
      options: what is made of them.
      where: the file or folder to name in an error.
      names: of the nodes and of the classes; there may be names of more classes than have labels.
      files: as of `hetgraph.build`.
      others: further columns of labels by their names, as `labels`, or floats: numbers to predict. They have the same splits, as far as
        their labels are known.

    Raises:
      InputError: for the first thing that is wrong.
    """
    from hetjax.casts.labels import as_labels  # takes a while, as pyarrow does

    named = len(names.classes) if names and names.classes is not None else 0
    label_file = files.get("labels", f"{where}: labels")
    labels, class_names = as_labels(labels, label_file)
    if class_names is not None and not named:
        names, named = replace(names or Names(), classes=class_names), len(class_names)
    classes = _classes(labels, named, label_file)
    if not 1 <= classes <= MOST_CLASSES:
        raise InputError(f"{label_file}: labels of {classes} classes, outside 1..{MOST_CLASSES}")
    schema = Schema({NODE: len(labels)}, (EDGE,), NODE, classes)
    ends = _edges(edges, len(labels), options, where)
    matrices = {} if features is None else {NODE: _features(features, options, files.get("features", where))}
    splits = divide(labels, options.split, shipped, where)
    columns = {f"{NODE}.{name}": _column(values, splits, f"{where}: {NODE}.{name}") for name, values in others.items()}
    return build(schema, {EDGE: ends}, matrices, labels, splits, where, names, files, columns)


def _column(values: np.ndarray, splits: Mapping[str, np.ndarray], where: str) -> Column:
    """Return a further column of labels, with the splits of the first as far as its labels are known."""
    from hetjax.casts.labels import as_labels  # takes a while, as pyarrow does
    from hetjax.casts.numbers import as_targets

    numeric = values.dtype.kind == "f" and values.ndim == 1
    labels, names = (as_targets(values, where), None) if numeric else as_labels(values, where)
    classes = 1 if numeric else _classes(labels, len(names or ()), where)
    column = Column(labels, {}, classes, names)
    known = {split: ids[ids < len(labels)] for split, ids in splits.items()}  # of another length is an error of `build`
    return replace(column, splits={split: ids[column.labelled(ids)] for split, ids in known.items()})


def _classes(labels: np.ndarray, named: int, where: str) -> int:
    """Return the number of classes, of which there are no more than nodes, or than have a name."""
    if labels.ndim == 2:
        return labels.shape[1]
    most = int(labels.max(initial=UNLABELLED))
    if most < 0:
        raise InputError(f"{where}: {len(labels)} nodes, and none has a label")
    if most >= max(len(labels), named):
        limit = f"{named} names of classes" if named > len(labels) else f"{len(labels)} nodes"
        raise InputError(f"{where}: label {most} of node {np.argmax(labels)}: {most + 1} classes > {limit}")
    return max(most + 1, named)


def _edges(edges: Edges, nodes: int, options: Options, where: str) -> tuple[np.ndarray, ...]:
    """Return edges as `build` takes them, with reverses if asked for; weights that are all 1 are left out."""
    from hetjax.casts import numbers  # takes a while, as pyarrow does

    check_some(edges, nodes, where)
    for side, ids in zip(("source", "target"), edges):
        assert ids is not None  # of the ends alone
        check_ids(ids, nodes, f"{where}: {side} of edge", NODE)
    source, target = (np.asarray(ids, np.int32) for ids in edges[:2])
    weights = edges.weights if options.edge_weights else None
    if weights is not None:
        weights = as_weights(numbers.as_weights(weights, f"{where}: weights"), len(source), where)
        weights = None if (weights == 1).all() else weights
    if options.undirected:
        source, target, weights = undirected(Edges(source, target, weights), nodes)
    return (source, target) if weights is None else (source, target, weights)


def check_some(edges: Edges, nodes: int, place: str | Path) -> None:
    """Raise an InputError where there is no edge."""
    if not len(edges.source):
        raise InputError(f"{place}: 0 edges between {nodes} nodes, and there should be 1 or more")


def undirected(edges: Edges, nodes: int) -> Edges:
    """Return the edges and their reverses, each once, sorted by target and source.

    An edge that is given keeps its weight, the first if it is given more than once; a reverse that is not has its edge's.
    """
    source, target, weights = edges
    both = np.concatenate([source, target]), np.concatenate([target, source])
    kept = np.unique(both[1] * np.int64(nodes) + both[0], return_index=True)[1]  # of each the first
    return Edges(both[0][kept], both[1][kept], None if weights is None else weights[kept % len(source)])


def _features(matrix: np.ndarray, options: Options, where: str) -> np.ndarray:
    """Return features `[nodes, width]` of the smallest type that is exact, or divided by the sums of rows."""
    from hetjax.casts.numbers import narrowed  # takes a while, as pyarrow does

    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"{where}: features are {matrix.dtype} {matrix.shape}, and should be numbers (nodes, width)")
    if options.normalize_features == "row":
        return _normalised(matrix)
    return narrowed(matrix, f"{where}: features")


def _normalised(matrix: np.ndarray) -> np.ndarray:
    """Return every row divided by its sum; where that is 0 the row is zeros."""
    result = np.empty(matrix.shape, np.float32)
    rows = max(1, AT_ONCE // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        chunk = matrix[start : start + rows]
        sums = chunk.sum(axis=1, dtype=np.float64, keepdims=True)
        with np.errstate(all="ignore"):  # what is not finite is refused
            result[start : start + rows] = chunk * np.where(sums == 0, 0, 1 / sums)
    return result
