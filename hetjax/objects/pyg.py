"""PyG's `HeteroData` and `Data`: read by what they offer, so that PyG and torch are imported only to make one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column, as_dense
from hetjax.casts.edges import Ends
from hetjax.casts.ids import node_numbers
from hetjax.casts.labels import Categories
from hetjax.casts.numbers import as_weights
from hetjax.casts.splits import MASKS, as_mask, check_once
from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.graph.hetgraph import HetGraph
from hetjax.objects import back
from hetjax.objects.arrays import as_relation, from_arrays
from hetjax.objects.numbering import as_count
from hetjax.objects.typed import Typed, by_type
from hetjax.system.errors import InputError, reading, short
from hetjax.system.logs import log

INDICES = {"train_idx": "train", "val_idx": "validation", "valid_idx": "validation", "test_idx": "test"}
NODE_KEYS = {"x", "y", "num_nodes", "ids", "node_type", *MASKS, *INDICES}
EDGE_KEYS = {"edge_index", "adj_t", "edge_weight", "edge_type"}
GRAPH_KEYS = {"classes", "_node_type_names", "_edge_type_names"}


class Nodes(NamedTuple):
    """The columns of a node type: features, labels, ids and masks by split; None where it has none; `size`: how many nodes, if that is known."""

    x: Any
    y: Any
    ids: Any
    masks: dict[str, np.ndarray]
    size: int | None


@reading("hetjax.from_pyg")
def from_pyg(
    data: Any, target: str | None = None, reverse: bool = False, splits: Any = None, seed: int = 0
) -> HetGraph:
    """Return a graph of a `torch_geometric.data.HeteroData`, or a `Data`, whose node type is `node` and relation `edge`.

    Read are `x`, `y`, `num_nodes`, and `train_mask`, `val_mask` and `test_mask` (or `train_idx` ...) of nodes; `edge_index`, or
    `adj_t`, and `edge_weight` of edges; and `ids` and `classes` as `to_pyg` leaves them. What else there is, such as features of
    edges, is left out, which a line says. A `Data` with `node_type` or `edge_type` becomes as many node types and relations.

    Args:
      data: the object; what is in it is not copied where hetjax can use it as it is.
      target: the node type to classify; needed where several have `y`, and where none has, of a graph to predict.
      reverse, splits, seed: as in `hetjax.from_arrays`; splits that are given come before masks.

    Raises:
      InputError: as `hetjax.from_arrays`; or labels of no type, or of several.
    """
    if hasattr(data, "node_types") and hasattr(data, "edge_types"):
        links = {as_relation(kind): data[kind] for kind in data.edge_types}
        edges: dict[Any, Ends] = {relation: _ends(store, f"relation {relation}") for relation, store in links.items()}
        nodes = {name: _nodes(data[name], f"nodes of type {name!r}") for name in data.node_types}
        _say_left_out({f"nodes of type {n!r}": data[n] for n in data.node_types}, NODE_KEYS)
        _say_left_out({f"relation {relation}": store for relation, store in links.items()}, EDGE_KEYS)
    elif _get(data, "edge_index") is not None or _get(data, "adj_t") is not None:
        nodes, edges = _homogeneous(data)
        _say_left_out({"data": data}, NODE_KEYS | EDGE_KEYS | GRAPH_KEYS)
    else:
        raise InputError(
            f"{type(data).__name__} without edge_index or adj_t: should be a Data or HeteroData with edges"
        )
    asked, target = target, back.only_target([name for name, one in nodes.items() if one.y is not None], target, nodes)
    if splits is None:
        splits = nodes[target].masks or (0.6, 0.2, 0.2)
    classes = _get(data, "classes")
    return from_arrays(
        edges,
        {name: one.x for name, one in nodes.items() if one.x is not None},
        {
            target: nodes[target].y
            if classes is None or nodes[target].y is None
            else Categories(nodes[target].y, classes)
        },
        splits,
        {name: one.size for name, one in nodes.items() if one.size is not None},
        {name: one.ids for name, one in nodes.items() if one.ids is not None},
        reverse,
        seed,
        asked,
    )


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


def _say_left_out(stores: Mapping[str, Any], expected: set[str]) -> None:
    for place, store in stores.items():
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
    names, are the lists `ids` of a node type and `classes`.

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
    return data
