"""Faults of a graph, and its oddities."""

from collections.abc import Callable, Iterator

import numpy as np

from hetjax.doctor.finding import Finding
from hetjax.graph.checks import check_csc
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph, check_labels
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError
from hetjax.tasks.number_rules import FAR, SHARE, far

EDGES = 2**22  # looked at together
VALUES = 2**24  # of features
HUB = 1000  # times the mean degree


def broken(graph: HetGraph) -> Iterator[Finding]:
    """Find what no training can use: ids that are no node's, numbers that are none, labels and splits that are wrong."""
    for relation, csc in graph.relations.items():
        yield from _orphans(relation, csc, graph)
    for node_type, matrix in graph.features.items():
        rows = max(1, VALUES // max(1, matrix.shape[1]))
        counts = [_not_finite(matrix[start : start + rows]) for start in range(0, len(matrix), rows)]
        wrong = np.sum(counts, axis=0) if counts else np.zeros(matrix.shape[1], np.int64)
        if wrong.any():
            words = f"{int(wrong.sum()):,} values of {node_type}'s features are NaN or infinite, in {np.count_nonzero(wrong):,} of {len(wrong):,} columns, the most in column {int(wrong.argmax())}"
            yield Finding("wrong", words, "fill them before the graph is made, or leave the columns out")
    yield from _refused(lambda: check_labels(graph), "mend the labels and splits, and make the graph anew")


def _orphans(relation: Relation, csc: CSC, graph: HetGraph) -> Iterator[Finding]:
    nodes = graph.schema.nodes[relation.source]
    outside = sum(int((csc.indices[start : start + EDGES] >= nodes).sum()) for start in range(0, csc.edges, EDGES))
    if outside:
        words = f"{relation}: {outside:,} of {csc.edges:,} edges come from ids beyond the {nodes:,} nodes of type {relation.source!r}"
        yield Finding("wrong", words, "leave these edges out, or add the nodes")
    else:
        yield from _refused(lambda: check_csc(csc, relation, graph.schema), "make the graph anew")


def _refused(check: Callable[[], None], remedy: str) -> Iterator[Finding]:
    try:
        check()
    except InputError as error:
        yield Finding("wrong", str(error), remedy)


def _not_finite(rows: np.ndarray) -> np.ndarray:
    """Count the values that are not finite, int64 `[columns]`."""
    return np.count_nonzero(~np.isfinite(rows), axis=0) if rows.dtype.kind == "f" else np.zeros(rows.shape[1], np.int64)


def odd(graph: HetGraph, layers: int) -> Iterator[Finding]:
    """Find what training takes as it is, and its users may not expect.

    Args:
      graph: in which nothing is broken.
      layers: of the model.
    """
    schema = graph.schema
    needed = frozenset().union(*schema.layer_types(graph.target_types, layers))
    for node_type, count in schema.nodes.items():
        if not count:
            yield Finding("note", f"{node_type} has no nodes")
        elif node_type not in needed:
            words = f"{node_type} is not within {layers} hops of {' or '.join(graph.target_types)}, so a model of {layers} layers does not read it"
            yield Finding("note", words, f"--model.layers {layers + 1}, or the reverse of its relations")
        elif not schema.into(node_type):
            words = f"{node_type} is only a source: no relation leads to it, so its nodes are told nothing of their neighbours"
            yield Finding("note", words, "add the reverse of its relations")
    for node_type in schema.nodes:
        yield from _alone(graph, node_type)
    for relation, csc in graph.relations.items():
        yield from _edges(graph, relation, csc)
    for name, ids in graph.splits.items():
        if not len(ids):
            what = "nothing to train on" if name == "train" else f"no {name} result"
            yield Finding(
                "wrong" if name == "train" else "note", f"split {name} is empty: {what}", "give more nodes with labels"
            )
    yield from _numbers(graph) if graph.numeric else _classes(graph)


def _alone(graph: HetGraph, node_type: str) -> Iterator[Finding]:
    """Find the nodes of a type that have no edge."""
    count = graph.schema.nodes[node_type]
    joined = np.zeros(count, bool)
    for relation, csc in graph.relations.items():
        if relation.target == node_type:
            joined |= np.diff(csc.indptr) > 0
        if relation.source == node_type:
            joined[csc.indices] = True
    alone = count - int(joined.sum())
    if alone:
        yield Finding(
            "note",
            f"{alone:,} of {count:,} nodes of {node_type} have no edge, the first is {graph.names.node(node_type, int(joined.argmin()))}",
        )


def _edges(graph: HetGraph, relation: Relation, csc: CSC) -> Iterator[Finding]:
    """Find the degrees of a relation, and edges that are there twice."""
    if not csc.edges:
        yield Finding("note", f"{relation} has no edges")
        return
    sides = [
        ("into", relation.target, np.diff(csc.indptr)),
        ("out of", relation.source, np.bincount(csc.indices, minlength=graph.schema.nodes[relation.source])),
    ]
    for side, node_type, degrees in sides:
        most, mean = int(degrees.max()), csc.edges / np.count_nonzero(degrees)
        node = graph.names.node(node_type, int(degrees.argmax()))
        words = f"{relation}: {most:,} edges lead {side} {node_type} {node}, {mean:.1f} on average where there are any"
        yield (
            Finding("note", words, "sampling.fanout bounds how many neighbours are sampled" if side == "into" else "")
            if most > HUB * mean
            else Finding("fine", words)
        )
    twice = duplicates(csc, graph.schema.nodes[relation.source])
    if twice:
        yield Finding(
            "note",
            f"{relation}: {twice:,} of {csc.edges:,} edges are there before, from the same node to the same node; each counts",
            "remove the repetitions if they mean nothing in your data",
        )


def duplicates(csc: CSC, sources: int) -> int:
    """Count the edges that have the same ends as one before them."""
    found, start, targets = 0, 0, len(csc.indptr) - 1
    while start < targets:
        stop = max(start + 1, int(np.searchsorted(csc.indptr, csc.indptr[start] + EDGES, side="right")) - 1)
        first, last = csc.indptr[start], csc.indptr[stop]
        places = np.repeat(np.arange(stop - start), np.diff(csc.indptr[start : stop + 1]))
        keys = np.sort(places * np.int64(max(1, sources)) + csc.indices[first:last])
        found += int((keys[1:] == keys[:-1]).sum())
        start = stop
    return found


def _numbers(graph: HetGraph) -> Iterator[Finding]:
    """Find numbers to predict that training nodes lack or all have alike, and heavy tails."""
    train = graph.labels[graph.splits["train"]].reshape(len(graph.splits["train"]), graph.schema.classes)
    for name, column in zip(graph.names.class_names(graph.schema.classes), train.T):
        known, what = column[~np.isnan(column)], f"number {name!r}" if train.shape[1] > 1 else "the number to predict"
        if not len(known) or (known == known[0]).all():
            state = f"has one value, {known[0]:g}, at" if len(known) else "is not known of"
            yield Finding(
                "note", f"{what} {state} all {len(column):,} training nodes", "leave it out, or split otherwise"
            )
        elif (share := far(known)) > SHARE:
            words = (
                f"{100 * share:.2g} % of the training nodes have {what} over {FAR:g} robust deviations from the median"
            )
            yield Finding("note", words, "node_regression.scale and loss are chosen by this, if they are not given")


def _classes(graph: HetGraph) -> Iterator[Finding]:
    """Find classes without a training node."""
    labels, names = graph.labels[graph.splits["train"]], graph.names.class_names(graph.schema.classes)
    counts = labels.sum(axis=0, dtype=np.int64) if graph.multilabel else np.bincount(labels, minlength=len(names))
    missing = [name for name, count in zip(names, counts) if not count]
    if missing and len(labels):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        yield Finding(
            "note",
            f"no training node has the class {', '.join(missing[:3])}{more}",
            "leave such classes out, or split otherwise",
        )
