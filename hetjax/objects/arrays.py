"""A graph from arrays as users have them: `hetjax.from_arrays`, which the doors for objects of other libraries use too."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hetjax.casts.column import columns_of
from hetjax.casts.edges import Ends, as_ends
from hetjax.casts.ids import as_ids
from hetjax.casts.labels import as_labels
from hetjax.casts.numbers import as_features, as_targets
from hetjax.casts.reverses import missing_reverses
from hetjax.casts.splits import as_splits
from hetjax.datasets.splits import Split, divide
from hetjax.graph.columns import UNLABELLED, Column, column_type
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.objects.columns import (
    SHARES,
    as_shares,
    divided,
    given_columns,
    numbers_by_column,
    splits_by_column,
)
from hetjax.objects.numbering import Pairs, first_seen, is_plain, node_counts, numbered, say_numbers
from hetjax.objects.pairs import GivenPairs, as_pairs
from hetjax.system.errors import InputError, nearest, reading, short
from hetjax.system.logs import log


@reading("hetjax.from_arrays")
def from_arrays(
    edges: Mapping[tuple[str, str, str], Any],
    features: Mapping[str, Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    splits: Any = (0.6, 0.2, 0.2),
    nodes: Mapping[str, int] | None = None,
    ids: Mapping[str, Any] | None = None,
    reverse: bool = False,
    seed: int = 0,
    target: str | None = None,
    numbers: bool | Collection[str] = False,
) -> HetGraph:
    """Return a graph of arrays, lists, tensors or columns of frames.

    Whole numbers in `edges` are node numbers from 0. Texts are ids of yours, which are kept: predictions and errors speak in
    them. docs/casts.md lists what every kind of value means.

    Args:
      edges: per `(source type, name, target type)` a tuple of sources and targets, and weights if any; a list of pairs, or of
        triples with weights; an array `[2, edges]`; or a frame, whose columns are taken by their names, such as `source`,
        `target` and `weight`, or `src` and `dst`.
      features: `[nodes, width]` per node type, of any numbers. hetjax learns features for types that have none.
      labels: of a node type, the target: class numbers, or names; None, NaN or -1 where a label is not known; or 0 and 1
        `[nodes, classes]`. Several columns of labels are called `TYPE.NAME`: the first is the graph's own, and `task.target`
        of a run chooses another. Of a relation, `RELATION` or `RELATION.NAME`, such as `user-rates-item.stars`: labelled pairs,
        a frame or dictionary with the columns `source`, `target`, `labels`, and `split` if any; or a tuple
        `(sources, targets, labels)`. The pairs need not be edges.
      splits: per split, `train`, `validation` and `test`, a mask, or node numbers, or ids where the type has `ids`; or three
        shares of the labelled nodes; or one share for training. Or these by the name of a column of labels; columns without
        splits have those of the first, if it is of the same type, or else shares. Masks and numbers are of pairs, for a relation.
      nodes: number of nodes per type, where features, labels and ids do not say; else the largest node number says. Types of no relation are named here.
      ids: what you call the nodes of a type, whole numbers or texts; of texts in `edges` in the order of their first edge.
      reverse: add the reverse of every relation, `rev_NAME`, that is not there already.
      seed: chooses the nodes of splits that are shares.
      target: the node type to classify, of a graph to predict with a trained model, none of whose labels need be known; None:
        that of the first `labels`.
      numbers: whether labels are numbers to predict, not classes: NaN or None where one is not known; or the names of the columns
        of labels that are. A matrix `[nodes, numbers]`, or a frame, whose columns have names, has several numbers of each node.

    Raises:
      InputError: for the first thing that is wrong, with its place and both values.
    """
    check_mappings({"edges": edges}, features=features, labels=labels, nodes=nodes, ids=ids)
    relations = [as_relation(relation) for relation in edges]
    types = {end for r in relations for end in (r.source, r.target)} | {*(nodes or {}), *(features or {}), *(ids or {})}
    columns = given_columns(labels, target, types, relations)
    numeric, splits_of = numbers_by_column(numbers, columns), splits_by_column(splits, columns)
    to_predict, target, own_name = target is not None or not columns.own_given, columns.target, columns.own
    tables = [Pairs(f"relation {r}", r, as_ends(given, r)) for r, given in zip(relations, edges.values())]
    labelled = {name: as_pairs(given, relation, name) for name, (relation, given) in columns.pairs.items()}
    tables += [Pairs(f"labels {name!r}", columns.pairs[name][0], pairs.ends) for name, pairs in labelled.items()]
    _check_types(
        {
            "labels": dict.fromkeys(map(column_type, (own_name, *columns.others))),
            "features": features or {},
            "ids": ids or {},
        },
        relations,
        nodes or {},
    )
    matrices = {name: as_features(matrix, f"features of type {name!r}") for name, matrix in (features or {}).items()}
    encoded, classes = _encoded(columns.labels, f"labels of type {target!r}", target, own_name in numeric, to_predict)
    kept = {name: Ids(as_ids(column, f"ids of type {name!r}")) for name, column in (ids or {}).items()}
    say_numbers([t for t, given in zip(tables, edges.values()) if not isinstance(given, Ends)], kept)
    with_ids = frozenset(kept)
    kept |= first_seen(tables, kept)
    tables = [numbered(table, kept) for table in tables]
    others = {name: _column(values, name, name in numeric) for name, values in columns.others.items()}
    rows = {column_type(name): column.labels for name, column in others.items()} | (
        {target: encoded} if len(encoded) else {}
    )
    counts = node_counts(nodes or {}, kept, matrices, rows, tables)
    if len(encoded) not in (0, counts.get(target, len(encoded))):
        raise InputError(f"labels of type {target!r}: {len(encoded)} != {counts[target]} nodes")
    for name, column in others.items():
        if len(column.labels) != counts[column_type(name)]:
            raise InputError(f"labels {name!r}: {len(column.labels)} != {counts[column_type(name)]} nodes")
    if to_predict and not _class_count(encoded, classes):
        encoded, classes = (
            np.full(counts.get(target, 0), np.float32(np.nan) if own_name in numeric else UNLABELLED),
            None,
        )
        own_splits = splits_of.get(own_name)
        splits_of[own_name] = own_splits if isinstance(own_splits, Mapping) else {"train": []}
    chosen = _splits(splits_of.get(own_name, SHARES), encoded, kept.get(target), target in with_ids, seed, to_predict)
    for name, column in others.items():
        node_type = column_type(name)
        like, its_ids = chosen if node_type == target else None, (kept.get(node_type), node_type in with_ids)
        others[name] = divided(name, column, splits_of.get(name), like, *its_ids, seed)
    for (name, pairs), table in zip(labelled.items(), tables[len(edges) :]):
        column = _pair_column(pairs, table, name, name in numeric)
        given = splits_of.get(name)
        given = (
            given if pairs.splits is None or isinstance(given, Mapping) else pairs.splits
        )  # which come before shares
        others[name] = divided(name, column, given, None, None, False, seed)
    ends = {table.relation: table.ends for table in tables[: len(edges)]}
    if as_bool(reverse):
        ends |= {turned: _turned(ends[r]) for r, turned in missing_reverses(ends).items()}
    schema = Schema(counts, tuple(ends), target, max(1, _class_count(encoded, classes)))
    names = Names({name: one for name, one in kept.items() if not is_plain(one)}, classes)
    given_ends = {r: tuple(part for part in parts if part is not None) for r, parts in ends.items()}
    return build(schema, given_ends, matrices, encoded, chosen, "graph", names, columns=others, label_name=columns.name)


def _pair_column(pairs: GivenPairs, table: Pairs, name: str, numbers: bool) -> Column:
    """Return a column of labelled pairs, not yet divided; pairs without labels are of one class."""
    ends = np.asarray(table.ends.source), np.asarray(table.ends.target)
    count = len(ends[0])
    if pairs.labels is None:
        return Column(np.zeros(count, np.int64), {}, 1, None, table.relation, ends)
    column = _column(pairs.labels, name, numbers)
    if len(column.labels) != count:
        raise InputError(f"labels {name!r}: {len(column.labels)} labels != {count} pairs")
    return replace(column, relation=table.relation, ends=ends)


def _turned(parts: Ends) -> Ends:
    return parts._replace(source=parts.target, target=parts.source)


def _column(given: Any, name: str, numbers: bool) -> Column:
    """Return a column of labels, not yet divided."""
    labels, classes = _encoded(given, f"labels {name!r}", column_type(name), numbers, False)
    return Column(labels, {}, max(1, _class_count(labels, classes)), classes)


def _encoded(given: Any, place: str, target: str, numbers: bool, to_predict: bool) -> tuple[np.ndarray, Ids | None]:
    """Return labels as class numbers or as numbers to predict, and the names of classes; no labels where none are given."""
    if given is None and to_predict:
        return np.empty(0, np.int64), None
    if numbers and given is not None:
        targets, named = as_targets(given, place), columns_of(given)
        return targets, Ids([str(name) for name in named]) if named and targets.ndim == 2 else None
    encoded, classes = as_labels(given, place)
    if not _class_count(encoded, classes) and not to_predict:
        words = f"no label is known; of a graph to predict, give target={target!r}"
        raise InputError(f"{place}: {len(encoded)} nodes, and {words}")
    return encoded, classes


def as_relation(given: Any) -> Relation:
    """Return a relation from what names it, `(source type, name, target type)`."""
    if not isinstance(given, tuple | list) or len(given) != 3 or not all(isinstance(part, str) for part in given):
        raise InputError(f"relation {short(repr(given))}: should be (source type, name, target type), three texts")
    return Relation(*given)


def as_bool(given: Any) -> bool:
    """Return `reverse`, which is true or false."""
    if not isinstance(given, bool | np.bool_):
        raise InputError(f"reverse: {short(repr(given), 80)}, and should be True or False")
    return bool(given)


def check_mappings(required: Mapping[str, Any], **optional: Any) -> None:
    """Raise an InputError for what is no mapping, or has names that are no texts; what is optional may be None."""
    for what, one in {**required, **optional}.items():
        if not isinstance(one, Mapping) and not (one is None and what in optional):
            raise InputError(f"{what} are {type(one).__name__}, and should be a dictionary")
        for name in one or () if what != "edges" else ():
            if not isinstance(name, str) and not (what == "labels" and isinstance(name, tuple)):
                raise InputError(f"{what} of {short(repr(name), 80)}: names of node types are texts")


def _check_types(
    given: Mapping[str, Mapping[str, Any]], relations: Collection[Relation], nodes: Mapping[str, int]
) -> None:
    """Raise an InputError for a type that neither a relation nor `nodes` has, which a slip of the pen makes."""
    known_types = [*dict.fromkeys(end for r in relations for end in (r.source, r.target)), *nodes]
    for what, types in given.items():
        for name in types:
            if relations and name not in known_types:
                raise InputError(
                    f"{what} of {name!r}: no relation has nodes of this type{nearest(name, known_types)}; where it has no edges, `nodes` says how many nodes"
                )


def _class_count(labels: np.ndarray, classes: Ids | None) -> int:
    """Return the number of classes; of numbers 1 where any is known."""
    if labels.dtype.kind == "f":
        return int(not np.isnan(labels).all()) * (labels.shape[1] if labels.ndim == 2 else 1)
    if labels.ndim == 2:
        return labels.shape[1]
    return len(classes) if classes is not None else int(labels.max(initial=-1)) + 1


def _splits(
    given: Any, labels: np.ndarray, ids: Ids | None, ids_given: bool, seed: int, to_predict: bool
) -> dict[str, np.ndarray]:
    """Return node numbers per split; where the ids are those that edges have, and not the user's `ids_given`, whole numbers are node numbers."""
    if isinstance(given, Mapping):
        splits = as_splits(given, len(labels), ids, ids_given, numbered=True)
        if not len(splits.get("train", ())) and not to_predict:
            log.warning("splits: no node is in train")
        return splits
    return divide(labels, Split("random", seed, as_shares(given)), {}, "splits")
