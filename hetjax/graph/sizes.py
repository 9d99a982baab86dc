"""The description of a graph without its arrays: types, relations, counts and widths."""

import hashlib
import json
import reprlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.checks import FEATURE_TYPES
from hetjax.graph.columns import LABEL_NAME, Column, check_name, relation_column
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import MOST_CLASSES, MOST_NODES, Relation, Schema, check_text
from hetjax.system.errors import InputError, reason, short

MOST_EDGES = MOST_VALUES = 2**48  # of a relation, of a row
LABELS = (
    "one",
    "many",
    "number",
)  # of a node: a class, any number of classes, or a number or several; a description that does not say means the first


class ColumnSizes(NamedTuple):
    """A column of labels without its arrays.

    Attributes:
      labels: what a node has, of `LABELS`.
      classes: number of classes; of numbers, how many a node has.
      named: whether the classes have names.
      pairs: number of labelled pairs of a relation; None: the rows are the nodes of a type.
      relation: whose pairs they are.
    """

    labels: str
    classes: int
    named: bool
    pairs: int | None = None
    relation: Relation | None = None

    def json(self) -> dict:
        """Return the description as plain values; that of nodes is the same as before there were pairs."""
        about = {"labels": self.labels, "classes": self.classes, "named": self.named}
        return about if self.pairs is None else about | {"pairs": self.pairs}


@dataclass(frozen=True)
class Sizes:
    """A graph without its arrays.

    Attributes:
      schema: node types, relations, target.
      edges: number of edges per relation, in the schema's order.
      features: `(width, name of the dtype)` per node type that has static features.
      labels: what a node has, of `LABELS`.
      weighted: the relations whose edges have weights.
      label_name: as of `hetjax.graph.hetgraph.HetGraph`.
      columns: other columns of labels by `TYPE.NAME`; the digest is the same whichever there are.
    """

    schema: Schema
    edges: Mapping[Relation, int]
    features: Mapping[str, tuple[int, str]]
    labels: str = LABELS[0]
    weighted: Set[Relation] = frozenset()
    label_name: str = LABEL_NAME
    columns: Mapping[str, ColumnSizes] = field(default_factory=dict)

    def __post_init__(self):
        for name in ("edges", "features", "columns"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        object.__setattr__(self, "weighted", frozenset(self.weighted))

    def json(self) -> dict:
        """Return the sizes as plain values, in the form of a store's `schema.json`."""
        columns = [{"name": name, **column.json()} for name, column in self.columns.items()]
        named = {"label": self.label_name} if self.label_name != LABEL_NAME else {}
        return self._shape() | named | ({"columns": columns} if columns else {})

    def _shape(self) -> dict:
        """Return the content of the digest."""
        features = {name: {"width": width, "dtype": dtype} for name, (width, dtype) in self.features.items()}
        return {
            "nodes": [
                {"type": name, "count": int(count), "features": features.get(name)}
                for name, count in self.schema.nodes.items()
            ],
            "relations": [self._relation_json(relation) for relation in self.schema.relations],
            "target": self.schema.target,
            "classes": int(self.schema.classes),
            "labels": self.labels,
        }

    def _relation_json(self, relation: Relation) -> dict:
        """Return the description of a relation. Without weights it is the same as before there were weights, so that
        older digests still hold."""
        source, name, target = relation
        about = {"source": source, "name": name, "target": target, "edges": int(self.edges[relation])}
        return about | ({"weights": True} if relation in self.weighted else {})

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the description: equal for equal types, relations, counts and widths, whatever the edges."""
        return hashlib.sha256(json.dumps(self._shape(), sort_keys=True).encode()).hexdigest()


def sizes(graph: HetGraph) -> Sizes:
    """Return the sizes of a graph in memory or mapped; no array is read."""
    features = {name: (matrix.shape[1], matrix.dtype.name) for name, matrix in graph.features.items()}
    edges = {relation: csc.edges for relation, csc in graph.relations.items()}
    weighted = frozenset(relation for relation, csc in graph.relations.items() if csc.weights is not None)
    columns = {name: _column_sizes(column) for name, column in graph.columns.items()}
    return Sizes(graph.schema, edges, features, _form(graph.labels), weighted, graph.label_name, columns)


def _column_sizes(column: Column) -> ColumnSizes:
    pairs = None if column.ends is None else len(column.ends[0])
    return ColumnSizes(_form(column.labels), int(column.classes), column.names is not None, pairs, column.relation)


def _form(labels: np.ndarray) -> str:
    """Return the form of a node's label, of `LABELS`."""
    return LABELS[2] if labels.dtype.kind == "f" else LABELS[labels.ndim == 2]


def abstract_graph(about: Sizes, labels: np.ndarray, splits: Mapping[str, np.ndarray]) -> HetGraph:
    """Return a graph of these sizes with labels and splits; its edges and features are there in shape alone, and take no memory."""

    def empty(shape: tuple[int, ...], dtype) -> np.ndarray:
        return np.broadcast_to(np.zeros((), dtype), shape)

    nodes = about.schema.nodes

    def abstract(r: Relation) -> CSC:
        weights = empty((about.edges[r],), np.float32) if r in about.weighted else None
        return CSC(empty((nodes[r.target] + 1,), np.int64), empty((about.edges[r],), np.int32), weights)

    relations = {r: abstract(r) for r in about.schema.relations}
    features = {name: empty((nodes[name], width), dtype) for name, (width, dtype) in about.features.items()}
    return HetGraph(about.schema, relations, features, labels, splits)


def in_shape_alone(csc: CSC) -> bool:
    """Return whether edges are those of an `abstract_graph`."""
    return csc.indptr.strides == (0,)


def from_json(description: dict, where: str) -> Sizes:
    """Return the inverse of `Sizes.json`.

    Args:
      description: plain values, of which nothing is taken for granted.
      where: the file to name in an error.

    Raises:
      InputError: the first thing that is missing or wrong.
    """
    try:
        nodes = {node["type"]: node["count"] for node in description["nodes"]}
        if len(nodes) != len(description["nodes"]):
            raise InputError(f"{len(description['nodes'])} node types, of which {len(nodes)} have names of their own")
        edges = {Relation(r["source"], r["name"], r["target"]): r["edges"] for r in description["relations"]}
        relations = tuple(Relation(r["source"], r["name"], r["target"]) for r in description["relations"])
        schema = Schema(nodes, relations, description["target"], description["classes"])
        form = description.get("labels", LABELS[0])
        if form not in LABELS:
            raise InputError(f"labels {reprlib.repr(form)}, and a node may have {', '.join(map(repr, LABELS))}")
        for relation, count in edges.items():
            if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_EDGES:
                raise InputError(f"relation {relation} has {reprlib.repr(count)} edges, outside 0..{MOST_EDGES}")
        weighted = frozenset(r for r, given in zip(relations, description["relations"]) if _weighted(given, r))
        features = {
            n["type"]: _width(n["features"], n["type"]) for n in description["nodes"] if n["features"] is not None
        }
        columns = {name: sizes for name, sizes in (_column(given, schema) for given in description.get("columns", []))}
        label_name = description.get("label", LABEL_NAME)
        check_text(label_name)
        check_name(f"{schema.target}.{label_name}", schema, "label")
        if len({f"{schema.target}.{label_name}", *columns}) <= len(description.get("columns", [])):
            raise InputError("two columns of labels have one name")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except Exception as error:  # of plain values of any other shape
        raise InputError(f"{where}: {reason(error)}") from None
    return Sizes(schema, edges, features, form, weighted, label_name, columns)


def _column(given: dict, schema: Schema) -> tuple[str, ColumnSizes]:
    """Return the name of a column of labels and its description, once that is checked."""
    name, pairs = given["name"], given.get("pairs")
    sizes = ColumnSizes(given["labels"], given["classes"], given["named"], pairs)
    if pairs is None:
        check_name(name, schema, "columns")
    else:
        name, relation = relation_column(name, schema.relations, "columns")
        sizes = sizes._replace(relation=relation)
        if type(pairs) is not int or not 0 <= pairs <= MOST_NODES:
            raise InputError(f"columns: {name!r} has {short(repr(pairs), 80)} pairs, outside 0..{MOST_NODES}")
    if type(sizes.classes) is not int or not 1 <= sizes.classes <= MOST_CLASSES:
        raise InputError(f"columns: {name!r} has {short(repr(sizes.classes), 80)} classes, outside 1..{MOST_CLASSES}")
    if sizes.labels not in LABELS or not isinstance(sizes.named, bool):
        raise InputError(f"columns: {short(repr(given))}, and labels are {', '.join(LABELS)}, named true or false")
    return name, sizes


def _weighted(about: dict, relation: Relation) -> bool:
    """Return whether a relation's edges have weights; they have none if a description does not mention them."""
    weights = about.get("weights", False)
    if not isinstance(weights, bool):
        raise InputError(f"relation {relation} has weights {reprlib.repr(weights)}, and should have true or false")
    return weights


def _width(features: dict, node_type: str) -> tuple[int, str]:
    width, dtype = features["width"], features["dtype"]
    known = [kind.name for kind in FEATURE_TYPES]
    if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= MOST_VALUES or dtype not in known:
        raise InputError(
            f"features of type {node_type!r} are {reprlib.repr(features)}, and the width is in 1..{MOST_VALUES}, the dtype one of {', '.join(known)}"
        )
    return width, dtype


def row_bytes(sizes: Sizes, node_type: str) -> int:
    """Return the bytes of one node's static features; 0 for a type that has none."""
    width, dtype = sizes.features.get(node_type, (0, "float32"))
    return width * np.dtype(dtype).itemsize


def check_digest(expected: Sizes, found: Sizes, where: str) -> None:
    """Raise an InputError that describes how a graph differs from the one that a plan was made for."""
    if expected.digest != found.digest:
        wrong = difference(found.json(), expected.json(), "schema")
        raise InputError(f"{where}: is not the graph that was partitioned: {wrong}")


def difference(there: Any, here: Any, place: str) -> str | None:
    """Return the first place where plain values differ, with both; None if they do not."""
    if isinstance(there, dict) and isinstance(here, dict):
        if there.keys() != here.keys():
            return f"{place} has the keys {_short(list(there))}, and should have {_short(list(here))}"
        pairs = [(there[key], here[key], f"{place}.{key}") for key in here]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(a, b, f"{place}[{number}]") for number, (a, b) in enumerate(zip(there, here))]
    else:
        same = there == here and type(there) is type(here)
        return None if same else f"{place} is {_short(there)}, and should be {_short(here)}"
    return next(filter(None, (difference(*pair) for pair in pairs)), None)


def _short(value) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
