"""networkx' graphs, with node types, relations and labels as attributes of nodes and edges."""

from collections.abc import Iterable, Mapping
from typing import Any

import networkx
import numpy as np

from hetjax.casts.column import as_column
from hetjax.casts.edges import Ends
from hetjax.casts.ids import as_ids
from hetjax.casts.labels import Categories
from hetjax.casts.numbers import as_weights
from hetjax.casts.roles import WEIGHTS
from hetjax.casts.splits import MASKS, as_masks, from_masks, from_words
from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Ids
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.arrays import as_bool, from_arrays
from hetjax.system.errors import InputError, reading, short
from hetjax.system.logs import log

KEYS = "type", "x", "y", "split", *MASKS  # of nodes; of edges `relation` and weights


@reading("hetjax.from_networkx")
def from_networkx(
    graph: Any,
    splits: Any = None,
    reverse: bool = False,
    seed: int = 0,
    target: str | None = None,
    numbers: bool = False,
) -> HetGraph:
    """Return a graph of a `networkx.MultiDiGraph`, or any other of networkx' graphs.

    Attributes of nodes: `type`, the node type (without it `node`); `x`, a number or a list of features; `y`, the label, which
    the nodes of one type have; `split`: train, validation or test; or masks such as `train_mask`. Of edges: `relation`, its
    name (without it the key, where that is a text, or `edge`), and `weight`. Other attributes are left out, which a line says.
    An undirected edge goes both ways. The ids that are kept are the nodes themselves: texts or whole numbers, or `(type, id)`.

    Args:
      splits, reverse, seed: as in `hetjax.from_arrays`, with the graph's nodes as ids; splits that are given come before
        attributes. An undirected graph gets no reverses, as its edges go both ways.
      target: the node type to classify, of a graph to predict, whose nodes need no `y`.
      numbers: whether `y` is a number to predict, or a list of several, not a class.

    Raises:
      InputError: as `hetjax.from_arrays`; or some nodes of a type have features, and others have none.
    """
    if not isinstance(graph, networkx.Graph):
        raise InputError(f"{type(graph).__name__}, and should be a graph of networkx")
    members: dict[str, dict[Any, dict]] = {name: {} for name in graph.graph.get("types", ())}
    for node, attributes in graph.nodes(data=True):
        name = attributes.get("type")
        if name is not None and not isinstance(name, str | int):
            raise InputError(f"node {short(repr(node), 80)}: type {short(repr(name), 80)}, and should be a text")
        members.setdefault(NODE if name is None else str(name), {})[node] = attributes
    labelled = [name for name, nodes in members.items() if any("y" in a for a in nodes.values())]
    asked, target = target, back.only_target(labelled, target, members)
    ids = {name: _ids(nodes, name) for name, nodes in members.items()}
    _say_left_out(members)
    if splits is None:
        splits = _splits(members[target], target) or (0.6, 0.2, 0.2)
    elif isinstance(splits, Mapping):
        splits = as_masks(
            {split: _asked(one, target) for split, one in splits.items()}, Ids(as_ids(ids[target], "nodes"))
        )
    if as_bool(reverse) and not graph.is_directed():
        log.warning("the graph is undirected: its edges go both ways, and no reverses are added")
    y = [attributes.get("y") for attributes in members[target].values()]
    columns = {name: [attributes.get("x") for attributes in nodes.values()] for name, nodes in members.items()}
    return from_arrays(
        _edges(graph, members),
        {name: _matrix(rows, name) for name, rows in columns.items() if any(row is not None for row in rows)},
        {target: (y if numbers else _labels(y, graph.graph.get("classes"), target)) if target in labelled else None},
        splits,
        {name: len(nodes) for name, nodes in members.items()},
        ids,
        reverse and graph.is_directed(),
        seed,
        asked,
        numbers,
    )


def _ids(nodes: Iterable[Any], node_type: str) -> list[int | str]:
    """Return the ids of nodes; where they are objects of other kinds, their texts, which a line says."""
    nodes = list(nodes)
    ids = [_id(node, node_type) for node in nodes]
    odd = next((node for node in nodes if _is_odd(node, node_type)), None)
    if odd is not None:
        log.warning("nodes of type %r: ids are the texts of nodes such as %s", node_type, short(repr(odd), 80))
    return ids


def _id(node: Any, node_type: str) -> int | str:
    node = _without_type(node, node_type)
    return node if isinstance(node, str) else int(node) if _is_whole(node) else str(node)


def _without_type(node: Any, node_type: str) -> Any:
    return node[1] if isinstance(node, tuple) and len(node) == 2 and node[0] == node_type else node


def _is_whole(node: Any) -> bool:
    return isinstance(node, int | np.integer) and not isinstance(node, bool)


def _is_odd(node: Any, node_type: str) -> bool:
    node = _without_type(node, node_type)
    return not (isinstance(node, str) or _is_whole(node))


def _asked(chosen: Any, node_type: str) -> Any:
    """Return the nodes of a split as ids; a mask as it is."""
    if isinstance(chosen, list | tuple | set | frozenset) and not all(
        isinstance(one, bool | np.bool_) for one in chosen
    ):
        return [_id(node, node_type) for node in chosen]
    return chosen


def _say_left_out(members: Mapping[str, Mapping[Any, dict]]) -> None:
    for name, nodes in members.items():
        left = dict.fromkeys(str(key) for attributes in nodes.values() for key in attributes if key not in KEYS)
        if left:
            words = ", ".join(left)
            log.warning("nodes of type %r: attributes are left out: %s; features are the attribute x", name, words)


def _matrix(rows: list, node_type: str) -> np.ndarray | list:
    """Return the features of a type: a row of numbers per node, or one value each."""
    place = f"features of type {node_type!r}"
    bare = [position for position, row in enumerate(rows) if row is None]
    if bare:
        raise InputError(f"{place}: {len(rows) - len(bare)} nodes have x, and {len(bare)} have none")
    if not any(hasattr(row, "__len__") or hasattr(row, "detach") for row in rows) or all(
        isinstance(row, str) for row in rows
    ):
        return rows
    try:
        vectors = [np.atleast_1d(np.asarray(row)) for row in rows]
    except ValueError as error:
        raise InputError(f"{place}: {short(str(error), 200)}") from None
    shapes = {vector.shape for vector in vectors}
    if len(shapes) > 1:
        raise InputError(f"{place}: x of shapes {short(str(sorted(shapes)))}, and all should be alike")
    kinds = {vector.dtype.kind for vector in vectors}
    if kinds - set("biuf"):
        odd = next(vector for vector in vectors if vector.dtype.kind not in "biuf")
        raise InputError(f"{place}: x is {short(str(odd), 80)}, and should be numbers")
    return np.stack(vectors)


def _labels(values: list, classes: list | None, target: str) -> Any:
    if any(isinstance(value, list | tuple | np.ndarray) for value in values):
        return _several(values, classes, target)
    return values if classes is None else Categories(values, list(classes))


def _several(values: list, classes: list | None, target: str) -> Any:
    """Return several labels a node, each 0 or 1."""
    present = [value for value in values if value is not None]
    if not all(isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1 for value in present):
        raise InputError(f"labels of type {target!r}: y is a list of some nodes, and of others it is not")
    widths = {len(value) for value in present}
    if len(widths) > 1:
        found = short(str(sorted(widths)))
        raise InputError(f"labels of type {target!r}: y of {found} values, and all should have as many")
    matrix = [[-1] * max(widths) if value is None else list(value) for value in values]
    return matrix if classes is None else Categories(matrix, classes)


def _splits(nodes: Mapping[Any, dict], target: str) -> dict[str, np.ndarray]:
    """Return a mask per split, from the attributes that say it; none if there are no such attributes."""
    place = f"nodes of type {target!r}"
    used = [key for key in ("split", *MASKS) if any(attributes.get(key) is not None for attributes in nodes.values())]
    columns = {
        key: as_column([attributes.get(key) for attributes in nodes.values()], f"{place}: attribute {key!r}")
        for key in used
    }
    if "split" not in columns:
        return from_masks(columns, place)
    if len(columns) > 1:
        raise InputError(
            f"{place}: attributes {', '.join(columns)} are all of splits: leave one kind, or give `splits`"
        )
    return from_words(columns["split"], f"{place}: attribute 'split'")


def _edges(graph: Any, members: Mapping[str, Mapping[Any, dict]]) -> dict[tuple[str, str, str], Ends]:
    number = {node: position for nodes in members.values() for position, node in enumerate(nodes)}
    type_of = {node: name for name, nodes in members.items() for node in nodes}
    kept: dict[tuple[str, str, str], list[tuple[int, int, Any]]] = {
        tuple(relation): [] for relation in graph.graph.get("relations", ())
    }
    left: dict[tuple[str, str, str], dict[str, None]] = {}
    keyed = graph.is_multigraph()
    for source, target, *key, attributes in graph.edges(data=True, **({"keys": True} if keyed else {})):
        name = str(attributes.get("relation", key[0] if key and isinstance(key[0], str) else EDGE.name))
        both = [(source, target)] if graph.is_directed() or source == target else [(source, target), (target, source)]
        weight = _weight(attributes, source, target)
        for one, other in both:
            relation = type_of[one], name, type_of[other]
            kept.setdefault(relation, []).append((number[one], number[other], weight))
            others = (str(key) for key in attributes if key != "relation" and key not in WEIGHTS)
            left.setdefault(relation, {}).update(dict.fromkeys(others))
    for relation, names in left.items():
        if names:
            words = ", ".join(names)
            log.warning("relation %s: attributes of edges are left out: %s", Relation(*relation), words)
    return {relation: _columns(edges, relation) for relation, edges in kept.items()}


def _weight(attributes: Mapping[str, Any], source: Any, target: Any) -> Any:
    found = [key for key in WEIGHTS if attributes.get(key) is not None]
    if len(found) > 1:
        raise InputError(
            f"edge {short(repr((source, target)), 80)}: attributes {', '.join(found)} may all be its weight"
        )
    return attributes[found[0]] if found else None


def _columns(edges: list[tuple[int, int, Any]], relation: tuple) -> Ends:
    weights = [weight for _, _, weight in edges if weight is not None]
    if weights and len(weights) < len(edges):
        raise InputError(f"relation {Relation(*relation)}: {len(weights)} of {len(edges)} edges have a weight")
    source, target = (np.array([edge[side] for edge in edges], np.int64) for side in (0, 1))
    place = f"relation {Relation(*relation)}: weight"
    return Ends(source, target, np.asarray(as_weights(weights, place), np.float64) if weights else None)


def to_networkx(graph: HetGraph) -> networkx.MultiDiGraph:
    """Return a `networkx.MultiDiGraph` whose nodes are `(type, id)`, with the attributes that `from_networkx` reads; and as attributes
    of the graph `types`, `relations` and `classes`, in their order."""
    nx_graph: networkx.MultiDiGraph = networkx.MultiDiGraph(
        types=list(graph.schema.nodes), relations=list(graph.schema.relations)
    )
    classes = graph.names.class_names(graph.schema.classes)
    if not graph.numeric:
        nx_graph.graph["classes"] = classes
    nodes = {name: [(name, one) for one in back.node_ids(graph, name)] for name in graph.schema.nodes}
    for name, members in nodes.items():
        nx_graph.add_nodes_from(members, type=name)
        for node, row in zip(members, graph.features.get(name, ())):
            nx_graph.nodes[node]["x"] = row
    target = nodes[graph.schema.target]
    for position in np.flatnonzero(graph.labelled(np.arange(len(target)))):
        label = graph.labels[position]
        nx_graph.nodes[target[position]]["y"] = label.tolist() if label.ndim or graph.numeric else classes[label]
    for split, ids in graph.splits.items():
        for number in ids:
            nx_graph.nodes[target[number]]["split"] = split
    for relation, source, end, weights in back.edge_lists(graph):
        for edge, ends in enumerate(zip(source, end)):
            attributes = {} if weights is None else {"weight": float(weights[edge])}
            one, other = nodes[relation.source][ends[0]], nodes[relation.target][ends[1]]
            nx_graph.add_edge(one, other, relation=relation.name, **attributes)
    return nx_graph
