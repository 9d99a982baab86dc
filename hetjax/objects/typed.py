"""Homogeneous graphs whose nodes and edges have a number each for their type: their nodes by type, and their edges by relation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column
from hetjax.casts.labels import class_numbers
from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log


class Typed(NamedTuple):
    """A homogeneous graph that was taken apart.

    Attributes:
      nodes: the numbers that the nodes of each type had, int64 `[nodes]`, rising; by type.
      edges: the places that the edges of each relation had, int64 `[edges]`, rising; by relation.
      number: int64 `[all nodes]`, the number that each node has among those of its type.
    """

    nodes: dict[str, np.ndarray]
    edges: dict[Relation, np.ndarray]
    number: np.ndarray


def by_type(
    ends: tuple[np.ndarray, np.ndarray],
    count: int,
    node_type: Any = None,
    edge_type: Any = None,
    node_names: Sequence[str] | None = None,
    edge_names: Sequence[tuple[str, str, str]] | None = None,
) -> Typed:
    """Take a graph apart by the types of its nodes and edges.

    Args:
      ends: sources and targets, int64 `[edges]` each.
      count: of all nodes.
      node_type, edge_type: a number per node and per edge; None: all are of one type.
      node_names, edge_names: the names of types and relations by these numbers; without them `type_0`, `relation_0` and so on,
        which a line says.

    Raises:
      InputError: numbers of types that are missing or have no name, or of another length; ends that are no nodes.
    """
    types = _numbers(node_type, count, "node_type", node_names)
    kinds = _numbers(edge_type, len(ends[0]), "edge_type", edge_names)
    for side, values in zip(("source", "target"), ends):
        if len(values) and (values.min() < 0 or values.max() >= count):
            edge = int(np.argmax((values < 0) | (values >= count)))
            raise InputError(f"{side} of edge {edge} is node {values[edge]}, and there are {count} nodes")
    type_names = _names(node_names, types, "type", NODE, node_type)
    relation_names = _names(edge_names, kinds, "relation", EDGE.name, edge_type)
    nodes = {name: np.flatnonzero(types == kind) for kind, name in type_names.items()}
    number = np.empty(count, np.int64)
    for members in nodes.values():
        number[members] = np.arange(len(members))
    edges: dict[Relation, np.ndarray] = {}
    for kind, given in relation_names.items():
        places = np.flatnonzero(kinds == kind)
        joined = types[ends[0][places]], types[ends[1][places]]
        pairs = np.unique(np.stack(joined), axis=1).T.tolist()
        for source, target in pairs:
            relation = _relation(given, type_names[source], type_names[target])
            edges[relation] = places[(joined[0] == source) & (joined[1] == target)]
        if not pairs and not isinstance(given, str):
            edges[Relation(*given)] = places
    _say(
        nodes if node_type is not None and not node_names else {},
        edges if edge_type is not None and not edge_names else {},
    )
    return Typed(nodes, edges, number)


def _numbers(given: Any, count: int, place: str, names: Sequence | None) -> np.ndarray:
    if given is None:
        return np.zeros(count, np.int64)
    numbers = class_numbers(as_column(given, place), place)
    if len(numbers) != count:
        raise InputError(f"{place}: {len(numbers)} numbers != {count}, one for each")
    most = len(names) if names else np.inf
    wrong = (numbers < 0) | (numbers >= most)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"{place}: {numbers[at]} of number {at} is no type" + (f" of {most}" if names else ""))
    return numbers


def _names(given: Sequence | None, numbers: np.ndarray, word: str, only: str, stored: Any) -> dict[int, Any]:
    """Return the name of every type, by its number."""
    if given:
        return dict(enumerate(given))
    if stored is None:
        return {0: only}
    return {int(kind): f"{word}_{kind}" for kind in np.unique(numbers)}


def _relation(given: Any, source: str, target: str) -> Relation:
    """Return a relation of a name, or of one that says its types too, which must be those of the ends."""
    if isinstance(given, str):
        return Relation(source, given, target)
    relation = Relation(*given)
    if (relation.source, relation.target) != (source, target):
        raise InputError(f"edge_type: an edge of {short(str(relation))} goes from {source!r} to {target!r}")
    return relation


def _say(nodes: dict[str, np.ndarray], edges: dict[Relation, np.ndarray]) -> None:
    words = [f"node types {', '.join(nodes)} by node_type"] if nodes else []
    words += [f"relations {', '.join(map(str, edges))} by edge_type"] if edges else []
    if words:
        log.warning("types have no names here: %s", "; ".join(words))
