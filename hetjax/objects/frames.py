"""Frames of pandas, or of any library whose columns can be asked for by name: a frame per node type, and one per relation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column, columns_of, kind_of
from hetjax.casts.edges import Ends, as_ends
from hetjax.casts.ids import as_ids, positions
from hetjax.casts.labels import Categories, class_numbers
from hetjax.casts.numbers import from_columns
from hetjax.casts.splits import MASKS, as_masks, from_masks, from_words
from hetjax.graph.arrow import to_arrow
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Ids
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.arrays import as_relation, check_mappings, from_arrays
from hetjax.system.errors import InputError, reading, short
from hetjax.system.logs import log

ID, SPLIT = "id", "split"


class Roles(NamedTuple):
    """The columns of a frame of nodes, by what they are.

    Attributes:
      ids: None: the frame's index.
      split: None where there is none.
      masks: by the name of a mask in lower case.
      others: which may be features.
    """

    ids: Any
    split: Any
    masks: dict[str, Any]
    others: list[Any]


@reading("hetjax.from_pandas")
def from_pandas(
    nodes: Mapping[str, Any],
    edges: Mapping[tuple[str, str, str], Any],
    label: str | Sequence[str] = "label",
    features: Mapping[str, Sequence[str]] | None = None,
    splits: Any = None,
    reverse: bool = False,
    seed: int = 0,
    target: str | None = None,
    numbers: bool = False,
) -> HetGraph:
    """Return a graph of `{type: frame}` and `{relation: frame}`; frames of polars, Arrow tables and dictionaries of columns do too.

    What is taken by name or left out is said in a line. docs/casts.md lists what every kind of value means.

    Args:
      nodes: a row per node, whose id is in the column `id`, or else in the frame's index. Numbers, booleans and dates are
        features, unless `features` chooses; other columns are left out. A column `split` has the words train, validation and
        test; or columns `train_mask`, `val_mask` and `test_mask` have the split.
      edges: the ids of sources and targets in the columns `source` and `target`, `src` and `dst`, or others of
        `hetjax.casts.roles`, or else in the only two; `weight` weighs them.
      label: the column of labels, which one frame has: texts, whole numbers or a categorical, missing where not known; or
        several columns of 0 and 1.
      features: the columns that are features, per node type.
      splits, reverse, seed: as in `hetjax.from_arrays`, with ids as the frame has them; splits that are given come before
        columns.
      target: the node type to classify, of a graph to predict, whose frame needs no column of labels.
      numbers: whether the labels are numbers to predict, not classes; `label` may name several columns of them.

    Raises:
      InputError: as `hetjax.from_arrays`; an id twice, or of an edge that is no node's; or no such column.
    """
    check_mappings({"nodes": nodes, "edges": edges})
    wanted = list(label) if isinstance(label, list | tuple) else [label]
    columns = {name: _columns(frame, f"nodes of type {name!r}") for name, frame in nodes.items()}
    labelled, asked = [name for name, names in columns.items() if wanted[0] in names], target
    target = back.only_target(labelled, target, nodes)
    for name in features or {}:
        if name not in nodes:
            raise InputError(f"features of {name!r}: no frame of nodes of this type among {sorted(nodes)}")
    taken = {name: wanted if name == target else [] for name in nodes}
    roles = {name: _roles(names, taken[name]) for name, names in columns.items()}
    ids = {name: _ids(frame, name, roles[name]) for name, frame in nodes.items()}
    matrices = {name: _features(nodes[name], name, roles[name], taken[name], features) for name in nodes}
    _say_left_out(roles, target, splits is not None)
    if splits is None:
        splits = _splits(nodes[target], target, roles[target]) or (0.6, 0.2, 0.2)
    else:
        splits = as_masks(splits, ids[target])
    return from_arrays(
        {relation: _ends(frame, as_relation(relation), ids) for relation, frame in edges.items()},
        {name: matrix for name, matrix in matrices.items() if matrix is not None},
        {target: _labels(nodes[target], target, wanted, numbers) if target in labelled else None},
        splits,
        {name: len(one) for name, one in ids.items()},
        {name: one.values for name, one in ids.items()},
        reverse,
        seed,
        asked,
        numbers,
    )


def _columns(frame: Any, place: str) -> list[Any]:
    """Return the columns of a frame, of which no two have one name."""
    if (columns := columns_of(frame)) is None:
        raise InputError(f"{place}: {type(frame).__name__}, and should be a frame, or a dictionary of columns")
    twice = next((name for number, name in enumerate(columns) if name in columns[:number]), None)
    if twice is not None:
        raise InputError(f"{place}: two columns are called {twice!r}")
    return columns


def _roles(columns: Sequence[Any], labels: Sequence[Any]) -> Roles:
    """Return the role of each column, by its name; an exact name comes before one in another case."""
    named = {str(name).strip().lower(): name for name in reversed(columns) if name not in labels}
    named |= {name: name for name in columns if isinstance(name, str) and name not in labels}
    taken = {key: named[key] for key in (ID, SPLIT, *MASKS) if key in named}
    others = [name for name in columns if name not in labels and not any(name is one for one in taken.values())]
    masks = {key: name for key, name in taken.items() if key in MASKS}
    return Roles(taken.get(ID), taken.get(SPLIT), masks, others)


def _ids(frame: Any, node_type: str, roles: Roles) -> Ids:
    place = f"nodes of type {node_type!r}"
    if roles.ids is None and not hasattr(frame, "index"):
        raise InputError(f"{place}: no column {ID!r} among {short(str(columns_of(frame)))}, and no index")
    if roles.ids not in (None, ID):
        log.warning("%s: column %r has the ids", place, roles.ids)
    given = frame.index if roles.ids is None else frame[roles.ids]
    likely = [name for name in roles.others if str(name).lower() in (f"{node_type.lower()}_id", "node_id", "nid")]
    if roles.ids is None and likely:
        log.warning(
            "%s: the index has the ids, and column %r is another; a column `id` would be taken", place, likely[0]
        )
    return Ids(as_ids(given, f"ids of type {node_type!r}"))


def _features(
    frame: Any, node_type: str, roles: Roles, labels: Sequence[Any], given: Mapping[str, Any] | None
) -> np.ndarray | None:
    place, asked = f"nodes of type {node_type!r}", (given or {}).get(node_type)
    names = roles.others if asked is None else [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        if name not in (column_names := columns_of(frame) or []):
            raise InputError(f"{place}: no column {name!r} among {', '.join(map(str, column_names))}")
    leaked = [str(name) for name in names if name in labels]
    if leaked:
        raise InputError(f"{place}: columns of labels are no features: {', '.join(leaked)}")
    return from_columns({name: frame[name] for name in names}, place, chosen=asked is not None)


def _say_left_out(roles: Mapping[str, Roles], target: str, given: bool) -> None:
    """Say which columns of splits are not used: those of other types, and all where splits are given."""
    for name, one in roles.items():
        columns = [str(column) for column in (one.split, *one.masks.values()) if column is not None]
        if columns and (name != target or given):
            why = "splits are given" if name == target else f"labels are of type {target!r}"
            log.warning("nodes of type %r: columns of splits are left out: %s: %s", name, ", ".join(columns), why)


def _splits(frame: Any, target: str, roles: Roles) -> dict[str, np.ndarray]:
    """Return a mask per split, from the columns that have them; none if there are no such columns."""
    place = f"nodes of type {target!r}"
    if roles.masks and roles.split is not None:
        listed = ", ".join(map(str, (roles.split, *roles.masks.values())))
        raise InputError(f"{place}: columns {listed} are all of splits: leave one kind, or give `splits`")
    if roles.masks:
        log.warning("%s: the split is in the columns %s", place, ", ".join(map(str, roles.masks.values())))
        masks = {key: as_column(frame[name], f"{place}: column {str(name)!r}") for key, name in roles.masks.items()}
        return from_masks(masks, place)
    if roles.split is None:
        return {}
    log.warning("%s: the split is in the column %r", place, roles.split)
    column = f"{place}: column {str(roles.split)!r}"
    return from_words(as_column(frame[roles.split], column), column)


def _labels(frame: Any, target: str, names: Sequence[Any], numbers: bool) -> Any:
    if len(names) == 1:
        return frame[names[0]]
    columns = []
    for name in names:
        place = f"labels of type {target!r}: column {str(name)!r}"
        if name not in (columns_of(frame) or ()):
            raise InputError(f"{place}: there is none of this name")
        if numbers:
            continue
        column = as_column(frame[name], place)
        column = column.cast("int8") if kind_of(column) == "boolean" else column
        columns.append(class_numbers(column, place))
    if numbers:
        return {str(name): frame[name] for name in names}
    return Categories(np.stack(columns, axis=1), [str(name) for name in names])


def _ends(frame: Any, relation: Relation, ids: Mapping[str, Ids]) -> Ends:
    """Return node numbers, and weights if any."""
    parts = as_ends(frame, relation)
    ends = {}
    for side, node_type in (("source", relation.source), ("target", relation.target)):
        if node_type not in ids:
            raise InputError(f"relation {relation}: no frame of nodes of type {node_type!r} among {sorted(ids)}")
        asked = getattr(parts, side)
        asked = to_arrow(asked) if isinstance(asked, np.ndarray) else asked
        ends[side] = positions(asked, ids[node_type], f"relation {relation}: {side}")
    return parts._replace(**ends)


def to_pandas(graph: HetGraph) -> tuple[dict[str, Any], dict[tuple[str, str, str], Any]]:
    """Return `({type: frame}, {relation: frame})`, as `from_pandas` takes them: columns `x_0` ..., `label` (or `label_CLASS` ..., with
    several labels or numbers a node) and `split`, ids as the index; and `source`, `target`, `weight`.

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
    if graph.labels.ndim == 2:
        for number, name in enumerate(classes):
            target[f"label_{name}"] = graph.labels[:, number]
    else:
        target["label"] = graph.labels if graph.numeric else pd.Categorical.from_codes(graph.labels, classes)
    split = np.full(len(graph.labels), None, object)
    for name, ids in graph.splits.items():
        split[ids] = name
    target["split"] = split
    links: dict[tuple[str, str, str], Any] = {}
    for relation, source, end, weights in back.edge_lists(graph):
        called = [np.array(back.node_ids(graph, name), object) for name in (relation.source, relation.target)]
        link: dict[str, np.ndarray] = {"source": called[0][source], "target": called[1][end]}
        links[relation] = pd.DataFrame(link if weights is None else link | {"weight": weights})
    return frames, links
