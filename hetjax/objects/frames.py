"""Frames of pandas, or of any library whose columns can be asked for by name: a frame per node type, and one per relation."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column, columns_of, kind_of
from hetjax.casts.edges import Ends, as_ends
from hetjax.casts.ids import as_ids, positions
from hetjax.casts.labels import Categories, class_numbers
from hetjax.casts.numbers import from_columns
from hetjax.casts.splits import MASKS, SPELLINGS, as_masks, from_masks, from_words
from hetjax.graph.arrow import to_arrow
from hetjax.graph.columns import SPLITS, Column
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Ids
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.arrays import as_relation, check_mappings, from_arrays
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
    numbers: bool | Collection[str] = False,
    labels: Sequence[str] | str = (),
) -> HetGraph:
    """Return a graph of `{type: frame}` and `{relation: frame}`; frames of polars, Arrow tables and dictionaries of columns do too.

    What is taken by name or left out is said in a line. docs/casts.md lists what every kind of value means.

    Args:
      nodes: a row per node, whose id is in the column `id`, or else in the frame's index. Numbers, booleans and dates are
        features, unless `features` chooses; other columns are left out. A column `split` has the words train, validation and
        test; or columns `train_mask`, `val_mask` and `test_mask` have the split.
      edges: the ids of sources and targets in the columns `source` and `target`, `src` and `dst`, or others of
        `hetjax.casts.roles`, or else in the only two; `weight` weighs them. A text as key, `RELATION.NAME`, has a frame of
        labelled pairs, as `labels` of `hetjax.from_arrays`.
      label: the column of labels, which one frame has: texts, whole numbers or a categorical, missing where not known; or
        several columns of 0 and 1.
      features: the columns that are features, per node type.
      splits, reverse, seed: as in `hetjax.from_arrays`, with ids as the frame has them; splits that are given come before
        columns.
      target: the node type to classify, of a graph to predict, whose frame needs no column of labels.
      numbers: whether the labels are numbers to predict, not classes; `label` may name several columns of them; or the names of those
        that are.
      labels: the columns of labels in place of `label`, where there are several: `TYPE.NAME`, a column of a frame of nodes, the
        first of which is the graph's own; or `RELATION.NAME`, one of a frame of edges. Splits of their own are in `NAME_split`.

    Raises:
      InputError: as `hetjax.from_arrays`; an id twice, or of an edge that is no node's; or no such column.
    """
    check_mappings({"nodes": nodes, "edges": edges})
    known = [as_relation(key) for key in edges if not isinstance(key, str)]
    tables: dict[Any, Any] = {
        key: frame for key, frame in edges.items() if isinstance(key, str) and full_name(key, (), known)[1]
    }
    links = {as_relation(key): frame for key, frame in edges.items() if key not in tables}
    named = named_columns(labels, nodes, links)
    named_nodes = [one for one in named if one.relation is None]
    wanted = list(label) if isinstance(label, list | tuple) else [label]
    columns = {name: _columns(frame, f"nodes of type {name!r}") for name, frame in nodes.items()}
    for name in features or {}:
        if name not in nodes:
            raise InputError(f"features of {name!r}: no frame of nodes of this type among {sorted(nodes)}")
    given: dict[str, Any] = {}
    taken: dict[str, list[Any]] = {name: [] for name in nodes}
    if named_nodes:
        given = {one.full: attribute_of(one, _as_mapping(nodes[one.owner])) for one in named_nodes}
        for one in named_nodes:
            taken[one.owner] += [one.attribute, *split_names(one.attribute)]
        own = target if target is not None and target in nodes else named_nodes[0].owner
    else:
        labelled = [name for name, names in columns.items() if wanted[0] in names]
        pairs_alone = not labelled and target is None and bool(named or tables)
        own = "" if pairs_alone else back.only_target(labelled, target, nodes)
        if own in labelled:
            taken[own], given = wanted, {own: _labels(nodes[own], own, wanted, numbers is True)}
    roles = {name: _roles(names, taken[name]) for name, names in columns.items()}
    ids = {name: _ids(frame, name, roles[name]) for name, frame in nodes.items()}
    matrices = {name: _features(nodes[name], name, roles[name], taken[name], features) for name in nodes}
    _say_left_out(roles, {own, *(one.owner for one in named_nodes)}, own, splits is not None)
    by_column = _splits_by_column(splits, nodes, roles, ids, named_nodes, own)
    for one in named:
        if one.relation is not None:
            given[one.full] = _pairs(links[one.relation], one, ids)
    given |= {str(key): frame for key, frame in tables.items()}
    ends: dict[Any, Ends] = {
        r: _ends(_without(frame, [one for one in named if one.relation == r]), r, ids) for r, frame in links.items()
    }
    return from_arrays(
        ends,
        {name: matrix for name, matrix in matrices.items() if matrix is not None},
        given or {own: None},
        by_column,
        {name: len(one) for name, one in ids.items()},
        {name: one.values for name, one in ids.items()},
        reverse,
        seed,
        target,
        numbers,
    )


def _as_mapping(frame: Any) -> dict[Any, Any]:
    """Return the columns of a frame by their names."""
    return {name: frame[name] for name in columns_of(frame) or ()}


def _without(frame: Any, named: Sequence[Named]) -> Any:
    """Return a frame of edges without columns of labels and of their splits."""
    left = {name for one in named for name in (one.attribute, *split_names(one.attribute))}
    return {name: column for name, column in _as_mapping(frame).items() if name not in left} if named else frame


def _pairs(frame: Any, one: Named, ids: Mapping[str, Ids]) -> dict[str, Any]:
    """Return a column of a frame of edges as labelled pairs."""
    relation, place = one.relation, f"labels {one.full!r}"
    assert relation is not None
    columns = _as_mapping(frame)
    labels, masks = attribute_of(one, columns), own_splits(one.attribute, columns, place)
    ends = {
        name: column for name, column in columns.items() if name not in (one.attribute, *split_names(one.attribute))
    }
    found = _ends(ends, relation, ids)
    pairs: dict[str, Any] = {"source": found.source, "target": found.target, "labels": labels}
    named = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}
    return pairs | {named[split]: mask for split, mask in (masks or {}).items()}


def _splits_by_column(
    splits: Any,
    nodes: Mapping[str, Any],
    roles: Mapping[str, Roles],
    ids: Mapping[str, Ids],
    named: Sequence[Named],
    own: str,
) -> Any:
    """Return splits as `from_arrays` takes them: those that are given, or those in the columns of frames."""
    if splits is not None:
        by_words = isinstance(splits, Mapping) and not any(key in (*SPLITS, *SPELLINGS) for key in splits)
        if not by_words:
            return as_masks(splits, ids[own]) if own else splits
        types = {one.full: one.owner for one in named} | {name: name for name in nodes}
        return {
            key: as_masks(one, ids[types[key]]) if types.get(key) is not None else one for key, one in splits.items()
        }
    of_types = {name: _splits(nodes[name], name, roles[name]) for name in {own, *(one.owner for one in named)} if name}
    if not named:
        return of_types.get(own) or (0.6, 0.2, 0.2)
    found = {}
    for one in named:
        masks = own_splits(one.attribute, _as_mapping(nodes[one.owner]), f"nodes of type {one.owner!r}")
        if masks := masks or of_types[one.owner]:
            first = one is next(other for other in named if other.owner == one.owner)
            if first or masks is not of_types[one.owner]:
                found[one.full] = masks
    return found or (0.6, 0.2, 0.2)


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


def _say_left_out(roles: Mapping[str, Roles], labelled: Collection[str], target: str, given: bool) -> None:
    """Say which columns of splits are not used: those of types without labels, and all where splits are given."""
    for name, one in roles.items():
        columns = [str(column) for column in (one.split, *one.masks.values()) if column is not None]
        if columns and (name not in labelled or given):
            why = "splits are given" if name in labelled else f"labels are of type {target!r}"
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
    several labels or numbers a node) and `split`, ids as the index; and `source`, `target`, `weight`. Labels that have a name are called so;
    of other columns there are `NAME` and `NAME_split`, and a frame of pairs `RELATION.NAME`: name them in `labels`.

    Raises:
      ImportError: pandas is not installed.
    """
    import pandas as pd

    frames = {}
    for name in graph.schema.nodes:
        matrix = graph.features.get(name)
        columns = {} if matrix is None else {f"x_{number}": matrix[:, number] for number in range(matrix.shape[1])}
        frames[name] = pd.DataFrame(columns, index=pd.Index(back.node_ids(graph, name)))
        for label, column in other_columns(graph, name).items():
            frames[name][label] = _cells(column)
            frames[name][f"{label}_split"] = split_words(column)
    target, classes = frames[graph.schema.target], graph.names.class_names(graph.schema.classes)
    if graph.labels.ndim == 2:
        for number, name in enumerate(classes):
            target[f"{graph.label_name}_{name}"] = graph.labels[:, number]
    else:
        codes = graph.labels if graph.numeric else pd.Categorical.from_codes(graph.labels, classes)
        target[graph.label_name] = codes
    target["split"] = split_words(graph.own_column)
    links: dict[Any, Any] = {}
    for relation, source, end, weights in back.edge_lists(graph):
        called = [np.array(back.node_ids(graph, name), object) for name in (relation.source, relation.target)]
        link: dict[str, np.ndarray] = {"source": called[0][source], "target": called[1][end]}
        links[relation] = pd.DataFrame(link if weights is None else link | {"weight": weights})
    for name, column in graph.columns.items():
        if column.relation is not None and column.ends is not None:
            types = column.relation.source, column.relation.target
            pair = [np.array(back.node_ids(graph, t), object)[ids] for t, ids in zip(types, column.ends)]
            parts = {"source": pair[0], "target": pair[1], "label": _cells(column), "split": split_words(column)}
            links[name] = pd.DataFrame(parts)
    return frames, links


def _cells(column: Column) -> Any:
    """Return labels as a column of a frame: a list per row where it may have several."""
    if column.labels.ndim == 2:
        return column.labels.tolist()
    if column.numeric:
        return column.labels
    import pandas as pd

    names = range(column.classes) if column.names is None else column.names.values.to_pylist()
    return pd.Categorical.from_codes(column.labels, list(map(str, names)))
