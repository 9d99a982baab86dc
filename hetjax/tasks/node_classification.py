"""Node classification: one class of each node, or any number of labels."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_inputs import without_labels
from hetjax.graph.names import Names
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError, nearest
from hetjax.tasks import baselines, class_report, stack_fit
from hetjax.tasks.baselines import Baseline, measured
from hetjax.tasks.class_losses import cross_entropy
from hetjax.tasks.declared.node_classification import OF_OPTIONS, Options, named_weights
from hetjax.tasks.heads import LinearHead, PlainHead, ProportionalOdds
from hetjax.tasks.labelled_pairs import pairs_of
from hetjax.tasks.metrics import HALF, best_threshold, best_thresholds, distance, mean_cost, quality
from hetjax.tasks.predictions import ClassPredictions, Predictions
from hetjax.tasks.quality import Metric, Quality
from hetjax.tasks.ranking import AREAS, ordered_classes
from hetjax.tasks.report_parts import Part
from hetjax.tasks.shown import OF_BEFORE
from hetjax.tasks.task import OF_CLASSES, Seeds, Task, own_options

DISTANCE = Metric("mean distance", "classes", higher=False)
COST = Metric("cost", "", higher=False)
OF_CLASS = "threshold_"  # before the number of a class
MOST_THRESHOLDS = 100


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
      costs: the cost of a node of each class that is predicted as another; empty: all alike.

    Raises:
      InputError: an option that does not go with the labels.
    """

    name = "node_classification"
    metrics: Mapping[str, Metric] = OF_BEFORE
    headline = "accuracy"
    beside = ("roc_auc",)
    options = OF_CLASSES | own_options(name)

    def __init__(self, graph: HetGraph, config: Config):
        self.pairs = pairs_of(graph, self.name)
        own = self.own(config)
        check_labels(graph, config, own)
        self.metric, self.picks_threshold = own.metric, own.threshold == "validation"
        self.compared_by = own.metric if own.metric in OF_OPTIONS else compared_by(own.metric)
        self.roots = self.pairs.roots if self.pairs else (graph.schema.target,)
        self.outputs = graph.schema.classes
        self.labels, self.several, self.splits = graph.labels, graph.multilabel, graph.splits
        self.smoothing, self.focal, self.ordinal = own.label_smoothing, own.focal, own.ordinal
        self.class_weights = class_weights(graph, weights_in_order(graph, own.class_weights))
        costs = weights_in_order(graph, own.costs, "costs")
        self.costs: tuple[float, ...] = () if costs == "none" else tuple(map(float, costs))
        self.by_class = own.threshold == "classes"
        extra = {"distance": DISTANCE} if own.ordinal else {}
        extra |= {"cost": COST} if self.costs else {}
        if extra:  # else a task that inherits has its own
            self.metrics = extra | dict(self.metrics)
            self.headline = next(iter(extra))

    @classmethod
    def own(cls, config: Config) -> Options:
        """Return the options of the task; defaults where another task is chosen."""
        options: Options = owners.own(config.task, cls.name)
        return options

    @classmethod
    def check(cls, graph: HetGraph, config: Config) -> None:
        pairs_of(graph, cls.name)
        own = cls.own(config)
        check_labels(graph, config, own)
        if own.metric in AREAS:
            check_ordered(graph, own.metric, cls.name)
        classes = graph.schema.classes
        for name, numbers in (("class_weights", own.class_weights), ("costs", own.costs)):
            if not isinstance(numbers, str) and len(numbers) != classes:
                raise InputError(f"{cls.name}.{name} has {len(numbers)} numbers != {classes} classes")

    @classmethod
    def choices(cls, graph: HetGraph, config: Config, given: Set[str]) -> Iterator[tuple[str, Any, str]]:
        own = cls.own(config)
        if f"{cls.name}.metric" in given or not (own.ordinal or own.costs != "none"):
            return
        what = ("cost", f"{cls.name}.costs says") if own.costs != "none" else ("distance", "classes have an order, by")
        yield f"{cls.name}.metric", what[0], f"{what[1]} how far off a wrong class is"

    def examples(self, split: str) -> np.ndarray:
        return self.splits[split]

    def seeds(self, examples: np.ndarray) -> Seeds:
        return Seeds({self.root: examples}, self.labels_of(examples))

    def labels_of(self, examples: np.ndarray) -> Labels:
        """Return the arrays of some examples."""
        return Labels(self.labels[examples], np.ones(len(examples), np.float32))

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        if self.ordinal:
            return ProportionalOdds(self.outputs, self.root)
        if linear:
            return LinearHead(self.outputs, self.root, normalised)
        return PlainHead(self.root, normalised)

    def loss(self, outputs: jax.Array, arrays: Labels) -> jax.Array:
        losses = cross_entropy(outputs, arrays.labels, self.smoothing, self.class_weights, self.focal)
        return jnp.sum(jnp.where(arrays.weights > 0, losses, 0))

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        labels, picks = self.labels[examples], {}
        if chosen is None and self.several and self.picks_threshold:
            chosen = picks = {"threshold": best_threshold(outputs, labels)}
        elif chosen is None and self.several and self.by_class:
            chosen = picks = {f"{OF_CLASS}{n}": one for n, one in enumerate(best_thresholds(outputs, labels))}
        found = quality(outputs, labels, self.metric in AREAS, self._thresholds(chosen or {}))
        if self.costs:
            decided = quality(outputs + np.log(self.costs), labels)
            found |= {name: decided[name] for name in ("accuracy", "micro_f1", "macro_f1")}
        classes = self._predicted(outputs)
        found |= {"distance": distance(classes, labels)} if self.ordinal else {}
        return found | ({"cost": mean_cost(classes, labels, self.costs)} if self.costs else {}) | picks

    def _predicted(self, outputs: np.ndarray) -> np.ndarray:
        """Return the class of one label a node, `[nodes]`: that whose probability times its cost is the highest."""
        return (outputs + np.log(self.costs) if self.costs else outputs).argmax(axis=1)

    def _thresholds(self, chosen: Mapping[str, float]) -> float | tuple[float, ...]:
        """Return the probability above which a label is predicted, or one for each class."""
        if f"{OF_CLASS}0" in chosen:
            return tuple(chosen[f"{OF_CLASS}{n}"] for n in range(self.outputs))
        return chosen.get("threshold", HALF)

    def chosen(self, quality: Mapping[str, Any]) -> Mapping[str, float]:
        return {name: value for name, value in quality.items() if name == "threshold" or name.startswith(OF_CLASS)}

    def shown(self, quality: Mapping[str, Any]) -> list[str]:
        """Return all but the micro-F1 where that is the accuracy, as it is of one label a node."""
        equal = quality.get("micro_f1") == quality.get("accuracy")
        return [name for name in super().shown(quality) if name != "micro_f1" or not equal]

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        return baselines.baselines(without_labels(graph), compared_by(self.compared_by))

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        rows, test = measured(baselines, self, compared_by(self.compared_by)), self.splits["test"]
        for name, made in baselines.items():
            if isinstance(made, Baseline) and (self.ordinal or self.costs):
                rows[name] |= self.quality(made.logits["test"], test, {})
        return rows

    def stacked(self, outputs: np.ndarray, baselines: Mapping[str, Any]) -> stack_fit.Tried | None:
        if self.by_class:
            return None
        labels = self.labels[self.splits["validation"]]
        by = "micro_f1" if self.metric in OF_OPTIONS else self.metric
        return stack_fit.tried(outputs, baselines, labels, by, self.picks_threshold, self.class_weights)

    def predictions(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any
    ) -> ClassPredictions:
        found = ClassPredictions(self.roots[0], outputs, names, **more)
        return replace(found, multilabel=self.several, threshold=self._thresholds(chosen), costs=self.costs)

    def report(self, predicted: Predictions, examples: np.ndarray, folder: Path) -> Sequence[Part]:
        assert isinstance(predicted, ClassPredictions)
        return class_report.parts(predicted, self.labels[examples], folder)

    def weight(self, arrays: Labels) -> Any:
        return arrays.weights.sum()


def check_labels(graph: HetGraph, config: Config, own: Options) -> None:
    """Raise an InputError where labels are no classes, or not of the form that an option of the task asks for."""
    if graph.numeric:
        other = own.section.replace("classification", "regression")
        raise InputError(f"the labels are numbers, not classes: --task.name {other} predicts them")
    if config.model.logit_norm and (graph.multilabel or graph.schema.classes < 3):
        labels = "several labels a node" if graph.multilabel else f"{graph.schema.classes} classes"
        raise InputError(
            f"model.logit_norm is true, which is for one label a node of 3 classes or more, not for {labels}"
        )
    one, several = ("ordinal" if own.ordinal else "costs" if own.costs != "none" else ""), own.threshold == "classes"
    if graph.multilabel and one:
        raise InputError(f"{own.section}.{one} is for one label a node, and a {graph.schema.target} may have several")
    if not graph.multilabel and several:
        raise InputError(
            f"{own.section}.threshold is classes, for several labels a node, and a {graph.schema.target} has one"
        )
    if own.ordinal and graph.schema.classes < 2:
        raise InputError(f"{own.section}.ordinal is true, and {graph.schema.target} has 1 class")
    if several and graph.schema.classes > MOST_THRESHOLDS:
        raise InputError(
            f"{own.section}.threshold is classes, for at most {MOST_THRESHOLDS} classes, not {graph.schema.classes}"
        )
    if several and config.train.stacking:
        raise InputError(f"{own.section}.threshold is classes, and train.stacking is true: a stack has one threshold")
    if own.ordinal and (config.model.logit_norm or not config.model.head):
        option = "logit_norm is true" if config.model.logit_norm else "head is false"
        raise InputError(f"{own.section}.ordinal is true, which has a head of its own, and model.{option}")


def check_ordered(graph: HetGraph, metric: str, name: str) -> None:
    """Raise an InputError where the area under a curve says nothing of the validation nodes."""
    labels = graph.labels[graph.splits["validation"]]
    positive = labels != 0 if graph.multilabel else labels[:, None] == np.arange(graph.schema.classes)
    if not len(ordered_classes(positive)):
        raise InputError(
            f"{name}.metric is {metric}, and of the {len(labels)} validation nodes there is no class that some have and some have not"
        )


def compared_by(metric: str) -> str:
    """Return the metric by which baselines choose: the run's metric; instead of the loss, which says little about a constant, and of what options define, the micro-F1."""
    return "micro_f1" if metric in ("loss", *OF_OPTIONS) else metric


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


def weights_in_order(
    graph: HetGraph, asked: str | Sequence[float] | Sequence[str], option: str = "class_weights"
) -> Any:
    """Return weights or costs that are given by the names of classes as numbers, in the order of the classes; others as they are.

    Raises:
      InputError: a class is not known, or has no weight.
    """
    weights = {} if isinstance(asked, str) else named_weights(tuple(asked), option)
    if not weights:
        return asked
    classes = graph.names.class_names(graph.schema.classes)
    for name in weights:
        if name not in classes:
            raise InputError(
                f"node_classification.{option}: there is no class {name[:100]!r}{nearest(name, classes[:100])}"
            )
    for name in classes:
        if name not in weights:
            raise InputError(
                f"node_classification.{option} gives class {name[:100]!r} no weight, and every class needs one"
            )
    return tuple(weights[name] for name in classes)
