"""PyG's `HeteroData` and `Data`: read by what they offer, so that PyG and torch are imported only to make one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column, as_dense
from hetjax.casts.edges import Ends
from hetjax.casts.ids import node_numbers
from hetjax.casts.labels import Categories
from hetjax.casts.numbers import as_weights
from hetjax.casts.splits import MASKS, as_mask, check_once
from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.graph.columns import LABEL_NAME, Column
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.arrays import as_relation, from_arrays
from hetjax.objects.named import (
    Named,
    as_numbers,
    attribute_of,
    masks_of,
    named_columns,
    other_columns,
    own_splits,
    split_names,
)
from hetjax.objects.numbering import as_count
from hetjax.objects.typed import Typed, by_type
from hetjax.system.errors import InputError, reading, short
from hetjax.system.logs import log

INDICES = {"train_idx": "train", "val_idx": "validation", "valid_idx": "validation", "test_idx": "test"}
NODE_KEYS = {"x", "y", "num_nodes", "ids", "node_type", *MASKS, *INDICES}
EDGE_KEYS = {"edge_index", "adj_t", "edge_weight", "edge_type"}
GRAPH_KEYS = {"classes", "label_name", "label_numbers", "label_columns", "_node_type_names", "_edge_type_names"}
NUMBERS = "numbers"  # in `label_columns` as `to_pyg` leaves it
PAIR_LABEL = "edge_label"  # of RandomLinkSplit, with `edge_label_index`


class Nodes(NamedTuple):
    """The columns of a node type: features, labels, ids and masks by split; None where it has none; `size`: how many nodes, if that is known."""

    x: Any
    y: Any
    ids: Any
    masks: dict[str, np.ndarray]
    size: int | None


@reading("hetjax.from_pyg")
def from_pyg(
    data: Any,
    target: str | None = None,
    reverse: bool = False,
    splits: Any = None,
    seed: int = 0,
    labels: Sequence[str] | str = (),
    numbers: bool | Collection[str] = False,
) -> HetGraph:
    """Return a graph of a `torch_geometric.data.HeteroData`, or a `Data`, whose node type is `node` and relation `edge`.

    Read are `x`, `y`, `num_nodes`, and `train_mask`, `val_mask` and `test_mask` (or `train_idx` ...) of nodes; `edge_index`, or
    `adj_t`, and `edge_weight` of edges; `edge_label` of edges, or of the pairs `edge_label_index`, as a column of the relation; and
    `ids` and `classes` as `to_pyg` leaves them. What else there is, such as features of
    edges, is left out, which a line says. A `Data` with `node_type` or `edge_type` becomes as many node types and relations.

    Args:
      data: the object; what is in it is not copied where hetjax can use it as it is.
      target: the node type to classify; needed where several have `y`, and where none has, of a graph to predict.
      reverse, splits, seed: as in `hetjax.from_arrays`; splits that are given come before masks.
      labels: the columns of labels in place of `y` and `edge_label`, where there are several: `TYPE.NAME` is `NAME` of a node type,
        and `RELATION.NAME` that of edges, or of the pairs `NAME_index`. Splits of their own are in `NAME_train_mask` ....
      numbers: whether labels are numbers to predict, not classes; or the names of those that are. Floats with fractions are.

    Raises:
      InputError: as `hetjax.from_arrays`; or labels of no type, or of several.
    """
    if hasattr(data, "node_types") and hasattr(data, "edge_types"):
        links = {as_relation(kind): data[kind] for kind in data.edge_types}
        edges: dict[Any, Ends] = {relation: _ends(store, f"relation {relation}") for relation, store in links.items()}
        stores = {name: data[name] for name in data.node_types}
        nodes = {name: _nodes(store, f"nodes of type {name!r}") for name, store in stores.items()}
    elif _get(data, "edge_index") is not None or _get(data, "adj_t") is not None:
        nodes, edges = _homogeneous(data)
        one_type = [*nodes] == [NODE] and [*edges] == [EDGE]
        stores, links = ({NODE: data}, {EDGE: data}) if one_type else ({}, {})
    else:
        raise InputError(
            f"{type(data).__name__} without edge_index or adj_t: should be a Data or HeteroData with edges"
        )
    marked = _get(data, "label_columns") or {}
    pairs = [f"{r.key}.{PAIR_LABEL}" for r, store in links.items() if _get(store, PAIR_LABEL) is not None]
    named = named_columns(labels or [*marked, *(name for name in pairs if name not in marked)], nodes, links)
    _say_left_out(stores, links, named, data)
    own = _own(nodes, target, named, bool(labels))
    given, by_column = _columns(stores, links, edges, named, marked, own)
    if own:
        name = f"{own}.{_get(data, 'label_name') or LABEL_NAME}"
        given = {name: _classified(nodes[own].y, _get(data, "classes"))} | given
        by_column = {name: nodes[own].masks} | by_column if nodes[own].masks else by_column
    if splits is None:
        splits = {name: masks for name, masks in by_column.items() if masks} or (0.6, 0.2, 0.2)
    marks = {name for name, kind in marked.items() if isinstance(kind, str) and kind == NUMBERS and name in given}
    marks |= {name} if own and _get(data, "label_numbers") is True else set()
    return from_arrays(
        edges,
        {name: one.x for name, one in nodes.items() if one.x is not None},
        given,
        splits,
        {name: one.size for name, one in nodes.items() if one.size is not None},
        {name: one.ids for name, one in nodes.items() if one.ids is not None},
        reverse,
        seed,
        target,
        as_numbers(numbers, given, marks),
    )


def _own(nodes: Mapping[str, Nodes], target: str | None, named: Sequence[Named], chosen: bool) -> str:
    """Return the type whose `y` is the graph's own column; empty where `labels` say which are, or relations alone have labels."""
    if chosen and any(one.relation is None for one in named):
        return ""
    labelled = [name for name, one in nodes.items() if one.y is not None]
    return "" if named and not labelled and target is None else back.only_target(labelled, target, nodes)


def _classified(y: Any, classes: Any) -> Any:
    return y if classes is None or y is None else Categories(y, classes)


def _columns(
    stores: Mapping[str, Any],
    links: Mapping[Any, Any],
    edges: Mapping[Any, Ends],
    named: Sequence[Named],
    marked: Mapping[str, Any],
    own: str,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns that are named, as `from_arrays` takes them, and their splits as far as there are masks."""
    given: dict[str, Any] = {}
    splits: dict[str, Any] = {}
    divided = {own}  # the types whose masks are another column's
    for one in named:
        store = stores.get(one.owner) if one.relation is None else links[one.relation]
        data = {} if store is None else {key: _get(store, key) for key in _keys(store)}
        if one.relation is None and one.attribute == LABEL_NAME and LABEL_NAME not in data:
            data[LABEL_NAME] = attribute_of(one._replace(attribute="y"), data)
        values, classes = attribute_of(one, data), marked.get(one.full)
        values = Categories(values, classes) if isinstance(classes, list) else values
        place = f"labels {one.full!r}"
        masks = own_splits(one.attribute, data, place)
        if masks is None and one.owner not in divided and one.relation is None:
            masks = _masks(store, _rows(attribute_of(one, data)), place)
        splits |= {one.full: masks} if masks else {}
        divided.add(one.owner)
        if one.relation is not None:
            index = data.get(f"{one.attribute}_index")
            ends = edges[one.relation] if index is None else _given_ends(_Index(index), place)
            values = ends.source, ends.target, values
        given[one.full] = values
    return given, splits


class _Index(NamedTuple):
    """A store that has ends alone."""

    edge_index: Any


def _get(store: Any, key: str) -> Any:
    """Return what a store of PyG has under a name; None if nothing."""
    return getattr(store, key, None)


def _keys(store: Any) -> list[str]:
    """Return the names of what a store has."""
    keys = getattr(store, "keys", None)
    names = list(keys() if callable(keys) else keys or vars(store))
    return [name for name in names if _get(store, name) is not None]


def _nodes(store: Any, place: str) -> Nodes:
    x, y, ids = (_get(store, key) for key in ("x", "y", "ids"))
    count = _count(store, x, y, ids)
    return Nodes(x, y, ids, {} if count is None else _masks(store, count, place), count)


def _count(store: Any, *columns: Any) -> int | None:
    """Return the number of nodes that a store says, or that its columns have."""
    if "num_nodes" in _keys(store):
        return as_count(store.num_nodes, "num_nodes")
    masks = (_get(store, key) for key in MASKS)
    return next((_rows(column) for column in (*columns, *masks) if column is not None), None)


def _rows(column: Any) -> int:
    """Return the number of rows of a tensor or list."""
    shape = getattr(column, "shape", None) if not isinstance(column, list | tuple) else (len(column),)
    if not shape:
        raise InputError(f"{short(repr(column), 80)}, and should be a tensor with a row per node")
    return int(shape[0])


def _checked(column: Any, count: int, place: str) -> Any:
    """Return a column with a row per node."""
    if column is not None and _rows(column) != count:
        raise InputError(f"{place}: {_rows(column)} rows != {count} nodes")
    return column


def _masks(store: Any, count: int, place: str) -> dict[str, np.ndarray]:
    """Return a mask per split, from masks or node numbers; none if there are none."""
    masks: dict[str, np.ndarray] = {}
    for key, split in (MASKS | INDICES).items():
        if (given := _get(store, key)) is None:
            continue
        where = f"{place}: {key}"
        if split in masks:
            raise InputError(f"{where}: split {split!r} is there twice: leave one")
        if key in MASKS:
            masks[split] = as_mask(as_column(given, where), where)
            if len(masks[split]) != count:
                raise InputError(f"{where}: a mask of shape ({len(masks[split])},) != ({count},) of the nodes")
        else:
            masks[split] = _mask_of(given, count, where)
    return masks


def _mask_of(given: Any, count: int, place: str) -> np.ndarray:
    """Return a mask of node numbers, each of which is there once."""
    numbers = node_numbers(given, place)
    if not isinstance(numbers, np.ndarray) or (len(numbers) and (numbers.min() < 0 or numbers.max() >= count)):
        raise InputError(f"{place}: {short(str(numbers), 80)}, and should be numbers of {count} nodes")
    check_once(numbers, place)
    mask = np.zeros(count, bool)
    mask[numbers] = True
    return mask


def _say_left_out(stores: Mapping[str, Any], links: Mapping[Any, Any], named: Sequence[Named], data: Any) -> None:
    """Say what is not read: of nodes, of edges, or of a `Data`, which has both."""
    used: dict[str, set[str]] = {}
    for one in named:
        used.setdefault(one.owner, set()).update((one.attribute, f"{one.attribute}_index", *split_names(one.attribute)))
    parts = {f"nodes of type {name!r}": (store, NODE_KEYS | used.get(name, set())) for name, store in stores.items()}
    parts |= {f"relation {r}": (store, EDGE_KEYS | used.get(r.key, set())) for r, store in links.items()}
    if not stores or any(store is data for store in stores.values()):
        parts = {"data": (data, NODE_KEYS | EDGE_KEYS | GRAPH_KEYS | set().union(*used.values()))}
    for place, (store, expected) in parts.items():
        if left := [key for key in _keys(store) if key not in expected]:
            what = f"{', '.join(left)}: hetjax has no features of edges" if "edge_attr" in left else ", ".join(left)
            log.warning("%s: left out: %s", place, what)


def _ends(store: Any, place: str) -> Ends:
    """Return the ends of a store's edges, as node numbers, and their weights."""
    ends = _given_ends(store, place)
    return ends._replace(weights=None if ends.weights is None else as_weights(ends.weights, f"{place}: edge_weight"))


def _given_ends(store: Any, place: str) -> Ends:
    """Return the ends of a store's edges, and weights as they are given."""
    weights = _get(store, "edge_weight")
    if (index := _get(store, "edge_index")) is not None:
        shape = tuple(getattr(index, "shape", ()))
        if len(shape) != 2 or shape[0] != 2:
            raise InputError(f"{place}: edge_index of shape {shape}, and should be [2, edges]")
        source, target = as_dense(index, place)
    elif (adjacency := _get(store, "adj_t")) is not None:
        target, source, given = _coordinates(adjacency)
        weights = given if weights is None else weights
    else:
        raise InputError(
            f"{place}: no edge_index and no adj_t; where there are no edges, an edge_index of shape (2, 0)"
        )
    source, target = (node_numbers(one, f"{place}: {side}") for one, side in ((source, "source"), (target, "target")))
    return Ends(source, target, weights)


def _coordinates(adjacency: Any) -> tuple[Any, Any, Any]:
    """Return targets, sources and values of a transposed adjacency: of torch_sparse, of torch, or of scipy. Values that are all 1 are none."""
    if hasattr(adjacency, "coo"):
        return adjacency.coo()
    if hasattr(adjacency, "to_sparse_coo"):
        sparse = adjacency.detach().to_sparse_coo().coalesce()
        (target, source), values = sparse.indices(), sparse.values()
    elif hasattr(adjacency, "tocoo"):
        sparse = adjacency.tocoo()
        target, source, values = sparse.row, sparse.col, sparse.data
    else:
        raise InputError(f"adj_t is {type(adjacency).__name__}, and should be a sparse matrix")
    return target, source, None if bool((values == 1).all()) else values


def _homogeneous(data: Any) -> tuple[dict[str, Nodes], dict[Any, Ends]]:
    """Return the nodes and edges of a `Data`: by `node_type` and `edge_type`, where it has these."""
    types, kinds = _get(data, "node_type"), _get(data, "edge_type")
    if types is None and kinds is None:
        return {NODE: _nodes(data, "nodes")}, {EDGE: _ends(data, f"relation {EDGE}")}
    if _get(data, "edge_index") is None and kinds is not None:
        raise InputError("edge_type with adj_t, which has its edges in another order: should have edge_index")
    columns = [_get(data, "x"), _get(data, "y"), types]
    count = _count(data, *columns)
    count = as_count(data.num_nodes, "num_nodes") if count is None else count
    names, triples = _get(data, "_node_type_names"), _get(data, "_edge_type_names")
    ends = _given_ends(data, "edges")
    weights = None if ends.weights is None else as_dense(ends.weights, "edge_weight")
    typed = by_type((np.asarray(ends.source), np.asarray(ends.target)), count, types, kinds, names, triples)
    edges = {}
    for relation, places in typed.edges.items():
        edge_weights = None if weights is None or _is_unknown(weights[places]) else weights[places]
        edge_weights = None if edge_weights is None else as_weights(edge_weights, f"relation {relation}: edge_weight")
        edges[relation] = Ends(typed.number[ends.source[places]], typed.number[ends.target[places]], edge_weights)
    return _nodes_by_type(data, count, typed), edges


def _nodes_by_type(data: Any, count: int, typed: Typed) -> dict[str, Nodes]:
    """Return the rows of a `Data` that each type has; a type does not have what is NaN in all its rows, as PyG fills in."""
    x, y, ids = (_checked(_get(data, key), count, key) for key in ("x", "y", "ids"))
    x = None if x is None else as_dense(x, "x")
    y = None if y is None else as_dense(y, "y")
    masks = _masks(data, count, "nodes")
    nodes = {}
    for name, rows in typed.nodes.items():
        own_x, own_y = (None if one is None else one[rows] for one in (x, y))
        nodes[name] = Nodes(
            None if own_x is None or _is_unknown(own_x) else own_x,
            None if own_y is None or _is_unknown(own_y) or (own_y == -1).all() else own_y,
            None if ids is None else _taken(ids, rows),
            {split: mask[rows] for split, mask in masks.items()},
            len(rows),
        )
    return nodes


def _is_unknown(values: np.ndarray) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).all())


def _taken(ids: Sequence[Any], rows: np.ndarray) -> list[Any]:
    return [ids[row] for row in rows.tolist()]


def to_pyg(graph: HetGraph) -> Any:
    """Return a `HeteroData` of a graph, with `x`, `y`, masks, `edge_index` and `edge_weight`; ids and classes, where there are
    names, are the lists `ids` of a node type and `classes`. Other columns of labels are `NAME` of their type or relation, with
    `NAME_train_mask` ..., and `NAME_index` of pairs; `label_columns` says which, for `from_pyg`.

    Raises:
      ImportError: PyG is not installed.
    """
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for name, count in graph.schema.nodes.items():
        data[name].num_nodes = count
        if name in graph.features:
            data[name].x = torch.from_numpy(graph.features[name].copy())
        if name in graph.names.nodes:
            data[name].ids = back.node_ids(graph, name)
    target = data[graph.schema.target]
    target.y = torch.from_numpy(graph.labels.astype(graph.labels.dtype if graph.numeric else np.int64))
    for key, mask in back.masks(graph).items():
        target[key] = torch.from_numpy(mask)
    if graph.names.classes is not None:
        data.classes = graph.names.class_names(graph.schema.classes)
    for relation, source, end, weights in back.edge_lists(graph):
        data[tuple(relation)].edge_index = torch.from_numpy(np.stack([source, end]))
        if weights is not None:
            data[tuple(relation)].edge_weight = torch.from_numpy(weights.copy())
    if graph.label_name != LABEL_NAME:
        data.label_name = graph.label_name
    if graph.numeric:
        data.label_numbers = True
    if graph.columns:
        owners: list[str | Relation] = [*graph.schema.nodes, *graph.schema.relations]
        data.label_columns = {}
        for owner in owners:
            store = data[tuple(owner)] if isinstance(owner, Relation) else data[owner]
            key = owner.key if isinstance(owner, Relation) else owner
            marks = {name: _write(store, name, column) for name, column in other_columns(graph, owner).items()}
            data.label_columns |= {f"{key}.{name}": mark for name, mark in marks.items()}
    return data


def _write(store: Any, name: str, column: Column) -> Any:
    """Write a column of labels into a store; return `NUMBERS`, or the names of the classes, or None where they have none."""
    import torch

    store[name] = torch.from_numpy(np.array(column.labels, np.float32 if column.numeric else np.int64))
    for key, mask in masks_of(column).items():
        store[f"{name}_{key}"] = torch.from_numpy(mask)
    if column.ends is not None:
        store[f"{name}_index"] = torch.from_numpy(np.stack(column.ends).astype(np.int64))
    return NUMBERS if column.numeric else None if column.names is None else column.names.values.to_pylist()
