"""Statistics by which options are chosen: counts of a graph's nodes, edges and labels. Its edges and features are not read."""

from dataclasses import dataclass

import numpy as np

from hetjax.graph.hetgraph import HetGraph


@dataclass(frozen=True)
class Statistics:
    """The statistics by which options are chosen.

    Attributes:
      seeds: training nodes.
      labels: that training nodes have; of several labels a node, more than nodes.
      classes: number of them.
      smallest: share of the training nodes of the class that has the fewest.
      plain: whether there is one node type and one relation.
      featured: whether the target type has features.
      bare: whether no type has features.
      validated: whether there are validation nodes.
      held_out: whether these were training nodes, and were held out when the graph was read.
      nodes, edges, relations, types: how many there are.
      values: number of values of all features, of all types that have some.
      featureless: nodes of the types that have none, whose features are learned.
    """

    seeds: int
    labels: int
    classes: int
    smallest: float
    plain: bool
    featured: bool
    bare: bool
    validated: bool
    held_out: bool
    nodes: int
    edges: int
    relations: int
    types: int
    values: int
    featureless: int


def statistics(graph: HetGraph) -> Statistics:
    """Return the statistics of a graph; its edges and features are not read."""
    schema, train = graph.schema, graph.splits["train"]
    labels = graph.labels[train]
    counts = counted(labels, schema.classes)
    return Statistics(
        len(train),
        int(counts.sum()),
        schema.classes,
        float(counts[counts > 0].min(initial=len(train)) / max(1, len(train))),
        len(schema.nodes) == len(schema.relations) == 1,
        schema.target in graph.features,
        not graph.features,
        bool(len(graph.splits["validation"])),
        graph.held_out,
        sum(schema.nodes.values()),
        graph.edges,
        len(schema.relations),
        len(schema.nodes),
        sum(matrix.size for matrix in graph.features.values()),
        sum(count for name, count in schema.nodes.items() if name not in graph.features),
    )


def counted(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return how many nodes have each class, int64 `[classes]`; if labels are numbers, how many there are, `[1]`."""
    if labels.dtype.kind == "f":
        return np.array([len(labels)])
    return labels.sum(axis=0, dtype=np.int64) if labels.ndim == 2 else np.bincount(labels, minlength=classes)


def of_no_node(graph: HetGraph) -> str:
    """Return a sentence on classes that no node is known to have; empty if there are none."""
    labels, classes = graph.labels[graph.labelled(np.arange(len(graph.labels)))], graph.schema.classes
    counts = counted(labels, classes)
    missing = np.flatnonzero(counts == 0)
    if not len(missing) or not len(labels):
        return ""
    some = ", ".join(map(str, missing[:5])) + (" ..." if len(missing) > 5 else "")
    return f"{len(missing)} of {classes} classes are no node's label: {some}; the model learns them all the same"


def of_no_neighbour(graph: HetGraph) -> str:
    """Return a sentence on a target that no relation leads to; empty if one does."""
    target = graph.schema.target
    if graph.schema.into(target):
        return ""
    return f"no relation leads to {target}, so nodes are classified by their own features alone; the reverse of a relation may lead there"
