"""Frames of pandas, or of any library whose columns can be asked for by name: a frame per node type, and one per relation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Ids
from hetjax.objects import back, casts
from hetjax.objects.arrays import from_arrays

ID, SPLIT = "id", "split"


def from_pandas(
    nodes: Mapping[str, Any],
    edges: Mapping[tuple[str, str, str], Any],
    label: str | Sequence[str] = "label",
    features: Mapping[str, Sequence[str]] | None = None,
    splits: Any = None,
    reverse: bool = False,
    seed: int = 0,
) -> HetGraph:
    """A graph from `{type: frame}` and `{relation: frame}`; frames of polars, Arrow tables and dictionaries of columns do too.

    Args:
      nodes: a row per node, whose id is in the column `id`, or else in the frame's index. Numbers and booleans are features,
        unless `features` chooses; other columns are left out, which a line says. A column `split` says train, validation or
        test.
      edges: the ids of sources and targets in the columns `source` and `target`, or else in the first two; `weight`, or a
        third one, weighs them.
      label: the column of labels, which one frame has: texts, whole numbers or a categorical, missing where not known; or
        several columns of 0 and 1.
      features: the columns that are features, per node type.
      splits, reverse, seed: as in `hetjax.from_arrays`; splits that are given come before the column.

    Raises:
      InputError: as `hetjax.from_arrays`; an id twice, or of an edge that is no node's; or no such column.
    """
    wanted = [label] if isinstance(label, str) else list(label)
    columns = {name: casts.columns_of(frame) or [] for name, frame in nodes.items()}
    target = back.only_target([name for name, there in columns.items() if wanted[0] in there], None)
    ids = {name: _ids(frame, name) for name, frame in nodes.items()}
    chosen = {name: _features(frame, name, columns[name], wanted, features) for name, frame in nodes.items()}
    if splits is None:
        splits = _splits(nodes[target]) if SPLIT in columns[target] else (0.6, 0.2, 0.2)
    return from_arrays(
        {relation: _ends(frame, relation, ids) for relation, frame in edges.items()},
        {name: matrix for name, matrix in chosen.items() if matrix is not None},
        {target: _labels(nodes[target], target, wanted)},
        splits,
        {name: len(one) for name, one in ids.items()},
        {name: one.values for name, one in ids.items()},
        reverse,
        seed,
    )


def _ids(frame: Any, node_type: str) -> Ids:
    if ID not in (casts.columns_of(frame) or ()) and not hasattr(frame, "index"):
        raise InputError(f"nodes of type {node_type!r}: no column {ID!r} among {casts.columns_of(frame)}, and no index")
    given = frame[ID] if ID in (casts.columns_of(frame) or ()) else frame.index
    return casts.as_ids(given, node_type)


def _features(
    frame: Any, node_type: str, there: list[str], label: list[str], given: Mapping | None
) -> np.ndarray | None:
    asked = (given or {}).get(node_type)
    for name in asked or ():
        if name not in there:
            raise InputError(f"nodes of type {node_type!r}: no column {name!r} among {', '.join(map(str, there))}")
    names = [name for name in there if name not in (*label, ID, SPLIT)] if asked is None else list(asked)
    columns = {name: casts.as_numpy(frame[name], f"{node_type!r}: column {name!r}") for name in names}
    odd = [name for name, column in columns.items() if column.dtype.kind not in "biuf"]
    if asked and odd:
        column = columns[odd[0]]
        raise InputError(f"nodes of type {node_type!r}: column {odd[0]!r} is {column.dtype}, and features are numbers")
    if odd:
        casts.SAYS.warning("nodes of type %r: columns that are no numbers are left out: %s", node_type, ", ".join(odd))
    numbers = [column for name, column in columns.items() if name not in odd]
    return np.stack(numbers, axis=1) if numbers else None


def _labels(frame: Any, target: str, names: list[str]) -> Any:
    if len(names) == 1:
        return frame[names[0]]
    columns = [casts.as_numpy(frame[name], f"labels of type {target!r}") for name in names]
    return casts.Categories(np.stack(columns, axis=1), names)


def _splits(frame: Any) -> dict[str, np.ndarray]:
    values = casts.as_numpy(frame[SPLIT], SPLIT)
    names = sorted({str(value) for value in values.tolist() if isinstance(value, str) and value})
    return {name: np.flatnonzero(values == name) for name in names}


def _ends(frame: Any, relation: tuple[str, str, str], ids: Mapping[str, Ids]) -> list[np.ndarray]:
    """Node numbers, and weights if any."""
    parts = casts.as_ends(frame, casts.as_relation(relation))
    for side, node_type in enumerate((relation[0], relation[2])):
        if node_type not in ids:
            raise InputError(f"relation {relation}: no frame of nodes of type {node_type!r} among {sorted(ids)}")
        place = f"relation {casts.Relation(*relation)}: {('source', 'target')[side]}"
        parts[side] = casts.found(parts[side], ids[node_type], place)
    return parts


def to_pandas(graph: HetGraph) -> tuple[dict[str, Any], dict[tuple[str, str, str], Any]]:
    """`({type: frame}, {relation: frame})`, as `from_pandas` takes them: columns `x_0` ..., `label` (or `label_CLASS` ..., with
    several labels a node) and `split`, ids as the index; and `source`, `target`, `weight`.

    Raises:
      ImportError: pandas is not installed.
    """
    import pandas as pd

    frames = {}
    for name in graph.schema.nodes:
        matrix = graph.features.get(name)
        columns = {} if matrix is None else {f"x_{number}": matrix[:, number] for number in range(matrix.shape[1])}
        frames[name] = pd.DataFrame(columns, index=pd.Index(back.node_ids(graph, name)))
    target, classes = frames[graph.schema.target], graph.names.class_names(graph.schema.classes)
    if graph.multilabel:
        for number, name in enumerate(classes):
            target[f"label_{name}"] = graph.labels[:, number]
    else:
        target["label"] = pd.Categorical.from_codes(graph.labels, classes)
    split = np.full(len(graph.labels), None, object)
    for name, ids in graph.splits.items():
        split[ids] = name
    target["split"] = split
    links: dict[tuple[str, str, str], Any] = {}
    for relation, source, end, weights in back.edge_lists(graph):
        called = [np.array(back.node_ids(graph, name), object) for name in (relation.source, relation.target)]
        about: dict[str, np.ndarray] = {"source": called[0][source], "target": called[1][end]}
        links[relation] = pd.DataFrame(about if weights is None else about | {"weight": weights})
    return frames, links
