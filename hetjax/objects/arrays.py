"""A graph from arrays as users have them: `hetjax.from_arrays`, which the doors for objects of other libraries use too."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hetjax.errors import InputError, nearest
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.objects import casts


def from_arrays(
    edges: Mapping[tuple[str, str, str], Any],
    features: Mapping[str, Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    splits: Any = (0.6, 0.2, 0.2),
    nodes: Mapping[str, int] | None = None,
    ids: Mapping[str, Any] | None = None,
    reverse: bool = False,
    seed: int = 0,
) -> HetGraph:
    """A graph from arrays, lists, tensors or columns of frames.

    Whole numbers are node numbers from 0. Texts are ids of yours, which are kept: predictions and errors speak in them.

    Args:
      edges: per `(source type, name, target type)` the sources and targets, and weights if any: two or three sequences, an
        array `[2, edges]`, or a frame with columns `source`, `target` and `weight`.
      features: `[nodes, width]` per node type, of any numbers. hetjax learns features for types that have none.
      labels: of one node type, the target: class numbers, or names; None, NaN or -1 where a label is not known; or 0 and 1
        `[nodes, classes]`.
      splits: per split, `train`, `validation` and `test`, a mask or ids; or three shares of the labelled nodes; or one share
        for training.
      nodes: number of nodes per type, where features, labels and ids do not say; else the largest node number says. Types of no relation are named here.
      ids: what you call the nodes of a type, whole numbers or texts; of texts in `edges` in the order of their first edge.
      reverse: add the reverse of every relation, `rev_NAME`, that is not there already.
      seed: chooses the nodes of splits that are shares.

    Raises:
      InputError: for the first thing that is wrong, with its place and both values.
    """
    if labels is None or len(labels) != 1:
        given = "none" if not labels else " and ".join(map(str, labels))
        raise InputError(f"labels of {given}, and there should be labels of one node type: {{type: labels}}")
    ends = {(r := casts.as_relation(relation)): casts.as_ends(given, r) for relation, given in edges.items()}
    _check_types({"labels": labels, "features": features or {}, "ids": ids or {}}, ends, nodes or {})
    matrices = {name: casts.as_features(matrix, name) for name, matrix in (features or {}).items()}
    target = next(iter(labels))
    encoded, classes = casts.as_labels(labels[target], target)
    kept = {name: casts.as_ids(given, name) for name, given in (ids or {}).items()}
    kept |= _first_seen(ends, kept)
    ends = {relation: _numbered(relation, parts, kept) for relation, parts in ends.items()}
    counts = _counts(nodes or {}, kept, matrices, {target: encoded}, ends)
    if reverse:
        ends |= {r.reverse: [target, source, *w] for r, (source, target, *w) in ends.items() if r.reverse not in ends}
    schema = Schema(counts, tuple(ends), target, _class_count(encoded, classes))
    chosen = casts.as_splits(splits, encoded, kept.get(target), seed)
    names = Names({name: one for name, one in kept.items() if not _plain(one)}, classes)
    return build(schema, {r: tuple(parts) for r, parts in ends.items()}, matrices, encoded, chosen, "graph", names)


def _check_types(
    given: Mapping[str, Mapping[str, Any]], ends: Mapping[Relation, Any], nodes: Mapping[str, int]
) -> None:
    """Raise an InputError for a type that neither a relation nor `nodes` has, which a slip of the pen makes."""
    known = [*dict.fromkeys(end for r in ends for end in (r.source, r.target)), *nodes]
    for what, types in given.items():
        for name in types:
            if ends and name not in known:
                raise InputError(
                    f"{what} of {name!r}: no relation has nodes of this type{nearest(name, known)}; where it has no edges, `nodes` says how many nodes"
                )


def _class_count(labels: np.ndarray, classes: Ids | None) -> int:
    if labels.ndim == 2:
        return labels.shape[1]
    return len(classes) if classes is not None else int(labels.max(initial=-1)) + 1


def _is_text(values: np.ndarray) -> bool:
    return values.size > 0 and values.dtype.kind in "OSU"


def _first_seen(ends: Mapping[Relation, list[np.ndarray]], kept: Mapping[str, Ids]) -> dict[str, Ids]:
    """The ids of the types that edges name by texts, and that have none given, in the order in which they are first named."""
    seen: dict[str, dict[str, None]] = {}
    for relation, parts in ends.items():
        for node_type, values in zip((relation.source, relation.target), parts):
            if node_type not in kept and _is_text(values):
                seen.setdefault(node_type, {}).update(dict.fromkeys(values.tolist()))
    return {node_type: Ids(list(values)) for node_type, values in seen.items()}


def _numbered(relation: Relation, parts: list[np.ndarray], ids: Mapping[str, Ids]) -> list[np.ndarray]:
    """Node numbers in the place of texts."""
    made = list(parts)
    for side, node_type in enumerate((relation.source, relation.target)):
        if _is_text(parts[side]):
            place = f"relation {relation}: {('source', 'target')[side]}"
            made[side] = casts.found(parts[side], ids.get(node_type), place)
    return made


def _counts(nodes, ids, features, labels, ends) -> dict[str, int]:
    """Nodes per type: as given; or else as many as there are ids, rows of features or labels; or up to the last in an edge."""
    counts = {name: int(count) for name, count in nodes.items()}
    for source in (ids, features, labels):
        for name, rows in source.items():
            counts.setdefault(name, len(rows))
    largest: dict[str, int] = {}
    for relation, parts in ends.items():
        for node_type, values in zip((relation.source, relation.target), parts):
            most = int(values.max()) + 1 if values.size and values.dtype.kind in "iu" else 0
            largest[node_type] = max(largest.get(node_type, 0), most)
    return counts | {name: count for name, count in largest.items() if name not in counts}


def _plain(ids: Ids) -> bool:
    """Whether ids are hetjax's own numbers."""
    values = ids.values
    return str(values.type) == "int64" and np.array_equal(values.to_numpy(zero_copy_only=False), np.arange(len(values)))
