"""DGL's graphs: read by what they offer, so that DGL and torch are imported only to make one."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from hetjax.casts.column import as_column, as_dense
from hetjax.casts.edges import Ends
from hetjax.casts.ids import node_numbers
from hetjax.casts.numbers import as_weights
from hetjax.casts.roles import WEIGHTS
from hetjax.casts.splits import MASKS, from_masks
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.arrays import as_relation, from_arrays
from hetjax.objects.typed import by_type
from hetjax.system.errors import InputError, reading
from hetjax.system.logs import log

FEATURES = "feat", "x", "features", "feature"
LABELS = "label", "labels", "y"
TYPE, NUMBER = "_TYPE", "_ID"  # dgl.NTYPE and dgl.ETYPE, dgl.NID and dgl.EID
NODE_KEYS = (*FEATURES, *LABELS, *MASKS, "id")


@reading("hetjax.from_dgl")
def from_dgl(
    graph: Any,
    target: str | None = None,
    reverse: bool = False,
    splits: Any = None,
    seed: int = 0,
) -> HetGraph:
    """Return a graph of a `dgl.DGLGraph`, of one kind of node or of several.

    Read are the data of nodes under `feat` (or `x`, `features`, `feature`), `label` (or `labels`, `y`), `train_mask`, `val_mask`
    and `test_mask`, and `id`; and of edges under `weight` (or `weights`, `edge_weight`, `w`). What else there is, such as
    features of edges, is left out, which a line says. A graph that `dgl.to_homogeneous` made becomes as many node types and
    relations as it has numbers of types.

    Args:
      graph: the object; what is in it is not copied where hetjax can use it as it is.
      target: the node type to classify; needed where several have labels, and where none has, of a graph to predict.
      reverse, splits, seed: as in `hetjax.from_arrays`; splits that are given come before masks.

    Raises:
      InputError: as `hetjax.from_arrays`; or labels of no type, or of several.
    """
    if not hasattr(graph, "canonical_etypes") or not hasattr(graph, "ntypes"):
        raise InputError(f"{type(graph).__name__}, and should be a graph of DGL")
    data = {name: dict(graph.nodes[name].data) for name in graph.ntypes}
    counts = {name: int(graph.num_nodes(name)) for name in graph.ntypes}
    edges: dict[Any, Ends] = {as_relation(kind): _ends(graph, kind) for kind in graph.canonical_etypes}
    for name, columns in data.items():
        _say_left_out(f"nodes of type {name!r}", columns, [_key(columns, k) for k in (FEATURES, LABELS, ["id"])], MASKS)
    if len(data) == 1 and len(edges) == 1:
        data, counts, edges = _by_type(graph, data, counts, edges)
    labelled = [name for name, columns in data.items() if _key(columns, LABELS)]
    asked, target = target, back.only_target(labelled, target, data)
    features = {name: columns.get(_key(columns, FEATURES)) for name, columns in data.items()}
    if splits is None:
        place = f"nodes of type {target!r}"
        masks = {key: as_column(mask, f"{place}: {key}") for key, mask in data[target].items() if key in MASKS}
        splits = from_masks(masks, place) or (0.6, 0.2, 0.2)
    return from_arrays(
        edges,
        {name: matrix for name, matrix in features.items() if matrix is not None},
        {target: data[target].get(_key(data[target], LABELS))},
        splits,
        counts,
        {name: columns["id"] for name, columns in data.items() if "id" in columns},
        reverse,
        seed,
        asked,
    )


def _key(data: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return the first of some names that is there; empty if none is."""
    return next((key for key in keys if key in data), "")


def _say_left_out(place: str, data: Iterable[str], used: Iterable[str], expected: Collection[str] = ()) -> None:
    if left := [key for key in data if key not in (*used, *expected, TYPE, NUMBER)]:
        log.warning("%s: left out: %s", place, ", ".join(map(str, left)))


def _ends(graph: Any, kind: tuple[str, str, str]) -> Ends:
    """Return node numbers and weights of a relation's edges."""
    data, place = graph.edges[kind].data, f"relation {as_relation(kind)}"
    weights = [key for key in WEIGHTS if key in data]
    if len(weights) > 1:
        raise InputError(f"{place}: {', '.join(weights)} may all be weights: leave one")
    left = [key for key in data if key not in (*weights, TYPE, NUMBER)]
    if left:
        log.warning("%s: left out: %s: hetjax has no features of edges", place, ", ".join(map(str, left)))
    ends = graph.edges(etype=kind, order="eid")
    source, target = (node_numbers(one, f"{place}: {side}") for one, side in zip(ends, ("source", "target")))
    return Ends(source, target, as_weights(data[weights[0]], f"{place}: weight") if weights else None)


def _by_type(graph: Any, data: dict, counts: dict, edges: dict) -> tuple[dict, dict, dict]:
    """Return the nodes' data, their numbers and the edges by type, where a homogeneous graph says the types."""
    ((name, columns),), ((relation, ends),) = data.items(), edges.items()
    node_type, edge_type = columns.get(TYPE), graph.edges[tuple(relation)].data.get(TYPE)
    if not _several(node_type) and not _several(edge_type):
        return data, counts, edges
    typed = by_type((ends.source, ends.target), counts[name], node_type, edge_type)
    parts: dict[Relation, Ends] = {}
    for one, places in typed.edges.items():
        weights = None if ends.weights is None else ends.weights[places]
        parts[one] = Ends(typed.number[ends.source[places]], typed.number[ends.target[places]], weights)
    dense = {key: as_dense(column, key) for key, column in columns.items() if key in NODE_KEYS}
    rows = {one: {key: column[members] for key, column in dense.items()} for one, members in typed.nodes.items()}
    for values in rows.values():
        for key in [key for key in LABELS if key in values and (values[key] == -1).all()]:
            del values[key]
    return rows, {one: len(members) for one, members in typed.nodes.items()}, parts


def _several(numbers: Any) -> bool:
    """Tell whether there are numbers of several types."""
    return numbers is not None and len(np.unique(as_dense(numbers, TYPE))) > 1


def to_dgl(graph: HetGraph) -> Any:
    """Return a `dgl.DGLGraph` with `feat`, `label`, masks, `weight`, and `id` where ids are numbers; DGL holds no texts, so that
    other ids and the names of classes are left out, which a line says.

    Raises:
      ImportError: DGL is not installed.
    """
    import dgl
    import torch

    lists = list(back.edge_lists(graph))
    ends = {tuple(r): (torch.from_numpy(source), torch.from_numpy(target)) for r, source, target, _ in lists}
    dgl_graph = dgl.heterograph(ends, num_nodes_dict=dict(graph.schema.nodes))
    for relation, _, _, weights in lists:
        if weights is not None:
            dgl_graph.edges[tuple(relation)].data["weight"] = torch.from_numpy(weights.copy())
    for name, matrix in graph.features.items():
        dgl_graph.nodes[name].data["feat"] = torch.from_numpy(matrix.copy())
    for name, ids in graph.names.nodes.items():
        if str(ids.values.type) == "int64":
            dgl_graph.nodes[name].data["id"] = torch.from_numpy(ids.values.to_numpy().copy())
        else:
            log.warning("ids of type %r are texts, which DGL does not hold, and are left out", name)
    target = dgl_graph.nodes[graph.schema.target].data
    target["label"] = torch.from_numpy(graph.labels.astype(graph.labels.dtype if graph.numeric else np.int64))
    for key, mask in back.masks(graph).items():
        target[key] = torch.from_numpy(mask)
    return dgl_graph
