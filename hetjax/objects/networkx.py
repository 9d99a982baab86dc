"""networkx' graphs, with node types, relations and labels as attributes of nodes and edges."""

from typing import Any

import networkx
import numpy as np

from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.errors import InputError, short
from hetjax.graph.hetgraph import HetGraph
from hetjax.objects import back
from hetjax.objects.arrays import from_arrays
from hetjax.objects.casts import Categories

KEYS = "type", "x", "y", "split"  # of nodes; of edges `relation` and `weight`


def from_networkx(graph: Any, splits: Any = None, reverse: bool = False, seed: int = 0) -> HetGraph:
    """A graph from a `networkx.MultiDiGraph`, or any other of networkx' graphs.

    Attributes of nodes: `type`, the node type (without it `node`); `x`, a number or a list of features; `y`, the label, which
    the nodes of one type have; `split`: train, validation or test. Of edges: `relation`, its name (without it the key, where
    that is a text, or `edge`), and `weight`. An undirected edge goes both ways. The ids that are kept are the nodes
    themselves: texts or whole numbers, or `(type, id)`.

    Args:
      splits, reverse, seed: as in `hetjax.from_arrays`; splits that are given come before the attribute.

    Raises:
      InputError: as `hetjax.from_arrays`; or some nodes of a type have features, and others have none.
    """
    members: dict[str, dict[Any, dict]] = {name: {} for name in graph.graph.get("types", ())}
    for node, about in graph.nodes(data=True):
        members.setdefault(str(about.get("type", NODE)), {})[node] = about
    number = {node: position for nodes in members.values() for position, node in enumerate(nodes)}
    type_of = {node: name for name, nodes in members.items() for node in nodes}
    target = back.only_target([name for name, nodes in members.items() if any("y" in a for a in nodes.values())], None)
    if splits is None:
        splits = _splits(members[target])
    y = [about.get("y") for about in members[target].values()]
    columns = {name: [about.get("x") for about in nodes.values()] for name, nodes in members.items()}
    return from_arrays(
        _edges(graph, type_of, number),
        {name: _matrix(rows, name) for name, rows in columns.items() if any(row is not None for row in rows)},
        {target: _labels(y, graph.graph.get("classes"))},
        splits,
        {name: len(nodes) for name, nodes in members.items()},
        {name: [_id(node, name) for node in nodes] for name, nodes in members.items()},
        reverse,
        seed,
    )


def _id(node: Any, node_type: str) -> int | str:
    if isinstance(node, tuple) and len(node) == 2 and node[0] == node_type:
        node = node[1]
    return node if isinstance(node, int | str) else str(node)


def _matrix(rows: list, node_type: str) -> np.ndarray:
    bare = [position for position, row in enumerate(rows) if row is None]
    if bare:
        raise InputError(
            f"features of type {node_type!r}: {len(rows) - len(bare)} nodes have x, and {len(bare)} have none"
        )
    vectors = [np.atleast_1d(np.asarray(row)) for row in rows]
    widths = {vector.shape for vector in vectors}
    if len(widths) > 1:
        raise InputError(
            f"features of type {node_type!r}: x of shapes {short(str(sorted(widths)))}, and all should be alike"
        )
    return np.stack(vectors)


def _labels(values: list, classes: list | None) -> Any:
    if any(isinstance(value, list | tuple | np.ndarray) for value in values):
        width = max(len(value) for value in values if value is not None)
        matrix = np.array([[-1] * width if value is None else list(value) for value in values])
        return matrix if classes is None else Categories(matrix, classes)
    if classes is None:
        return np.array(values, object)
    names = {name: position for position, name in enumerate(classes)}
    return Categories(np.array([-1 if value is None else names.get(value, value) for value in values]), classes)


def _splits(nodes: dict[Any, dict]) -> Any:
    found: dict[str, list[int]] = {}
    for position, about in enumerate(nodes.values()):
        if about.get("split") is not None:
            found.setdefault(str(about["split"]), []).append(position)
    return {name: np.array(ids) for name, ids in found.items()} or (0.6, 0.2, 0.2)


def _edges(graph: Any, type_of: dict, number: dict) -> dict[tuple[str, str, str], list]:
    kept: dict[tuple[str, str, str], list[tuple[int, int, float | None]]] = {
        tuple(relation): [] for relation in graph.graph.get("relations", ())
    }
    keyed = graph.is_multigraph()
    for source, target, *key, about in graph.edges(data=True, **({"keys": True} if keyed else {})):
        name = str(about.get("relation", key[0] if key and isinstance(key[0], str) else EDGE.name))
        both = [(source, target)] if graph.is_directed() or source == target else [(source, target), (target, source)]
        for one, other in both:
            edge = (number[one], number[other], about.get("weight"))
            kept.setdefault((type_of[one], name, type_of[other]), []).append(edge)
    return {relation: _columns(edges, relation) for relation, edges in kept.items()}


def _columns(edges: list[tuple[int, int, float | None]], relation: tuple) -> list:
    weights = [weight for _, _, weight in edges if weight is not None]
    if weights and len(weights) < len(edges):
        raise InputError(f"relation {relation}: {len(weights)} of {len(edges)} edges have a weight")
    ends = [np.array([edge[side] for edge in edges], np.int64) for side in (0, 1)]
    return [*ends, np.array(weights, float)] if weights else ends


def to_networkx(graph: HetGraph) -> networkx.MultiDiGraph:
    """A `networkx.MultiDiGraph` whose nodes are `(type, id)`, with the attributes that `from_networkx` reads; and as attributes
    of the graph `types`, `relations` and `classes`, in their order."""
    made: networkx.MultiDiGraph = networkx.MultiDiGraph(
        types=list(graph.schema.nodes), relations=list(graph.schema.relations)
    )
    classes = graph.names.class_names(graph.schema.classes)
    made.graph["classes"] = classes
    nodes = {name: [(name, one) for one in back.node_ids(graph, name)] for name in graph.schema.nodes}
    for name, members in nodes.items():
        made.add_nodes_from(members, type=name)
        for node, row in zip(members, graph.features.get(name, ())):
            made.nodes[node]["x"] = row
    target = nodes[graph.schema.target]
    for position in np.flatnonzero(graph.labelled(np.arange(len(target)))):
        label = graph.labels[position]
        made.nodes[target[position]]["y"] = label.tolist() if graph.multilabel else classes[label]
    for split, ids in graph.splits.items():
        for number in ids:
            made.nodes[target[number]]["split"] = split
    for relation, source, end, weights in back.edge_lists(graph):
        for edge, ends in enumerate(zip(source, end)):
            about = {} if weights is None else {"weight": float(weights[edge])}
            one, other = nodes[relation.source][ends[0]], nodes[relation.target][ends[1]]
            made.add_edge(one, other, relation=relation.name, **about)
    return made
