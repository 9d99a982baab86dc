"""Leakage: a relation, or a column of features, that says the label outright.

What mirrors a label is often made of it: a link to the group that a person is to be put into, a count that is written after the
fact. What is found is measured, on nodes that have a label; whether it is known when predictions are made, the user knows.
"""

from collections.abc import Iterator

import numpy as np

from hetjax.doctor.finding import Finding
from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation

RIGHT = 0.99  # share of the edges that tell the label
COVERED = 0.5  # share of the labelled nodes that it must say anything of
AREA = 0.999  # under the ROC curve, of a column against a class
FEWEST = 10  # nodes of a class, and not of it
MOST = 20_000  # labelled nodes that columns are compared on, evenly spread


def leakage(graph: HetGraph) -> Iterator[Finding]:
    """Find what tells the label of nearly every node."""
    nodes = np.flatnonzero(graph.labelled(np.arange(len(graph.labels))))
    if not len(nodes) or graph.numeric or graph.relation is not None:
        return
    if not graph.multilabel:
        for relation in graph.relations:
            yield from _relation(graph, relation, nodes)
    if graph.schema.target in graph.features:
        yield from _columns(graph, nodes[np.arange(min(MOST, len(nodes))) * len(nodes) // min(MOST, len(nodes))])


def _relation(graph: HetGraph, relation: Relation, nodes: np.ndarray) -> Iterator[Finding]:
    target = graph.schema.target
    if target not in (relation.source, relation.target) or relation.source == relation.target:
        return
    source, into = edges_of(graph.relations[relation])
    mine, others = (into, source) if relation.target == target else (source, into)
    covered, edges, right = by_neighbours(
        graph.labels, mine.astype(np.int64), others.astype(np.int64), graph.schema.classes
    )
    counts = np.bincount(graph.labels[nodes], minlength=graph.schema.classes)
    if covered < COVERED * len(nodes) or right < RIGHT * edges or right <= counts.max() * edges / len(nodes):
        return
    words = f"{relation} mirrors the label: {covered:,} of {len(nodes):,} labelled nodes share a neighbour with other labelled nodes, and along a share of {right / edges:.1%} of the edges to such neighbours the labels of these other nodes give the node's own class; the largest class has {counts.max() / len(nodes):.1%}"
    yield Finding(
        "wrong",
        words,
        f"if it follows from the label, leave {relation.name!r} and its reverse out (rdf.exclude)",
    )


def by_neighbours(labels: np.ndarray, nodes: np.ndarray, others: np.ndarray, classes: int) -> tuple[int, int, int]:
    """Count the labelled nodes that have a neighbour of other labelled nodes, by how many edges, and how many of these tell the label.

    An edge tells the class that most of the neighbour's other labelled nodes have; a tie tells nothing. Many edges of which each
    tells a little are what models learn from, and no mirror.

    Args:
      labels: int32 `[nodes]`, -1 where there is none.
      nodes, others: both ends of every edge, int64.
      classes: of the labels.
    """
    labelled = labels[nodes] >= 0
    nodes, others = nodes[labelled], others[labelled]
    if not len(nodes):
        return 0, 0, 0
    of, places = np.unique(others, return_inverse=True)
    cells, counts = np.unique(places * np.int64(classes) + labels[nodes], return_counts=True)
    starts = np.searchsorted(cells, np.arange(len(of) + 1) * np.int64(classes))
    second = np.zeros(len(of), np.int64)
    order = np.lexsort((counts, cells // classes))
    ranked, holders = counts[order], starts[1:] - 1
    best = ranked[holders]
    several = np.diff(starts) > 1
    second[several] = ranked[holders[several] - 1]
    winner = cells[order[holders]] % classes
    mine = counts[np.searchsorted(cells, places * np.int64(classes) + labels[nodes])]
    total = np.bincount(places, minlength=len(of))
    # of every edge: without the node itself, whether its own class leads among the neighbour's others
    leads = np.where(winner[places] == labels[nodes], best[places] - 1 > second[places], mine - 1 > best[places])
    asked = total[places] > 1
    return len(np.unique(nodes[asked])), int(asked.sum()), int(leads[asked].sum())


def _columns(graph: HetGraph, nodes: np.ndarray) -> Iterator[Finding]:
    """Find columns of the target's features that have one class on one side, and all others on the other."""
    matrix, labels = graph.features[graph.schema.target], graph.labels[nodes]
    marks = labels != 0 if graph.multilabel else labels[:, None] == np.arange(graph.schema.classes)
    sizes = marks.sum(axis=0)
    classes = np.flatnonzero((sizes >= FEWEST) & (len(nodes) - sizes >= FEWEST))
    names, found = graph.names.class_names(graph.schema.classes), []
    for column in range(matrix.shape[1]):
        areas = areas_of(np.asarray(matrix[nodes, column], np.float64), marks[:, classes])
        far = np.abs(areas - 0.5)
        if len(far) and far.max() >= AREA - 0.5:
            found.append((column, names[classes[far.argmax()]], float(areas[far.argmax()])))
    for column, name, area in found[:3]:
        more = f" (and {len(found) - 3} more columns do)" * (len(found) > 3 and column == found[2][0])
        words = f"column {column} of {graph.schema.target}'s features separates the class {name} from all others: the area under its ROC curve is {area:.4f}, over {len(nodes):,} nodes{more}"
        yield Finding("wrong", words, "if it follows from the label, leave the column out")


def areas_of(values: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve of one column of values for every class, float64 `[classes]`; a tie counts half.

    Args:
      values: `[nodes]`.
      marks: bool `[nodes, classes]`, of which each has some and not all.
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    ones = marks.sum(axis=0)
    return (ranks @ marks - ones * (ones + 1) / 2) / (ones * (len(values) - ones))
