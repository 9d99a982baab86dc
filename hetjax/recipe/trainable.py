"""Checks that a graph has what the options of training ask for: training nodes, validation nodes, as many classes."""

import numpy as np

from hetjax.datasets.load import source
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.system.errors import InputError
from hetjax.tasks.ranking import AREAS, ordered_classes


def check_trainable(config: Config, graph: HetGraph) -> None:
    """Raise an InputError where a graph cannot be trained on as the options say."""
    options, classes = config.train, graph.schema.classes
    if not len(graph.splits["train"]):
        place = source(config.data) or "the generated graph"
        raise InputError(f"{place}: 0 training nodes among the {len(graph.labels)} of type {graph.schema.target!r}")
    if options.metric in AREAS:
        _check_ordered(graph, options.metric)
    if options.patience and not len(graph.splits["validation"]):
        raise InputError(f"train.patience is {options.patience}, and there are no validation nodes")
    if config.model.logit_norm and (graph.multilabel or classes < 3):
        labels = "several labels a node" if graph.multilabel else f"{classes} classes"
        raise InputError(
            f"model.logit_norm is true, which is for one label a node of 3 classes or more, not for {labels}"
        )
    weights = options.class_weights
    if not isinstance(weights, str) and len(weights) != classes:
        raise InputError(f"train.class_weights has {len(weights)} numbers != {classes} classes")


def _check_ordered(graph: HetGraph, metric: str) -> None:
    """Raise an InputError where the area under a curve says nothing of the validation nodes."""
    labels = graph.labels[graph.splits["validation"]]
    positive = labels != 0 if graph.multilabel else labels[:, None] == np.arange(graph.schema.classes)
    if not len(ordered_classes(positive)):
        raise InputError(
            f"train.metric is {metric}, and of the {len(labels)} validation nodes there is no class that some have and some have not"
        )
