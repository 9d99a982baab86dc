"""A heterogeneous graph in memory (or mapped into it): immutable once built, checked when built."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from hetjax.graph import csc as csc_format
from hetjax.graph.csc import CSC
from hetjax.graph.names import Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError

SPLITS = ("train", "validation", "test")
NO_FILES: Mapping[str, str] = MappingProxyType({})
UNLABELLED = -1
FEATURE_TYPES = tuple(
    map(np.dtype, ("float32", "float16", "int8", "uint8", "int16", "uint16", "bool"))
)  # exact in float32


@dataclass(frozen=True, repr=False)
class HetGraph:
    """One CSC per relation, one feature matrix per node type that has any, labels and splits of the target type.

    Attributes:
      schema: node types, relations, target.
      relations: the edges of every relation of the schema; an empty relation has a CSC without indices.
      features: matrix of numbers `[nodes, width]` per node type, each of its own width and dtype; a type that is absent has
        none, and a model learns its features.
      labels: int32 `[nodes of the target type]`, class ids, `-1` where there is no label; or, where a node may have several
        labels, int8 `[nodes of the target type, classes]`, 1 for each that it has and 0 for the others, a row of `-1` where
        nothing is known. A row of zeros is a node known to have no label, and counts as labelled. Or numbers, float32
        `[nodes of the target type]`, NaN where one is not known; there is one class then.
      splits: for each of `train`, `validation`, `test` the ids of labelled target nodes; int32, sorted, disjoint.
      names: the users' own ids of the nodes, and the names of the classes, where they are known.
    """

    schema: Schema
    relations: Mapping[Relation, CSC]
    features: Mapping[str, np.ndarray]
    labels: np.ndarray
    splits: Mapping[str, np.ndarray]
    names: Names = field(default_factory=Names)

    def __post_init__(self):
        for name in ("relations", "features", "splits"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for array in self.arrays():
            array.flags.writeable = False

    def __repr__(self) -> str:
        return "\n".join(["HetGraph", *self.lines()])

    def lines(self) -> Iterator[str]:
        """Node types, relations and splits in words, a line each."""
        for node_type, count in self.schema.nodes.items():
            matrix = self.features.get(node_type)
            has = (
                "no features: they are learned" if matrix is None else f"features {matrix.dtype} {matrix.shape[1]} wide"
            )
            aim = (
                f", the target: {self.schema.classes} classes" + ", of which a node may have several" * self.multilabel
            )
            aim = ", the target: a number of each node" if self.numeric else aim
            yield f"  {node_type}: {count:,} nodes, {has}{aim if node_type == self.schema.target else ''}"
        for relation, csc in self.relations.items():
            yield f"  {relation}: {csc.edges:,} edges" + ", with weights" * (csc.weights is not None)
        splits = ", ".join(f"{len(ids):,} {name}" for name, ids in self.splits.items())
        known = int(self.labelled(np.arange(len(self.labels))).sum())
        yield f"  splits of {self.schema.target}: {splits}; {known:,} of {len(self.labels):,} have a label"

    def arrays(self) -> Iterator[np.ndarray]:
        """Every array of the graph."""
        for csc in self.relations.values():
            yield from csc.arrays.values()
        yield from self.features.values()
        yield self.labels
        yield from self.splits.values()

    @property
    def multilabel(self) -> bool:
        """Whether a node may have several labels."""
        return self.labels.ndim == 2

    @property
    def numeric(self) -> bool:
        """True if labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    def labelled(self, ids: np.ndarray) -> np.ndarray:
        """For each of the target nodes `ids`, whether its label is known: bool, of the shape of `ids`."""
        if self.numeric:
            return ~np.isnan(self.labels[ids])
        return (self.labels[ids, 0] if self.multilabel else self.labels[ids]) != UNLABELLED

    def only(self, relations: Sequence[Relation]) -> "HetGraph":
        """The same graph with the edges of some relations alone; nothing is copied.

        Raises:
          InputError: a relation that the graph does not have.
        """
        for relation in relations:
            if relation not in self.relations:
                known = ", ".join(map(str, self.relations))
                raise InputError(f"relation {Relation(*relation)} is not one of the graph's: {known}")
        chosen = {relation: csc for relation, csc in self.relations.items() if relation in relations}
        return replace(self, schema=replace(self.schema, relations=tuple(chosen)), relations=chosen)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())

    @property
    def edges(self) -> int:
        return sum(csc.edges for csc in self.relations.values())


def build(
    schema: Schema,
    edges: Mapping[Relation, tuple[np.ndarray, ...] | CSC],
    features: Mapping[str, np.ndarray],
    labels: np.ndarray,
    splits: Mapping[str, np.ndarray],
    where: str = "graph",
    names: Names | None = None,
    files: Mapping[str, str] = NO_FILES,
) -> HetGraph:
    """Build a graph from edge lists, and check it.

    Args:
      schema: what the graph is to contain.
      edges: `(source ids, target ids)` or `(source ids, target ids, weights)` per relation of the schema, all of them. They are
        asked for one relation at a time, and not kept: a mapping that reads them when asked needs no memory for all of them
        at once. Weights are finite numbers, kept as float32. What is a `CSC` already is taken as it is.
      features, labels, splits: as in `HetGraph`; labels `[nodes, classes]` may be of any integer type or bool, splits need
        not be sorted, and one that is absent is empty.
      where: the file or folder to name in an error.
      names: as in `HetGraph`.
      files: what an error of `labels`, `features` or a split names instead, where these lie in a file of their own.

    Raises:
      InputError: for the first thing that is wrong, with its place and both values.
    """
    empty = np.empty(0, np.int32)
    for relation in set(edges) - set(schema.relations):
        raise InputError(f"{where}: edges of relation {relation}, which the schema does not have")
    for relation in schema.relations:
        if relation not in edges:
            raise InputError(
                f"{where}: relation {relation} has no edge lists; where there are no edges, give two empty arrays"
            )
    relations = {r: _grouped(edges[r], r, schema, where) for r in schema.relations}
    for name in splits:
        if name not in SPLITS:
            raise InputError(f"{where}: split {name!r}, and the splits are {', '.join(SPLITS)}")
    splits = {
        name: _split(splits.get(name, empty), f"{files.get(name, where)}: split {name!r}", schema) for name in SPLITS
    }
    features = {name: np.asanyarray(matrix) for name, matrix in features.items()}
    labels, place = np.asarray(labels), files.get("labels", where)
    if labels.ndim not in (1, 2):
        raise InputError(
            f"{place}: labels of shape {labels.shape}, and there should be [nodes] or [nodes, classes]; -1: not known"
        )
    if labels.ndim == 1 and (labels.dtype.kind != "f" or schema.classes > 1):
        labels = _whole(labels, f"{place}: labels", "iub")
    check_values = _label_check(labels)
    names = names or Names()
    names.check(schema, where)
    check_values(labels, schema, place, names)  # before int8 or int32 wraps a wrong value into a right one
    numbers = np.float32 if labels.dtype.kind == "f" else np.int32
    labels = np.ascontiguousarray(labels, np.int8) if labels.ndim == 2 else np.asarray(labels, numbers)
    graph = HetGraph(schema, relations, features, labels, splits, names)
    check(graph, where, sorted_edges=True, files=files)
    return graph


def _grouped(ends: tuple[np.ndarray, ...] | CSC, relation: Relation, schema: Schema, where: str) -> CSC:
    """A relation's edges by target, once they are checked."""
    place = f"{where}: relation {relation}"
    if isinstance(ends, CSC):
        if ends.piece or ends.loops:
            raise InputError(
                f"{place}: {'a piece' if ends.piece else 'loops'} of a graph, and there should be its own edges, all of them"
            )
        indptr, indices = (_whole(getattr(ends, name), f"{place}: {name}") for name in ("indptr", "indices"))
        if indptr.ndim != 1 or indices.ndim != 1:
            raise InputError(
                f"{place}: indptr and indices of shapes {indptr.shape} and {indices.shape}, and there should be one dimension each"
            )
        ends = ends._replace(indptr=indptr, indices=indices)
        check_csc(ends, relation, schema, where)
        dtype = csc_format.index_dtype(schema.nodes[relation.source])
        return ends._replace(indptr=indptr.astype(np.int64, copy=False), indices=indices.astype(dtype, copy=False))
    if len(ends) not in (2, 3):
        raise InputError(f"{place}: {len(ends)} arrays, and there should be source and target ids, and weights if any")
    source, target = (_whole(ids, f"{place}: {side} ids") for side, ids in zip(("source", "target"), ends))
    if len(source) != len(target):
        raise InputError(f"{place}: {len(source)} source ids != {len(target)} target ids")
    for side, ids, node_type in (("source", source, relation.source), ("target", target, relation.target)):
        check_ids(ids, schema.nodes[node_type], f"{place}: {side} of edge", node_type)
    weights = csc_format.as_weights(ends[2], len(source), place) if len(ends) == 3 else None
    return csc_format.from_edges(source, target, schema.nodes[relation.source], schema.nodes[relation.target], weights)


def _whole(values, place: str, kinds: str = "iu") -> np.ndarray:
    """An array of whole numbers, or an InputError; of none any type will do."""
    values = np.asarray(values)
    if values.size and values.dtype.kind not in kinds:
        hint = ": give the ids where it is true (numpy.flatnonzero)" if values.dtype == bool else ""
        raise InputError(f"{place}: {values.dtype}, and there should be integers{hint}")
    return values.astype(values.dtype.newbyteorder("="), copy=False)  # numba takes no other


def _split(ids, place: str, schema: Schema) -> np.ndarray:
    ids = _whole(ids, place)
    if ids.ndim != 1:
        raise InputError(f"{place}: ids of shape {ids.shape}, and there should be (ids,)")
    check_ids(ids, schema.nodes[schema.target], f"{place}: entry", schema.target)  # before int32 wraps a wrong one
    return _sorted(ids).astype(np.int32)


def _sorted(ids: np.ndarray) -> np.ndarray:
    return ids if (ids[1:] >= ids[:-1]).all() else np.sort(ids)


def check_ids(ids: np.ndarray, count: int, place: str, node_type: str) -> None:
    """Raise an InputError naming the first id outside `0..count - 1`."""
    if len(ids) and (ids.min() < 0 or ids.max() >= count):
        position = int(np.argmax((ids < 0) | (ids >= count)))
        raise InputError(f"{place} {position} is node {int(ids[position])}, but type {node_type!r} has {count} nodes")


def check(
    graph: HetGraph, where: str = "graph", sorted_edges: bool = False, files: Mapping[str, str] = NO_FILES
) -> None:
    """Read the whole graph once and raise an InputError for the first thing that is wrong.

    Args:
      graph: what is to be checked.
      where: the file or folder to name in an error.
      sorted_edges: the edges were just sorted by `build`, and need no second look.
      files: as of `build`.
    """
    schema = graph.schema
    if not sorted_edges:
        for relation, csc in graph.relations.items():
            check_csc(csc, relation, schema, where)
    for node_type, matrix in graph.features.items():
        _check_features(matrix, node_type, graph, files.get("features", where))
    check_labels(graph, where, files)


def check_labels(graph: HetGraph, where: str = "graph", files: Mapping[str, str] = NO_FILES) -> None:
    """Raise an InputError for the first label or entry of a split that is wrong."""
    check_values = _label_check(graph.labels)
    check_values(graph.labels, graph.schema, files.get("labels", where), graph.names)
    _check_splits(graph, where, files)


def _label_check(labels: np.ndarray) -> Callable[[np.ndarray, Schema, str, Names], None]:
    """Return what checks labels of this form."""
    if labels.ndim == 2:
        return _check_label_matrix
    return _check_numbers if labels.dtype.kind == "f" else _check_label_vector


def _check_numbers(labels: np.ndarray, schema: Schema, where: str, names: Names) -> None:
    count, target = schema.nodes[schema.target], schema.target
    if labels.shape != (count,) or schema.classes != 1:
        raise InputError(
            f"{where}: {len(labels)} numbers of {schema.classes} classes != {count} nodes of type {target!r}, and 1"
        )
    wrong = np.flatnonzero(~(np.isnan(labels) | (np.abs(labels) <= np.finfo(np.float32).max)))
    if len(wrong):
        raise InputError(
            f"{where}: label {labels[wrong[0]]} of {target!r} {names.node(target, wrong[0])} is no float32"
        )


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


def check_csc(csc: CSC, relation: Relation, schema: Schema, where: str = "graph") -> None:
    """Raise an InputError for the first pointer, source id or weight of a relation that is wrong."""
    targets = schema.nodes[relation.target]
    held = int(csc.indptr[-1]) if len(csc.indptr) else 0
    held = csc.piece.edges(held) if csc.piece else held
    if csc.indptr.shape != (targets + 1,) or csc.indptr[0] != 0 or held != csc.edges:
        ends = f"{csc.indptr[0]}..{csc.indptr[-1]}" if len(csc.indptr) else "nothing"
        raise InputError(
            f"{where}: relation {relation}: pointers {ends} of {len(csc.indptr)} != 0..{csc.edges} of {targets + 1}"
        )
    falls = csc.indptr[1:] < csc.indptr[:-1]
    if falls.any():
        raise InputError(f"{where}: relation {relation}: pointers fall after target {int(np.argmax(falls))}")
    check_ids(
        csc.indices, schema.nodes[relation.source], f"{where}: relation {relation}: source of edge", relation.source
    )
    if csc.weights is not None:
        place = f"{where}: relation {relation}"
        if csc.weights.dtype != np.float32 or csc.weights.shape != csc.indices.shape:
            found = f"{csc.weights.dtype} {csc.weights.shape}"
            raise InputError(f"{place}: weights are {found} != float32 {csc.indices.shape} of the edges")
        csc_format.check_weights(csc.weights, place)


def _check_features(matrix: np.ndarray, node_type: str, graph: HetGraph, where: str) -> None:
    schema = graph.schema
    if node_type not in schema.nodes:
        raise InputError(
            f"{where}: features of {node_type!r}, which is not among the node types {sorted(schema.nodes)}"
        )
    count = schema.nodes[node_type]
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise InputError(
            f"{where}: features of type {node_type!r} have shape {matrix.shape}, and should have [nodes, width], of a width of 1 or more"
        )
    if len(matrix) != count:
        raise InputError(f"{where}: feature rows {len(matrix)} != {count} nodes of type {node_type!r}")
    if matrix.dtype not in FEATURE_TYPES:
        raise InputError(
            f"{where}: features of type {node_type!r} are {matrix.dtype}, and may be {', '.join(map(str, FEATURE_TYPES))}"
        )
    rows = max(1, 2**24 // matrix.shape[1])
    for start in range(0, count, rows):
        finite = np.isfinite(matrix[start : start + rows])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            value = matrix[start + row, column]
            raise InputError(
                f"{where}: feature {column} of {node_type!r} {graph.names.node(node_type, start + row)} is {value}, not a finite number"
            )


def _check_splits(graph: HetGraph, where: str, files: Mapping[str, str]) -> None:
    target, count = graph.schema.target, graph.schema.nodes[graph.schema.target]
    node = partial(graph.names.node, target)
    owner = np.full(count, -1, np.int8)
    for number, name in enumerate(SPLITS):
        ids, place = graph.splits[name], files.get(name, where)
        check_ids(ids, count, f"{place}: split {name!r}: entry", target)
        ordered = _sorted(ids)
        if (ordered[1:] == ordered[:-1]).any():
            values, times = np.unique(ids, return_counts=True)
            raise InputError(f"{place}: split {name!r} has {target!r} {node(values[times > 1][0])} {times.max()} times")
        unlabelled = ids[~graph.labelled(ids)]
        if len(unlabelled):
            raise InputError(f"{place}: split {name!r} has {target!r} {node(unlabelled[0])}, which has no label")
        taken = ids[owner[ids] >= 0]
        if len(taken):
            raise InputError(
                f"{place}: {target!r} {node(taken[0])} is in both split {SPLITS[owner[taken[0]]]!r} and split {name!r}"
            )
        owner[ids] = number
