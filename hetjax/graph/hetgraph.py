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
    check_column,
    check_name,
    checked,
    column_rows,
    column_type,
    numbers_in_words,
    relation_column,
)
from hetjax.graph.csc import CSC
from hetjax.graph.label_rows import Ends, checked_ends
from hetjax.graph.names import Names
from hetjax.graph.relation_names import find_relation
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
        `[nodes of the target type]`, or `[nodes of the target type, classes]` where a node has several, NaN where one is not
        known; a node is labelled if one of its numbers is.
      splits: for each of `train`, `validation`, `test` the ids of labelled target nodes; int32, sorted, disjoint.
      names: the users' own ids of the nodes, and the names of the classes, where they are known.
      label_name: the name of the column of labels, without its type.
      relation, ends: of labels of pairs, as of `Column`: row i of the labels is pair i, splits hold numbers of pairs, and the schema's
        target is the relation's source type. None: labels are of the nodes of the target type.
      columns: other columns of labels, by `TYPE.NAME` of nodes and by `RELATION.NAME` of labelled pairs; `with_target` makes one
        the labels, `column` gives any.
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
    relation: Relation | None = None
    ends: Ends | None = None
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
        known = int(self.labelled(np.arange(len(self.labels))).sum())
        unused = not known and any(column.relation is not None for column in self.columns.values())
        for node_type, count in self.schema.nodes.items():
            matrix = self.features.get(node_type)
            has = (
                "no features: they are learned" if matrix is None else f"features {matrix.dtype} {matrix.shape[1]} wide"
            )
            aim = (
                f", the target: {self.schema.classes} classes" + ", of which a node may have several" * self.multilabel
            )
            aim = f", the target: {numbers_in_words(self.schema.classes)}" if self.numeric else aim
            aimed = node_type == self.schema.target and not unused and self.relation is None
            yield f"  {node_type}: {count:,} nodes, {has}{aim if aimed else ''}"
        for relation, csc in self.relations.items():
            yield f"  {relation}: {csc.edges:,} edges" + ", with weights" * (csc.weights is not None)
        splits = ", ".join(f"{len(ids):,} {name}" for name, ids in self.splits.items())
        if not unused:
            yield f"  splits of {self.schema.target}: {splits}; {known:,} of {len(self.labels):,} have a label"
        for name, column in self.columns.items():
            yield f"  {name}: {column.words()}"

    def arrays(self) -> Iterator[np.ndarray]:
        """Yield every array of the graph."""
        for csc in self.relations.values():
            yield from csc.arrays.values()
        yield from self.features.values()
        for column in (self.own_column, *self.columns.values()):
            yield from column.arrays

    @property
    def target(self) -> str:
        """The name of the column of labels, `TYPE.NAME`, or `RELATION.NAME` with the relation's key."""
        return f"{self.relation.key if self.relation else self.schema.target}.{self.label_name}"

    @property
    def own_column(self) -> Column:
        """The labels and splits as a column."""
        return Column(self.labels, self.splits, self.schema.classes, self.names.classes, self.relation, self.ends)

    def row_name(self, row: int) -> str:
        """Return how an error names a row of the labels: a node, or a pair of nodes."""
        if self.relation is None or self.ends is None:
            return f"{self.schema.target} {self.names.node(self.schema.target, row)}"
        source, target = (self.names.node(t, ids[row]) for t, ids in zip(self.target_types, self.ends))
        return f"the pair of {source} and {target} of {self.relation}"

    @property
    def target_types(self) -> tuple[str, ...]:
        """The types of the nodes that labels are of: the target, or those of a relation's ends."""
        return (self.schema.target,) if self.relation is None else (self.relation.source, self.relation.target)

    def nodes_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the distinct nodes of some rows of the labels, int32 per node type, rising."""
        if self.relation is None or self.ends is None:
            return {self.schema.target: np.unique(rows).astype(np.int32)}
        types = self.target_types
        parts = {t: [ids[rows] for of, ids in zip(types, self.ends) if of == t] for t in types}
        return {t: np.unique(np.concatenate(ids)).astype(np.int32) for t, ids in parts.items()}

    def column(self, name: str, what: str = "the column") -> Column:
        """Return a column of labels, the graph's own or another.

        Args:
          name: `TYPE.NAME` or `RELATION.NAME`, with any spelling of the relation (`hetjax.graph.relation_names`); a type or a
            relation alone names its one column.
          what: the name, for an error.

        Raises:
          InputError: there is no such column, or the type or relation has several.
        """
        name = self.column_name(name, what)
        return self.own_column if name == self.target else self.columns[name]

    def column_name(self, name: str, what: str = "the column") -> str:
        """Return the full name of the column that `column` gives."""
        known = [self.target, *self.columns]
        owners = {one.relation for one in self.columns.values() if one.relation is not None}
        found = [name] if name in known else [full for full in known if column_type(full) == name]
        text, _, label = name.rpartition(".")
        for owner, end in () if found else ((name, ""), (text, label)):
            relation = find_relation(owner, owners, f"{what} is {short(repr(name))}: relation")
            keys = [f"{relation.key}.{end}"] if relation and end else []
            keys = keys or [full for full, one in self.columns.items() if relation and one.relation == relation]
            found = found or [full for full in keys if full in known]
        if not found:
            raise InputError(f"{what} is {short(repr(name))}, and no column of labels{nearest(name, known)}")
        if len(found) > 1:
            raise InputError(f"{what} is {name!r}, whose columns of labels are {', '.join(found)}: name one")
        return found[0]

    def with_target(self, name: str) -> "HetGraph":
        """Return the same graph with another column as its labels, and today's among its `columns`; nothing is copied.

        Args:
          name: `TYPE.NAME`; a type alone names its one column; empty: the graph as it is.

        Raises:
          InputError: there is no such column, or a type or relation has several.
        """
        if name in ("", self.target):
            return self
        name = self.column_name(name, "task.target")
        if name == self.target:
            return self
        column, owner = self.columns[name], column_type(name)
        target = column.relation.source if column.relation else owner
        return replace(
            self,
            schema=replace(self.schema, target=target, classes=column.classes),
            labels=column.labels,
            splits=column.splits,
            relation=column.relation,
            ends=column.ends,
            names=replace(self.names, classes=column.names),
            label_name=name.removeprefix(f"{owner}."),
            held_out=False,
            columns={key: one for key, one in self.columns.items() if key != name} | {self.target: self.own_column},
        )

    @property
    def multilabel(self) -> bool:
        """Return whether a node may have several labels."""
        return self.labels.ndim == 2 and not self.numeric

    @property
    def numeric(self) -> bool:
        """Return whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    def labelled(self, ids: np.ndarray) -> np.ndarray:
        """Return for each of the target nodes `ids` whether its label is known: bool, of the shape of `ids`."""
        return self.own_column.labelled(ids)

    def only(self, relations: Sequence[Relation]) -> "HetGraph":
        """Return the same graph with the edges of some relations alone, and all columns of labels; nothing is copied.

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
      columns, label_name: as in `HetGraph`; the arrays of a column may be of the types that `labels` and `splits` may be of, the
        relation of one that has `ends` may be spelled in any way, and `Column.relation` is set.

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
    own = checked(own, column_rows(own, schema.target, schema.nodes, names), where, files)
    check_name(f"{schema.target}.{label_name}", schema, where)
    made: dict[str, Column] = {}
    for given, column in columns.items():
        name, column = _checked_column(given, column, schema, where, names)
        if name in (f"{schema.target}.{label_name}", *made):
            raise InputError(f"{where}: two columns of labels are called {name}")
        made[name] = column
    graph = HetGraph(schema, relations, features, own.labels, own.splits, names, label_name, made)
    check(graph, where, sorted_edges=True, files=files)
    return graph


def _checked_column(name: str, column: Column, schema: Schema, where: str, names: Names) -> tuple[str, Column]:
    """Return a column's full name and the column as a graph has it, once it is checked."""
    if column.ends is None:
        check_name(name, schema, where)
    else:
        name, relation = relation_column(name, schema.relations, where)
        ends = checked_ends(column.ends, relation, schema.nodes, f"{where}: {name}")
        column = replace(column, relation=relation, ends=ends)
    replace(names, classes=column.names).check(replace(schema, classes=column.classes), f"{where}: {name}")
    return name, checked(column, column_rows(column, column_type(name), schema.nodes, names), f"{where}: {name}")


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
    nodes, names = graph.schema.nodes, graph.names
    own = graph.own_column
    check_column(own, column_rows(own, graph.schema.target, nodes, names), where, files)
    for name, column in graph.columns.items():
        place = f"{where}: {name}"
        if column.relation is not None and column.ends is not None:
            checked_ends(column.ends, column.relation, nodes, place)
        check_column(column, column_rows(column, column_type(name), nodes, names), place)
