"""networkx' graphs, with node types, relations and labels as attributes of nodes and edges."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import networkx
import numpy as np
import pyarrow as pa

from hetjax.casts.column import as_column
from hetjax.casts.edges import Ends
from hetjax.casts.ids import as_ids, positions
from hetjax.casts.labels import Categories
from hetjax.casts.numbers import as_weights
from hetjax.casts.roles import WEIGHTS
from hetjax.casts.splits import MASKS, SPELLINGS, as_masks, from_masks, from_words
from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.graph.columns import SPLITS, Column
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Ids
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.arrays import as_bool, from_arrays
from hetjax.objects.columns import full_name
from hetjax.objects.named import (
    Named,
    attribute_of,
    named_columns,
    other_columns,
    own_splits,
    split_names,
    split_words,
)
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
    numbers: bool | Collection[str] = False,
    labels: Sequence[str] | str = (),
) -> HetGraph:
    """Return a graph of a `networkx.MultiDiGraph`, or any other of networkx' graphs.

    Attributes of nodes: `type`, the node type (without it `node`); `x`, a number or a list of features; `y`, the label, which
    the nodes of one type have; `split`: train, validation or test; or masks such as `train_mask`. Of edges: `relation`, its
    name (without it the key, where that is a text, or `edge`), and `weight`. Other attributes are left out, which a line says.
    An attribute of the graph, `label_pairs`, is a dictionary of labelled pairs by `RELATION.NAME`, as `to_networkx` leaves it.
    An undirected edge goes both ways. The ids that are kept are the nodes themselves: texts or whole numbers, or `(type, id)`.

    Args:
      splits, reverse, seed: as in `hetjax.from_arrays`, with the graph's nodes as ids; splits that are given come before
        attributes. An undirected graph gets no reverses, as its edges go both ways.
      target: the node type to classify, of a graph to predict, whose nodes need no `y`.
      numbers: whether `y` is a number to predict, or a list of several, not a class; or the names of the columns of labels that are.
      labels: the columns of labels in place of `y`, where there are several: `TYPE.NAME` is the attribute `NAME` of nodes of a type,
        and `RELATION.NAME` that of edges. Splits of their own are in `NAME_split`, or in `NAME_train_mask` ....

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
    edges, attributes_of = _edges(graph, members)
    named = named_columns(labels, members, list(map(Relation._make, edges)))
    labelled = [name for name, nodes in members.items() if any("y" in a for a in nodes.values())]
    pairs = dict(graph.graph.get("label_pairs") or {})
    asked, own = target, _own(labelled, target, members, named, bool(pairs))
    ids = {name: _ids(nodes, name) for name, nodes in members.items()}
    _say_left_out(members, attributes_of, named)
    given, by_column = _columns_of(named, members, attributes_of, edges)
    given |= {name: _pairs(one, name, ids, edges) for name, one in pairs.items()}
    if own and not any(one.relation is None for one in named):
        y = [attributes.get("y") for attributes in members[own].values()]
        y = y if numbers is True else _labels(y, graph.graph.get("classes"), own)
        given = {own: y if own in labelled else None} | given
        by_column = {own: _splits(members[own], own)} | by_column
    if splits is None:
        splits = {name: masks for name, masks in by_column.items() if masks} or (0.6, 0.2, 0.2)
    elif isinstance(splits, Mapping) and own and all(key in (*SPLITS, *SPELLINGS) for key in splits):
        splits = as_masks({split: _asked(one, own) for split, one in splits.items()}, Ids(as_ids(ids[own], "nodes")))
    if as_bool(reverse) and not graph.is_directed():
        log.warning("the graph is undirected: its edges go both ways, and no reverses are added")
    columns = {name: [attributes.get("x") for attributes in nodes.values()] for name, nodes in members.items()}
    return from_arrays(
        edges,
        {name: _matrix(rows, name) for name, rows in columns.items() if any(row is not None for row in rows)},
        given,
        splits,
        {name: len(nodes) for name, nodes in members.items()},
        ids,
        reverse and graph.is_directed(),
        seed,
        asked,
        numbers,
    )


def _own(labelled: list[str], target: str | None, members: Collection[str], named: Sequence[Named], pairs: bool) -> str:
    """Return the type of the graph's own labels; empty where relations alone have labels."""
    of_nodes = [one.owner for one in named if one.relation is None]
    if of_nodes:
        return target if target is not None and target in members else of_nodes[0]
    return "" if (named or pairs) and not labelled and target is None else back.only_target(labelled, target, members)


def _columns_of(
    named: Sequence[Named],
    members: Mapping[str, Mapping[Any, dict]],
    attributes_of: Mapping[Any, list[dict]],
    edges: Mapping[Any, Ends],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns that are named, as `from_arrays` takes them, and their splits as far as attributes say them."""
    given: dict[str, Any] = {}
    splits: dict[str, Any] = {}
    divided: set[str] = set()  # the types whose splits are another column's
    for one in named:
        rows = list(members[one.owner].values()) if one.relation is None else attributes_of[tuple(one.relation)]
        keys = dict.fromkeys(key for row in rows for key in row if key in (one.attribute, *split_names(one.attribute)))
        data = {key: [row.get(key) for row in rows] for key in keys}
        values = attribute_of(one, data)
        masks = own_splits(one.attribute, data, f"labels {one.full!r}")
        if masks is None and one.relation is None and one.owner not in divided:
            masks = _splits(members[one.owner], one.owner)
        splits |= {one.full: masks} if masks else {}
        divided.add(one.owner)
        ends = None if one.relation is None else edges[tuple(one.relation)]
        given[one.full] = values if ends is None else (ends.source, ends.target, values)
    return given, splits


def _pairs(given: Any, name: str, ids: Mapping[str, Any], edges: Collection[Any]) -> Any:
    """Return labelled pairs of ids with the numbers of their nodes."""
    if not isinstance(given, Mapping) or not {"source", "target"} <= given.keys():
        raise InputError(f"label_pairs {short(repr(name), 80)}: should be a dictionary with source and target")
    relation = full_name(name, (), list(map(Relation._make, edges)))[1]
    if relation is None:
        raise InputError(
            f"label_pairs {short(repr(name), 80)}: no such relation among {', '.join(map('-'.join, edges))}"
        )
    numbers = {}
    for side, node_type in (("source", relation.source), ("target", relation.target)):
        place = f"label_pairs {name!r}: {side}"
        asked = (
            as_ids([_id(node, node_type) for node in given[side]], place) if len(given[side]) else pa.array([], "int64")
        )
        numbers[side] = positions(asked, Ids(as_ids(ids[node_type], place)), place)
    return {**given, **numbers}


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


def _say_left_out(
    members: Mapping[str, Mapping[Any, dict]], attributes_of: Mapping[Any, list[dict]], named: Sequence[Named]
) -> None:
    """Say which attributes of nodes and edges are not read."""
    used: dict[str, set[str]] = {}
    for one in named:
        used.setdefault(one.owner, set()).update((one.attribute, *split_names(one.attribute)))
    for name, nodes in members.items():
        known = (*KEYS, *used.get(name, ()))
        left = dict.fromkeys(str(key) for attributes in nodes.values() for key in attributes if key not in known)
        if left:
            words = ", ".join(left)
            log.warning("nodes of type %r: attributes are left out: %s; features are the attribute x", name, words)
    for relation, rows in attributes_of.items():
        known = ("relation", *WEIGHTS, *used.get(Relation(*relation).key, ()))
        if left := dict.fromkeys(str(key) for attributes in rows for key in attributes if key not in known):
            log.warning("relation %s: attributes of edges are left out: %s", Relation(*relation), ", ".join(left))


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


def _edges(
    graph: Any, members: Mapping[str, Mapping[Any, dict]]
) -> tuple[dict[tuple[str, str, str], Ends], dict[tuple[str, str, str], list[dict]]]:
    """Return the ends of each relation's edges, and the attributes of the edges."""
    number = {node: position for nodes in members.values() for position, node in enumerate(nodes)}
    type_of = {node: name for name, nodes in members.items() for node in nodes}
    kept: dict[tuple[str, str, str], list[tuple[int, int, Any]]] = {
        tuple(relation): [] for relation in graph.graph.get("relations", ())
    }
    attributes_of: dict[tuple[str, str, str], list[dict]] = {relation: [] for relation in kept}
    keyed = graph.is_multigraph()
    for source, target, *key, attributes in graph.edges(data=True, **({"keys": True} if keyed else {})):
        name = str(attributes.get("relation", key[0] if key and isinstance(key[0], str) else EDGE.name))
        both = [(source, target)] if graph.is_directed() or source == target else [(source, target), (target, source)]
        weight = _weight(attributes, source, target)
        for one, other in both:
            relation = type_of[one], name, type_of[other]
            kept.setdefault(relation, []).append((number[one], number[other], weight))
            attributes_of.setdefault(relation, []).append(attributes)
    return {relation: _columns(edges, relation) for relation, edges in kept.items()}, attributes_of


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
    of the graph `types`, `relations` and `classes`, in their order, and `label_pairs`, the columns of relations. Other columns of
    nodes are `NAME` and `NAME_split`; where there are some, `y` is called by its name, too: name them in `labels`."""
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
    for name, members in nodes.items():
        columns = other_columns(graph, name)
        columns |= {graph.label_name: graph.own_column} if name == graph.schema.target and graph.columns else {}
        for label, column in columns.items():
            words = split_words(column)
            for position in np.flatnonzero(column.labelled(np.arange(len(members)))):
                nx_graph.nodes[members[position]][label] = _cell(column, int(position))
                if words[position] is not None:
                    nx_graph.nodes[members[position]][f"{label}_split"] = words[position]
    pairs = {name: _pairs_out(column, nodes) for name, column in graph.columns.items() if column.ends is not None}
    if pairs:
        nx_graph.graph["label_pairs"] = pairs
    for relation, source, end, weights in back.edge_lists(graph):
        for edge, ends in enumerate(zip(source, end)):
            attributes = {} if weights is None else {"weight": float(weights[edge])}
            one, other = nodes[relation.source][ends[0]], nodes[relation.target][ends[1]]
            nx_graph.add_edge(one, other, relation=relation.name, **attributes)
    return nx_graph


def _cell(column: Column, row: int) -> Any:
    """Return the label of a row: a number, a list of 0 and 1, or the name of a class."""
    label = column.labels[row]
    if column.numeric or column.labels.ndim == 2 or column.names is None:
        return label.tolist()
    return column.names[label]


def _pairs_out(column: Column, nodes: Mapping[str, list]) -> dict[str, list]:
    """Return labelled pairs in lists: sources and targets as the graph's nodes, labels, None where one is not known, and splits."""
    assert column.relation is not None and column.ends is not None
    types, known = (column.relation.source, column.relation.target), column.labelled(np.arange(len(column.labels)))
    source, target = ([nodes[t][number] for number in ids] for t, ids in zip(types, column.ends))
    labels = [_cell(column, row) if known[row] else None for row in range(len(known))]
    return {"source": source, "target": target, "labels": labels, "split": split_words(column).tolist()}
