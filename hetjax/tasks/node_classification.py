"""Node classification: one class of each node, or any number of labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_inputs import without_labels
from hetjax.graph.names import Names
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError, nearest
from hetjax.tasks import baselines, class_report, stack_fit
from hetjax.tasks.baselines import measured
from hetjax.tasks.declared.node_classification import Options, named_weights
from hetjax.tasks.heads import LinearHead, PlainHead
from hetjax.tasks.metrics import HALF, best_threshold, quality
from hetjax.tasks.predictions import ClassPredictions, Predictions
from hetjax.tasks.quality import Quality
from hetjax.tasks.ranking import AREAS, ordered_classes
from hetjax.tasks.report_parts import Part
from hetjax.tasks.shown import OF_BEFORE
from hetjax.tasks.task import OF_CLASSES, Seeds, Task, own_options


class Labels(NamedTuple):
    """The arrays of examples.

    Attributes:
      labels: int32 `[n]` class ids, or int8 `[n, classes]` of 0 and 1 where a node may have several labels.
      weights: float32 `[n]`, 1 for an example and 0 for padding.
    """

    labels: Array
    weights: Array


class NodeClassification(Task):
    """The classes of the nodes of one type, from a column of labels.

    Args:
      graph, config: as of `Task`.

    Attributes:
      labels: as in `HetGraph`.
      several: whether a node may have several labels.
      splits: as in `HetGraph`; an example's number is its node's.
      smoothing: share of every label that is spread evenly: over all classes, or, with several labels, over yes and no.
      class_weights: the weight of every class in the loss; empty: all alike.

    Raises:
      InputError: an option that does not go with the labels.
    """

    metrics = OF_BEFORE
    headline = "accuracy"
    beside = ("roc_auc",)
    options = OF_CLASSES | own_options("node_classification")

    def __init__(self, graph: HetGraph, config: Config):
        check_labels(graph, config)
        own = options_of(config)
        self.metric, self.picks_threshold = own.metric, own.threshold == "validation"
        self.compared_by = compared_by(own.metric)
        self.roots, self.outputs = (graph.schema.target,), graph.schema.classes
        self.labels, self.several, self.splits = graph.labels, graph.multilabel, graph.splits
        self.smoothing = own.label_smoothing
        self.class_weights = class_weights(graph, weights_in_order(graph, own.class_weights))

    @classmethod
    def check(cls, graph: HetGraph, config: Config) -> None:
        check_labels(graph, config)
        own = options_of(config)
        if own.metric in AREAS:
            check_ordered(graph, own.metric)
        weights, classes = own.class_weights, graph.schema.classes
        if not isinstance(weights, str) and len(weights) != classes:
            raise InputError(f"node_classification.class_weights has {len(weights)} numbers != {classes} classes")

    def examples(self, split: str) -> np.ndarray:
        return self.splits[split]

    def seeds(self, examples: np.ndarray) -> Seeds:
        arrays = Labels(self.labels[examples], np.ones(len(examples), np.float32))
        return Seeds({self.root: examples}, arrays)

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        if linear:
            return LinearHead(self.outputs, self.root, normalised)
        return PlainHead(self.root, normalised)

    def loss(self, outputs: jax.Array, arrays: Labels) -> jax.Array:
        losses = cross_entropy(outputs, arrays.labels, self.smoothing, self.class_weights)
        return jnp.sum(jnp.where(arrays.weights > 0, losses, 0))

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        labels, picks = self.labels[examples], chosen is None and self.several and self.picks_threshold
        threshold = best_threshold(outputs, labels) if picks else (chosen or {}).get("threshold", HALF)
        found = quality(outputs, labels, self.metric in AREAS, threshold)
        return found | ({"threshold": threshold} if picks else {})

    def chosen(self, quality: Mapping[str, Any]) -> Mapping[str, float]:
        return {"threshold": quality["threshold"]} if "threshold" in quality else {}

    def shown(self, quality: Mapping[str, Any]) -> list[str]:
        """Return all but the micro-F1 where that is the accuracy, as it is of one label a node."""
        equal = quality.get("micro_f1") == quality.get("accuracy")
        return [name for name in super().shown(quality) if name != "micro_f1" or not equal]

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        return baselines.baselines(without_labels(graph), self.compared_by)

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return measured(baselines, self, self.compared_by)

    def stacked(self, outputs: np.ndarray, baselines: Mapping[str, Any]) -> stack_fit.Tried | None:
        labels = self.labels[self.splits["validation"]]
        return stack_fit.tried(outputs, baselines, labels, self.metric, self.picks_threshold, self.class_weights)

    def predictions(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any
    ) -> ClassPredictions:
        found = ClassPredictions(self.root, outputs, names, **more)
        return replace(found, multilabel=self.several, threshold=chosen.get("threshold", HALF))

    def report(self, predicted: Predictions, examples: np.ndarray, folder: Path) -> Sequence[Part]:
        assert isinstance(predicted, ClassPredictions)
        return class_report.parts(predicted, self.labels[examples], folder)

    def weight(self, arrays: Labels) -> Any:
        return arrays.weights.sum()


def options_of(config: Config) -> Options:
    """Return the options of the task; defaults where another task is chosen."""
    return owners.own(config.task, "node_classification")


def check_labels(graph: HetGraph, config: Config) -> None:
    """Raise an InputError where labels are no classes, or not of the form that an option asks for."""
    if graph.numeric:
        raise InputError("the labels are numbers, not classes: --task.name node_regression predicts them")
    if config.model.logit_norm and (graph.multilabel or graph.schema.classes < 3):
        labels = "several labels a node" if graph.multilabel else f"{graph.schema.classes} classes"
        raise InputError(
            f"model.logit_norm is true, which is for one label a node of 3 classes or more, not for {labels}"
        )


def check_ordered(graph: HetGraph, metric: str) -> None:
    """Raise an InputError where the area under a curve says nothing of the validation nodes."""
    labels = graph.labels[graph.splits["validation"]]
    positive = labels != 0 if graph.multilabel else labels[:, None] == np.arange(graph.schema.classes)
    if not len(ordered_classes(positive)):
        raise InputError(
            f"node_classification.metric is {metric}, and of the {len(labels)} validation nodes there is no class that some have and some have not"
        )


def compared_by(metric: str) -> str:
    """Return the metric by which baselines choose and are compared: the run's metric; instead of the loss, which says little about a constant, the micro-F1."""
    return "micro_f1" if metric == "loss" else metric


def cross_entropy(
    logits: jax.Array, labels: Array, smoothing: float = 0.0, class_weights: Sequence[float] = ()
) -> jax.Array:
    """Return the loss of every node, `[nodes]`: the softmax's, or the mean over the classes of the sigmoid's where nodes have several labels.

    Args:
      logits: `[nodes, classes]`.
      labels: class ids `[nodes]`, or 0 and 1 `[nodes, classes]`.
      smoothing: share of every label that is spread evenly (Szegedy et al. 2016).
      class_weights: the factor of a node's loss, by its class; with several labels, the factor of each class's loss.
    """
    weights = jnp.asarray(class_weights, logits.dtype)
    if labels.ndim == 2:
        losses = optax.sigmoid_binary_cross_entropy(logits, labels * (1 - smoothing) + smoothing / 2)
        return jnp.mean(losses * weights[None] if len(class_weights) else losses, axis=1)
    if smoothing:
        smooth = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype), smoothing)
        losses = optax.softmax_cross_entropy(logits, smooth)
    else:
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses * weights[labels] if len(class_weights) else losses


def class_weights(graph: HetGraph, asked: str | Sequence[float] | Sequence[str]) -> tuple[float, ...]:
    """Return the weight of every class, scaled so that their mean over the training nodes is 1; with several labels, over the classes.

    `balanced` weights a class by one over the number of its training nodes; a class without any is not weighted.

    Args:
      asked: as `node_classification.class_weights`.

    Raises:
      InputError: there are not as many numbers as classes.
    """
    if asked == "none":
        return ()
    classes, labels = graph.schema.classes, graph.labels[graph.splits["train"]]
    counts = labels.sum(axis=0, dtype=np.int64) if graph.multilabel else np.bincount(labels, minlength=classes)
    weights = 1 / np.maximum(counts, 1) if asked == "balanced" else np.array(asked, float)
    if len(weights) != classes:
        raise InputError(f"node_classification.class_weights has {len(weights)} numbers != {classes} classes")
    mean = weights[counts > 0].mean() if graph.multilabel else (weights * counts).sum() / max(1, counts.sum())
    return tuple(float(weight) for weight in np.where(counts > 0, weights / mean, 1))


def weights_in_order(graph: HetGraph, asked: str | Sequence[float] | Sequence[str]) -> Any:
    """Return `node_classification.class_weights` that are given by name as numbers, in the order of the classes; others as they are.

    Raises:
      InputError: a class is not known, or has no weight.
    """
    weights = {} if isinstance(asked, str) else named_weights(tuple(asked))
    if not weights:
        return asked
    classes = graph.names.class_names(graph.schema.classes)
    for name in weights:
        if name not in classes:
            raise InputError(
                f"node_classification.class_weights: there is no class {name[:100]!r}{nearest(name, classes[:100])}"
            )
    for name in classes:
        if name not in weights:
            raise InputError(
                f"node_classification.class_weights gives class {name[:100]!r} no weight, and every class needs one"
            )
    return tuple(weights[name] for name in classes)
