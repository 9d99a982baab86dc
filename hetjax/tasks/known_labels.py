"""Known labels of a graph that a trained model predicts: few labels are not propagated."""

from dataclasses import replace

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.system.errors import short

ENOUGH = 0.5  # times the share of nodes of a class that are training nodes, as in training
SHOWN = 80  # characters of a class that a line shows


def too_few(graph: HetGraph, trained: HetGraph) -> str:
    """Return why the labels of a graph's training nodes are not propagated; empty where they are.

    The weights of propagated labels hold where about as many labels are known as in training. Of every class at least `ENOUGH` times the
    share of nodes must be training nodes that are so in training; fewer would say less than the model does.

    Args:
      graph: the graph with the classes of training.
    """
    if trained.numeric:  # numbers are not propagated
        return ""
    if not len(graph.splits["train"]):
        return "there are no training nodes whose labels could be propagated"
    here, there = (_counts(one) for one in (graph, trained))
    nodes, of_training = len(graph.labels), len(trained.labels)
    few = np.flatnonzero(here * of_training < ENOUGH * there * nodes)
    if not len(few):
        return ""
    name = trained.names.class_names(trained.schema.classes)[few[0]]
    return (
        f"too few labels are known to be propagated: of class {short(repr(name), SHOWN)} {here[few[0]]:,} of {nodes:,} nodes, "
        f"and in training {there[few[0]]:,} of {of_training:,}"
    )


def _counts(graph: HetGraph) -> np.ndarray:
    """Return how many training nodes each class has, int64 `[classes]`."""
    labels = graph.labels[graph.splits["train"]]
    if graph.multilabel:
        return (labels == 1).sum(axis=0)
    return np.bincount(labels, minlength=graph.schema.classes)


def forgotten(graph: HetGraph) -> HetGraph:
    """Return a graph none of whose nodes is a training node."""
    return replace(graph, splits={**graph.splits, "train": graph.splits["train"][:0]})
