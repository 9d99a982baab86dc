"""DGL's graphs: read by what they offer, so that DGL and torch are imported only to make one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.objects import back
from hetjax.objects.arrays import from_arrays
from hetjax.objects.casts import SAYS

FEATURES = "feat", "x", "features", "feature"
LABELS = "label", "labels", "y"
WEIGHTS = "weight", "edge_weight", "w"


def from_dgl(
    graph: Any,
    target: str | None = None,
    reverse: bool = False,
    splits: Any = None,
    seed: int = 0,
) -> HetGraph:
    """A graph from a `dgl.DGLGraph`, of one kind of node or of several.

    Read are the data of nodes under `feat` (or `x`, `features`, `feature`), `label` (or `labels`, `y`), `train_mask`, `val_mask`
    and `test_mask`, and `id`; and of edges under `weight` (or `edge_weight`, `w`).

    Args:
      graph: the object; what is in it is not copied where hetjax can use it as it is.
      target: the node type to classify; needed where several have labels.
      reverse, splits, seed: as in `hetjax.from_arrays`; splits that are given come before masks.

    Raises:
      InputError: as `hetjax.from_arrays`; or labels of no type, or of several.
    """
    data = {name: graph.nodes[name].data for name in graph.ntypes}
    labelled = {name: found for name, about in data.items() if (found := _first(about, LABELS)) is not None}
    target = back.only_target(list(labelled), target)
    features = {name: _first(about, FEATURES) for name, about in data.items()}
    ids = {name: about.get("id") for name, about in data.items()}
    if splits is None:
        there = {split: data[target].get(mask) for split, mask in back.MASKS.items()}
        splits = {split: _bool(mask) for split, mask in there.items() if mask is not None} or (0.6, 0.2, 0.2)
    edges = {}
    for kind in graph.canonical_etypes:
        weights = _first(graph.edges[kind].data, WEIGHTS)
        ends = graph.edges(etype=kind, order="eid")
        edges[kind] = ends if weights is None else (*ends, weights)
    return from_arrays(
        edges,
        {name: matrix for name, matrix in features.items() if matrix is not None},
        {target: labelled[target]},
        splits,
        {name: int(graph.num_nodes(name)) for name in graph.ntypes},
        {name: given for name, given in ids.items() if given is not None},
        reverse,
        seed,
    )


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((data[key] for key in keys if key in data), None)


def _bool(mask: Any) -> Any:
    """Masks of DGL's data sets are sometimes numbers."""
    return mask.bool() if hasattr(mask, "bool") else np.asarray(mask, bool)


def to_dgl(graph: HetGraph) -> Any:
    """A `dgl.DGLGraph` with `feat`, `label`, masks, `weight`, and `id` where ids are numbers; DGL holds no texts, so that
    other ids and the names of classes are left out, which a line says.

    Raises:
      ImportError: DGL is not installed.
    """
    import dgl
    import torch

    lists = list(back.edge_lists(graph))
    ends = {tuple(r): (torch.from_numpy(source), torch.from_numpy(target)) for r, source, target, _ in lists}
    made = dgl.heterograph(ends, num_nodes_dict=dict(graph.schema.nodes))
    for relation, _, _, weights in lists:
        if weights is not None:
            made.edges[tuple(relation)].data["weight"] = torch.from_numpy(weights.copy())
    for name, matrix in graph.features.items():
        made.nodes[name].data["feat"] = torch.from_numpy(matrix.copy())
    for name, ids in graph.names.nodes.items():
        if str(ids.values.type) == "int64":
            made.nodes[name].data["id"] = torch.from_numpy(ids.values.to_numpy().copy())
        else:
            SAYS.warning("ids of type %r are texts, which DGL does not hold, and are left out", name)
    target = made.nodes[graph.schema.target].data
    target["label"] = torch.from_numpy(graph.labels.astype(np.int64))
    for key, mask in back.masks(graph).items():
        target[key] = torch.from_numpy(mask)
    return made
