"""A heterogeneous graph in memory (or mapped into it): immutable once built, checked when built."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from hetjax.graph import csc as csc_format
from hetjax.graph.checks import check_csc, check_features, check_ids, whole_numbers
from hetjax.graph.columns import (
    LABEL_NAME,
    NO_FILES,
    Column,
    check_name,
    check_splits,
    check_values,
    checked,
    column_type,
    schema_of,
)
from hetjax.graph.csc import CSC
from hetjax.graph.names import Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError, nearest, short

NO_COLUMNS: Mapping[str, Column] = MappingProxyType({})


@dataclass(frozen=True, repr=False)
class HetGraph:
    """One CSC per relation, one feature matrix per node type that has any, labels and splits of the target type.

    Attributes:
      schema: node types, relations, target.
      relations: the edges of every relation of the schema; an empty relation has a CSC without indices.
      features: matrix of values `[nodes, width]` per node type, each of its own width and dtype; a type that is absent has
        none, and a model learns its features.
      labels: int32 `[nodes of the target type]`, class ids, `-1` where there is no label; or, where a node may have several
        labels, int8 `[nodes of the target type, classes]`, 1 for each that it has and 0 for the others, a row of `-1` where
        nothing is known. A row of zeros is a node known to have no label, and counts as labelled. Or numbers, float32
        `[nodes of the target type]`, NaN where one is not known; there is one class then.
      splits: for each of `train`, `validation`, `test` the ids of labelled target nodes; int32, sorted, disjoint.
      names: the users' own ids of the nodes, and the names of the classes, where they are known.
      label_name: the name of the column of labels, without its type.
      columns: other columns of labels by `TYPE.NAME`; `with_target` makes one of them the labels.
      held_out: whether the validation nodes were training nodes, and were held out when the graph was read.
    """

    schema: Schema
    relations: Mapping[Relation, CSC]
    features: Mapping[str, np.ndarray]
    labels: np.ndarray
    splits: Mapping[str, np.ndarray]
    names: Names = field(default_factory=Names)
    label_name: str = LABEL_NAME
    columns: Mapping[str, Column] = field(default_factory=dict)
    held_out: bool = False

    def __post_init__(self):
        for name in ("relations", "features", "splits", "columns"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for array in self.arrays():
            array.flags.writeable = False

    def __repr__(self) -> str:
        return "\n".join(["HetGraph", *self.lines()])

    def lines(self) -> Iterator[str]:
        """Yield node types, relations and splits in words, a line each."""
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
        for name, column in self.columns.items():
            yield f"  {name}: {column.words()}"

    def arrays(self) -> Iterator[np.ndarray]:
        """Yield every array of the graph."""
        for csc in self.relations.values():
            yield from csc.arrays.values()
        yield from self.features.values()
        yield self.labels
        yield from self.splits.values()
        for column in self.columns.values():
            yield from (column.labels, *column.splits.values())

    @property
    def target(self) -> str:
        """The name of the column of labels, `TYPE.NAME`."""
        return f"{self.schema.target}.{self.label_name}"

    @property
    def own_column(self) -> Column:
        """The labels and splits as a column."""
        return Column(self.labels, self.splits, self.schema.classes, self.names.classes)

    def with_target(self, name: str) -> "HetGraph":
        """Return the same graph with another column as its labels, and today's among its `columns`; nothing is copied.

        Args:
          name: `TYPE.NAME`; a type alone names its one column; empty: the graph as it is.

        Raises:
          InputError: there is no such column, or a type has several.
        """
        if name in ("", self.target):
            return self
        known = [self.target, *self.columns]
        found = [name] if name in known else [column for column in known if column_type(column) == name]
        if not found:
            raise InputError(f"task.target is {short(repr(name))}, and no column of labels{nearest(name, known)}")
        if len(found) > 1:
            raise InputError(f"task.target is {name!r}, whose columns of labels are {', '.join(found)}: name one")
        (name,) = found
        if name == self.target:
            return self
        column, node_type = self.columns[name], column_type(name)
        return replace(
            self,
            schema=schema_of(self.schema, name, column.classes),
            labels=column.labels,
            splits=column.splits,
            names=replace(self.names, classes=column.names),
            label_name=name.removeprefix(f"{node_type}."),
            held_out=False,
            columns={key: one for key, one in self.columns.items() if key != name} | {self.target: self.own_column},
        )

    @property
    def multilabel(self) -> bool:
        """Return whether a node may have several labels."""
        return self.labels.ndim == 2

    @property
    def numeric(self) -> bool:
        """Return whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    def labelled(self, ids: np.ndarray) -> np.ndarray:
        """Return for each of the target nodes `ids` whether its label is known: bool, of the shape of `ids`."""
        return self.own_column.labelled(ids)

    def only(self, relations: Sequence[Relation]) -> "HetGraph":
        """Return the same graph with the edges of some relations alone; nothing is copied.

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
    columns: Mapping[str, Column] = NO_COLUMNS,
    label_name: str = LABEL_NAME,
) -> HetGraph:
    """Build a graph from edge lists, and check it.

    Args:
      schema: what the graph is to contain.
      edges: `(source ids, target ids)` or `(source ids, target ids, weights)` per relation of the schema, all of them. They are
        asked for one relation at a time, and not kept: a mapping that reads them when asked needs no memory for all of them
        at once. Weights are finite numbers, kept as float32. A `CSC` is taken unchanged.
      features, labels, splits: as in `HetGraph`; labels `[nodes, classes]` may be of any integer type or bool, splits need
        not be sorted, and one that is absent is empty.
      where: the file or folder to name in an error.
      names: as in `HetGraph`.
      files: what an error of `labels`, `features` or a split names instead, where these lie in a file of their own.
      columns, label_name: as in `HetGraph`; the arrays of a column may be of the types that `labels` and `splits` may be of.

    Raises:
      InputError: for the first thing that is wrong, with its place and both values.
    """
    for relation in set(edges) - set(schema.relations):
        raise InputError(f"{where}: edges of relation {relation}, which the schema does not have")
    for relation in schema.relations:
        if relation not in edges:
            raise InputError(
                f"{where}: relation {relation} has no edge lists; where there are no edges, give two empty arrays"
            )
    relations = {r: _grouped(edges[r], r, schema, where) for r in schema.relations}
    names = names or Names()
    names.check(schema, where)
    features = {name: np.asanyarray(matrix) for name, matrix in features.items()}
    own = Column(labels, splits, schema.classes, names.classes)
    own = checked(own, schema, where, names, files)
    check_name(f"{schema.target}.{label_name}", schema, where)
    if f"{schema.target}.{label_name}" in columns:
        raise InputError(f"{where}: two columns of labels are called {schema.target}.{label_name}")
    made = {}
    for name, column in columns.items():
        check_name(name, schema, where)
        place, its_names = f"{where}: {name}", replace(names, classes=column.names)
        its_schema = schema_of(schema, name, column.classes)
        its_names.check(its_schema, place)
        made[name] = checked(column, its_schema, place, its_names, NO_FILES)
    graph = HetGraph(schema, relations, features, own.labels, own.splits, names, label_name, made)
    check(graph, where, sorted_edges=True, files=files)
    return graph


def _grouped(ends: tuple[np.ndarray, ...] | CSC, relation: Relation, schema: Schema, where: str) -> CSC:
    """Return a relation's edges by target, once they are checked."""
    place = f"{where}: relation {relation}"
    if isinstance(ends, CSC):
        if ends.piece or ends.loops:
            raise InputError(
                f"{place}: {'a piece' if ends.piece else 'loops'} of a graph, and there should be its own edges, all of them"
            )
        indptr, indices = (whole_numbers(getattr(ends, name), f"{place}: {name}") for name in ("indptr", "indices"))
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
    source, target = (whole_numbers(ids, f"{place}: {side} ids") for side, ids in zip(("source", "target"), ends))
    if len(source) != len(target):
        raise InputError(f"{place}: {len(source)} source ids != {len(target)} target ids")
    for side, ids, node_type in (("source", source, relation.source), ("target", target, relation.target)):
        check_ids(ids, schema.nodes[node_type], f"{place}: {side} of edge", node_type)
    weights = csc_format.as_weights(ends[2], len(source), place) if len(ends) == 3 else None
    return csc_format.from_edges(source, target, schema.nodes[relation.source], schema.nodes[relation.target], weights)


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
        check_features(matrix, node_type, schema, graph.names, files.get("features", where))
    check_labels(graph, where, files)


def check_labels(graph: HetGraph, where: str = "graph", files: Mapping[str, str] = NO_FILES) -> None:
    """Raise an InputError for the first label or entry of a split that is wrong, of the graph's labels and of its other columns."""
    check_values(graph.labels, graph.schema, files.get("labels", where), graph.names)
    check_splits(graph.own_column, graph.schema, where, graph.names, files)
    for name in graph.columns:
        check_labels(replace(graph.with_target(name), columns={}), f"{where}: {name}")
