"""Labels of another graph, with the numbers that their classes had in training: classes are found by their names."""

from dataclasses import replace

import numpy as np

from hetjax.graph.columns import UNLABELLED
from hetjax.graph.hetgraph import HetGraph
from hetjax.system.errors import InputError, short

SOME = 10  # classes that a line names


def with_classes(place: str, graph: HetGraph, trained: HetGraph) -> HetGraph:
    """Return a graph whose labels are numbers of the classes that were trained on, or numbers where those are.

    Classes may be fewer than in training, and in another order; without any label all nodes are unlabelled. Classes without names are called by their
    numbers.

    Args:
      place: the name of the graph in an error.
      trained: the graph that was trained on.

    Raises:
      InputError: a label is of a class that training did not have, or only one of the graphs has several labels a node, or numbers.
    """
    nodes, classes = len(graph.labels), trained.schema.classes
    labelled = np.flatnonzero(graph.labelled(np.arange(nodes)))
    unknown = np.nan if trained.numeric else UNLABELLED
    labels = np.full((nodes, *trained.labels.shape[1:]), unknown, trained.labels.dtype)
    if len(labelled) and (graph.numeric or trained.numeric):
        if graph.numeric != trained.numeric and (
            graph.multilabel or not trained.numeric or graph.names.classes is not None
        ):
            kinds = ["numbers" if one.numeric else "classes" for one in (graph, trained)]
            raise InputError(f"{place}: labels are {kinds[0]}, and {kinds[1]} in the graph that was trained on")
        labels[labelled] = graph.labels[labelled]
    elif len(labelled):
        if graph.multilabel != trained.multilabel:
            several = "several labels a node" if graph.multilabel else "one label a node"
            raise InputError(f"{place}: {several}, unlike the graph that was trained on")
        if graph.names.classes is None and trained.names.classes is None and graph.schema.classes > classes:
            raise InputError(
                f"{place}: classes {graph.schema.classes} != {classes} of the graph that was trained on, and they have no names"
            )
        number = _numbers(place, graph, trained, labelled)
        own = graph.labels[labelled]
        if graph.multilabel:
            rows = np.zeros((len(own), classes), labels.dtype)
            rows[:, number[number >= 0]] = own[:, number >= 0]
            labels[labelled] = rows
        else:
            labels[labelled] = number[own]
    schema, names = replace(graph.schema, classes=classes), replace(graph.names, classes=trained.names.classes)
    return replace(graph, schema=schema, labels=labels, names=names)


def _numbers(place: str, graph: HetGraph, trained: HetGraph, labelled: np.ndarray) -> np.ndarray:
    """Return the number in training of each class of a graph, `[classes]`; -1 of one that no node has."""
    known = {name: n for n, name in enumerate(trained.names.class_names(trained.schema.classes))}
    own = graph.names.class_names(graph.schema.classes)
    number = np.array([known.get(name, -1) for name in own], np.int64)
    labels = graph.labels[labelled]
    used = (labels > 0).any(axis=0) if graph.multilabel else np.isin(np.arange(len(own)), labels)
    unknown = np.flatnonzero(used & (number < 0))
    if len(unknown):
        some = ", ".join(list(known)[:SOME]) + " ..." * (len(known) > SOME)
        raise InputError(
            f"{place}: class {short(repr(own[unknown[0]]), 80)} of {graph.schema.target} is none of the graph that was trained on, which has {short(some)}"
        )
    return number
