"""DGL's graphs: read by what they offer, so that DGL and torch are imported only to make one."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hetjax.casts.column import as_column, as_dense
from hetjax.casts.edges import Ends
from hetjax.casts.ids import node_numbers
from hetjax.casts.numbers import as_weights
from hetjax.casts.roles import WEIGHTS
from hetjax.casts.splits import MASKS, from_masks
from hetjax.graph.columns import UNLABELLED, Column
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
    labels: Sequence[str] | str = (),
    numbers: bool | Collection[str] = False,
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
      labels: the columns of labels in place of `label`, where there are several: `TYPE.NAME` is `NAME` of the data of nodes, and
        `RELATION.NAME` that of the data of edges. Splits of their own are in `NAME_train_mask` ....
      numbers: whether labels are numbers to predict, not classes; or the names of those that are. Floats with fractions are.

    Raises:
      InputError: as `hetjax.from_arrays`; or labels of no type, or of several.
    """
    if not hasattr(graph, "canonical_etypes") or not hasattr(graph, "ntypes"):
        raise InputError(f"{type(graph).__name__}, and should be a graph of DGL")
    data = {name: dict(graph.nodes[name].data) for name in graph.ntypes}
    counts = {name: int(graph.num_nodes(name)) for name in graph.ntypes}
    named = named_columns(labels, data, [as_relation(kind) for kind in graph.canonical_etypes])
    used: dict[str, set[str]] = {}
    for one in named:
        used.setdefault(one.owner, set()).update((one.attribute, *split_names(one.attribute)))
    edges: dict[Any, Ends] = {
        as_relation(kind): _ends(graph, kind, used.get(as_relation(kind).key, ())) for kind in graph.canonical_etypes
    }
    for name, columns in data.items():
        known = [_key(columns, k) for k in (FEATURES, LABELS, ["id"])]
        _say_left_out(f"nodes of type {name!r}", columns, [*known, *used.get(name, ())], MASKS)
    if len(data) == 1 and len(edges) == 1:
        data, counts, edges = _by_type(graph, data, counts, edges)
    given, by_column = _columns(graph, data, edges, named)
    own = _own(data, target, named)
    if own:
        given = {own: data[own].get(_key(data[own], LABELS))} | given
        by_column = {own: _masks(data[own], own)} | by_column
    features = {name: columns.get(_key(columns, FEATURES)) for name, columns in data.items()}
    if splits is None:
        splits = {name: masks for name, masks in by_column.items() if masks} or (0.6, 0.2, 0.2)
    return from_arrays(
        edges,
        {name: matrix for name, matrix in features.items() if matrix is not None},
        given,
        splits,
        counts,
        {name: columns["id"] for name, columns in data.items() if "id" in columns},
        reverse,
        seed,
        target,
        as_numbers(numbers, given),
    )


def _own(data: Mapping[str, Mapping[str, Any]], target: str | None, named: Sequence[Named]) -> str:
    """Return the type whose `label` is the graph's own column; empty where `labels` name columns of nodes, or those of relations alone."""
    if any(one.relation is None for one in named):
        return ""
    labelled = [name for name, columns in data.items() if _key(columns, LABELS)]
    return "" if named and not labelled and target is None else back.only_target(labelled, target, data)


def _masks(columns: Mapping[str, Any], name: str) -> dict[str, np.ndarray]:
    """Return a mask per split of a node type; none if there are none."""
    place = f"nodes of type {name!r}"
    return from_masks({k: as_column(mask, f"{place}: {k}") for k, mask in columns.items() if k in MASKS}, place)


def _columns(
    graph: Any, data: Mapping[str, Mapping[str, Any]], edges: Mapping[Any, Ends], named: Sequence[Named]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns that are named, as `from_arrays` takes them, and their splits as far as there are masks."""
    given: dict[str, Any] = {}
    splits: dict[str, Any] = {}
    divided: set[str] = set()  # the types whose masks are another column's
    for one in named:
        columns = data.get(one.owner, {}) if one.relation is None else dict(graph.edges[tuple(one.relation)].data)
        values = attribute_of(one, columns)
        masks = own_splits(one.attribute, columns, f"labels {one.full!r}")
        if masks is None and one.relation is None and one.owner not in divided:
            masks = _masks(columns, one.owner)
        splits |= {one.full: masks} if masks else {}
        divided.add(one.owner)
        ends = edges[one.relation] if one.relation is not None else None
        given[one.full] = values if ends is None else (ends.source, ends.target, values)
    return given, splits


def _key(data: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return the first of some names that is there; empty if none is."""
    return next((key for key in keys if key in data), "")


def _say_left_out(place: str, data: Iterable[str], used: Iterable[str], expected: Collection[str] = ()) -> None:
    if left := [key for key in data if key not in (*used, *expected, TYPE, NUMBER)]:
        log.warning("%s: left out: %s", place, ", ".join(map(str, left)))


def _ends(graph: Any, kind: tuple[str, str, str], used: Collection[str]) -> Ends:
    """Return node numbers and weights of a relation's edges."""
    data, place = graph.edges[kind].data, f"relation {as_relation(kind)}"
    weights = [key for key in WEIGHTS if key in data]
    if len(weights) > 1:
        raise InputError(f"{place}: {', '.join(weights)} may all be weights: leave one")
    left = [key for key in data if key not in (*weights, *used, TYPE, NUMBER)]
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
    other ids and the names of classes are left out, which a line says. Other columns of labels are `NAME` and `NAME_train_mask` ... of
    their nodes, or of the edges that are the labelled pairs; pairs that are no edges, or are there twice, are left out with a line.

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
    for node_type in graph.schema.nodes:
        for name, column in other_columns(graph, node_type).items():
            rows = np.arange(len(column.labels))
            _write(dgl_graph.nodes[node_type].data, name, column, rows, len(rows))
    for relation, source, end, _ in lists:
        for name, column in other_columns(graph, relation).items():
            places = _edges_of(column, source, end)
            if places is None:
                words = "are no edges, or are there twice, and DGL holds labels of edges: left out"
                log.warning("labels %r of %s: some pairs %s", name, relation, words)
            else:
                _write(dgl_graph.edges[tuple(relation)].data, name, column, places, len(source))
    return dgl_graph


def _edges_of(column: Column, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Return the edge of each labelled pair, int64 `[pairs]`; None where one is no edge, or two are of one edge."""
    assert column.ends is not None
    width = np.int64(max(target.max(initial=0), column.ends[1].max(initial=0))) + 1
    keys, wanted = source * width + target, column.ends[0].astype(np.int64) * width + column.ends[1]
    order = np.argsort(keys, kind="stable")
    places = np.searchsorted(keys, wanted, sorter=order)
    if len(np.unique(wanted)) < len(wanted) or (places == len(keys)).any() or (keys[order[places]] != wanted).any():
        return None
    return order[places]


def _write(data: Any, name: str, column: Column, places: np.ndarray, count: int) -> None:
    """Write a column of labels into the data of nodes or edges, whose rows that it does not have are not known."""
    import torch

    dtype = np.float32 if column.numeric else np.int64
    values = np.full((count, *column.labels.shape[1:]), np.nan if column.numeric else UNLABELLED, dtype)
    values[places] = column.labels
    data[name] = torch.from_numpy(values)
    for key, rows in masks_of(column).items():
        mask = np.zeros(count, bool)
        mask[places] = rows
        data[f"{name}_{key}"] = torch.from_numpy(mask)
    if column.names is not None:
        log.warning("names of classes of %r are texts, which DGL does not hold, and are left out", name)
