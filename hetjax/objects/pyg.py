"""PyG's `HeteroData` and `Data`: read by what they offer, so that PyG and torch are imported only to make one."""

from typing import Any

import numpy as np

from hetjax.datasets.homogeneous import EDGE, NODE
from hetjax.graph.hetgraph import HetGraph
from hetjax.objects import back, casts
from hetjax.objects.arrays import from_arrays

SPLIT_KEYS = ("train_mask", "train_idx"), ("val_mask", "val_idx"), ("test_mask", "test_idx")


def from_pyg(
    data: Any, target: str | None = None, reverse: bool = False, splits: Any = None, seed: int = 0
) -> HetGraph:
    """A graph from a `torch_geometric.data.HeteroData`, or a `Data`, whose node type is `node` and relation `edge`.

    Read are `x`, `y`, `num_nodes`, and `train_mask`, `val_mask` and `test_mask` (or `train_idx` ...) of nodes; `edge_index`, or
    `adj_t`, and `edge_weight` of edges; and `ids` and `classes` as `to_pyg` leaves them. Features of edges are left out, which
    a line says.

    Args:
      data: the object; what is in it is not copied where hetjax can use it as it is.
      target: the node type to classify; needed where several have `y`.
      reverse, splits, seed: as in `hetjax.from_arrays`; splits that are given come before masks.

    Raises:
      InputError: as `hetjax.from_arrays`; or labels of no type, or of several.
    """
    homogeneous = not hasattr(data, "node_types")
    stores = {NODE: data} if homogeneous else {name: data[name] for name in data.node_types}
    links: dict[Any, Any] = {EDGE: data} if homogeneous else {kind: data[kind] for kind in data.edge_types}
    target = back.only_target([name for name, store in stores.items() if _get(store, "y") is not None], target)
    ids = {name: _get(store, "ids") for name, store in stores.items()}
    if splits is None:
        found = zip(("train", "validation", "test"), (_first(stores[target], keys) for keys in SPLIT_KEYS))
        splits = {name: chosen for name, chosen in found if chosen is not None} or (0.6, 0.2, 0.2)
    labels = casts.as_numpy(stores[target].y, "y")
    classes = getattr(data, "classes", None)
    return from_arrays(
        {kind: _ends(store, kind) for kind, store in links.items()},
        {name: store.x for name, store in stores.items() if _get(store, "x") is not None},
        {target: labels if classes is None else casts.Categories(labels, classes)},
        splits,
        {name: int(store.num_nodes) for name, store in stores.items()},
        {name: given for name, given in ids.items() if given is not None},
        reverse,
        seed,
    )


def _get(store: Any, key: str) -> Any:
    """What a store of PyG has under a name; None if nothing."""
    return getattr(store, key, None)


def _first(store: Any, keys: tuple[str, ...]) -> Any:
    return next((found for key in keys if (found := _get(store, key)) is not None), None)


def _ends(store: Any, kind: tuple) -> tuple:
    if _get(store, "edge_attr") is not None:
        casts.SAYS.warning("relation %s: edge_attr is left out: hetjax has no features of edges", kind)
    if _get(store, "edge_index") is None and _get(store, "adj_t") is not None:
        target, source, weights = store["adj_t"].coo()
        return (source, target) if weights is None else (source, target, weights)
    weights = _get(store, "edge_weight")
    return tuple(store["edge_index"]) if weights is None else (*store["edge_index"], weights)


def to_pyg(graph: HetGraph) -> Any:
    """A `HeteroData` of a graph, with `x`, `y`, masks, `edge_index` and `edge_weight`; ids and classes, where there are
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
    target.y = torch.from_numpy(graph.labels.astype(np.int64))
    for key, mask in back.masks(graph).items():
        target[key] = torch.from_numpy(mask)
    if graph.names.classes is not None:
        data.classes = graph.names.class_names(graph.schema.classes)
    for relation, source, end, weights in back.edge_lists(graph):
        data[tuple(relation)].edge_index = torch.from_numpy(np.stack([source, end]))
        if weights is not None:
            data[tuple(relation)].edge_weight = torch.from_numpy(weights.copy())
    return data
