"""Node regression: a number of each node of one type, or several, learned on a standardised scale."""

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError
from hetjax.tasks import number_baselines, number_losses, number_report, number_rules, number_scales, number_scores
from hetjax.tasks.declared.node_regression import MIDDLE, Options
from hetjax.tasks.heads import LinearHead, PlainHead
from hetjax.tasks.labelled_pairs import pairs_of
from hetjax.tasks.number_baselines import NumberBaseline
from hetjax.tasks.predictions import NumberPredictions, Predictions
from hetjax.tasks.quality import Metric, Quality
from hetjax.tasks.report_parts import Part
from hetjax.tasks.task import Seeds, Task, own_options

NAMES = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "spearman": "Spearman", "pinball": "pinball loss", "loss": "loss"}
UP = ("r2", "spearman", "coverage")  # metrics of which more is better
IN_UNIT = ("rmse", "mae", "pinball")


class Numbers(NamedTuple):
    """The arrays of examples.

    Attributes:
      values: float32 `[n, numbers]`, standardised; 0 where one is not known.
      weights: float32 `[n, numbers]`, 1 for a number that is known, and 0 for others and for padding.
    """

    values: Array
    weights: Array


class NodeRegression(Task):
    """Numbers of the nodes of one type; the head makes them on the scale on which training values have mean 0 and deviation 1.

    Args:
      graph, config: as of `Task`.

    Attributes:
      values: float32 `[nodes, numbers]`, NaN where one is not known; of labels that are class numbers these.
      scale: the scale of the training nodes' values.
      quantiles: the predicted quantiles, of the loss `quantile`; else empty.

    Raises:
      InputError: a node may have several labels, or labels are names.
    """

    name = "node_regression"
    options = own_options(name)

    def __init__(self, graph: HetGraph, config: Config):
        self.pairs, self.splits = pairs_of(graph, self.name), graph.splits
        self.roots = self.pairs.roots if self.pairs else (graph.schema.target,)
        own = self.own = self.options_of(config)
        self.values = values_of(graph)
        self.scale = number_scales.fitted(self.values[self.splits["train"]], own.scale)
        self.quantiles = own.quantiles if own.loss == "quantile" else ()
        self.outputs = self.values.shape[1] * max(1, len(self.quantiles))
        self.metric = self.compared_by = own.metric
        self.headline = number_rules.OF_LOSS.get(own.loss, "mae") if own.metric == "loss" else own.metric
        self.metrics = metrics_of(self.quantiles, own.unit, self.headline)

    @classmethod
    def options_of(cls, config: Config) -> Options:
        """Return the options of the task; defaults where another task is chosen."""
        options: Options = owners.own(config.task, cls.name)
        return options

    @classmethod
    def check(cls, graph: HetGraph, config: Config) -> None:
        pairs_of(graph, cls.name)
        own, values = cls.options_of(config), values_of(graph)
        for number, column in enumerate(values[graph.splits["train"]].T):
            known, name = column[~np.isnan(column)], graph.names.class_names(values.shape[1])[number]
            of = f" of number {name!r}" * (values.shape[1] > 1)
            if not len(known) and len(column):
                raise InputError(
                    f"task.name is {cls.name}, and no training node, of {len(column)}, has number {name!r}"
                )
            if len(known) and not number_scores.differ(known):
                raise InputError(
                    f"task.name is {cls.name}, and the training nodes, {len(known)}, all have the value {known[0]:g}{of}"
                )
        train = graph.splits["train"]
        if own.scale == "log" and len(low := np.argwhere(values[train] < 0)):
            node, number = train[low[0, 0]], low[0, 1]
            raise InputError(
                f"{cls.name}.scale is log, for numbers from 0 on, and {graph.row_name(node)} has {values[node, number]:g}"
            )
        validation = values[graph.splits["validation"]]
        if own.metric in ("r2", "spearman") and len(validation):
            known = [column[~np.isnan(column)] for column in validation.T]
            if not any(map(number_scores.differ, known)):
                raise InputError(
                    f"{cls.name}.metric is {own.metric}, and the validation nodes, {len(validation)}, all have the same value"
                )

    @classmethod
    def choices(cls, graph: HetGraph, config: Config, given: Set[str]) -> Iterator[tuple[str, Any, str]]:
        own, train = cls.options_of(config), values_of(graph)[graph.splits["train"]]
        named = {key.rpartition(".")[2] for key in given if key.startswith(f"{cls.name}.")}
        for name, value, why in number_rules.chosen(train, named, own.loss, own.metric):
            yield f"{cls.name}.{name}", value, why

    def examples(self, split: str) -> np.ndarray:
        return self.splits[split]

    def seeds(self, examples: np.ndarray) -> Seeds:
        return Seeds({self.root: examples}, self.labels_of(examples))

    def labels_of(self, examples: np.ndarray) -> Numbers:
        """Return the arrays of some examples."""
        values = self.scale.standardised(self.values[examples])
        weights = (~np.isnan(values)).astype(np.float32)
        return Numbers(np.nan_to_num(values).astype(np.float32), weights)

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return LinearHead(self.outputs, self.root) if linear else PlainHead(self.root)

    def loss(self, outputs: jax.Array, arrays: Numbers) -> jax.Array:
        return number_losses.total(
            self.own.loss, outputs, arrays.values, arrays.weights, self.quantiles, self.own.huber_delta
        )

    def weight(self, arrays: Numbers) -> Any:
        return arrays.weights.sum()

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        return self._measured(self.numbers(outputs), outputs, examples)

    def numbers(self, outputs: np.ndarray) -> np.ndarray:
        """Return the numbers that outputs stand for, in the unit of the labels, quantiles in rising order.

        Returns:
          Float64 `[nodes, numbers, quantiles]`, one instead of quantiles where there are none.
        """
        apart = outputs.reshape(len(outputs), self.values.shape[1], max(1, len(self.quantiles)))
        return np.sort(np.moveaxis(self.scale.restored(np.moveaxis(apart, 2, 0)), 0, 2), axis=2)

    def _measured(self, predicted: np.ndarray, outputs: np.ndarray, examples: np.ndarray) -> Quality:
        """Return the metrics of numbers in the unit of the labels, and the loss of the outputs that stand for them."""
        values, own = self.values[examples].astype(np.float64), self.own
        level = self.quantiles.index(MIDDLE) if self.quantiles else 0
        found = number_scores.scores(predicted[:, :, level], values)
        if self.quantiles:
            found |= number_scores.interval_scores(predicted, values, self.quantiles)
        scaled = self.scale.standardised(values)
        losses = number_losses.losses(own.loss, outputs.astype(np.float64), scaled, self.quantiles, own.huber_delta)
        known = np.asarray(losses)[~np.isnan(scaled)]
        return found | {"loss": float(known.mean()) if len(known) else None}

    def predictions(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any
    ) -> NumberPredictions:
        numbers = self.numbers(outputs).reshape(len(outputs), self.outputs).astype(np.float32)
        return NumberPredictions(self.roots[0], numbers, names, quantiles=self.quantiles, **more)

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        return number_baselines.baselines(graph, self.values, self.scale, self.score)

    def score(self, points: np.ndarray, split: str) -> float | None:
        """Return how good predictions `[nodes, numbers]` of a split are, higher is better."""
        sign = 1 if self.metrics[self.compared_by].higher else -1
        by = "mae" if self.compared_by == "pinball" else self.compared_by
        value = self._of_points(np.repeat(points[:, :, None], max(1, len(self.quantiles)), axis=2), split)[by]
        return None if value is None else sign * value

    def _of_points(self, predicted: np.ndarray, split: str) -> Quality:
        """Return the metrics of predictions `[nodes, numbers, quantiles]` of a split in the unit of the labels."""
        scaled = np.moveaxis(self.scale.standardised(np.moveaxis(predicted, 2, 0)), 0, 2)
        return self._measured(predicted, scaled.reshape(len(predicted), self.outputs), self.splits[split])

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        values = {split: self.values[ids].astype(np.float64) for split, ids in self.splits.items()}
        rows: dict[str, dict[str, Any]] = {}
        for name, made in baselines.items():
            if not isinstance(made, NumberBaseline):
                rows[name] = {"how": made}
                continue
            predicted = made.points["test"][:, :, None]
            if self.quantiles:
                predicted = made.quantiles(values, self.quantiles)
            if self.own.scale == "log":
                predicted = np.maximum(predicted, 0)
            rows[name] = {"how": made.how, **self._of_points(predicted, "test"), "seconds": made.seconds}
        return rows

    def report(self, predicted: Predictions, examples: np.ndarray, folder: Path) -> Sequence[Part]:
        assert isinstance(predicted, NumberPredictions)
        return number_report.parts(predicted, self.values[examples], self.own.unit, folder)


def values_of(graph: HetGraph) -> np.ndarray:
    """Return the numbers of a graph's target nodes, float32 `[nodes, numbers]`, NaN where one is not known.

    Raises:
      InputError: the labels are several classes a node, or names.
    """
    if graph.multilabel or (graph.names.classes is not None and not graph.numeric):
        what = (
            f"several labels a {'node' if graph.relation is None else 'pair'}"
            if graph.multilabel
            else "names of classes"
        )
        raise InputError(f"the task is regression (task.name), and the labels {graph.target!r} are {what}, not numbers")
    labels = graph.labels if graph.numeric else np.where(graph.labels >= 0, graph.labels, np.nan)
    return labels.astype(np.float32).reshape(len(labels), -1)


def metrics_of(quantiles: Sequence[float], unit: str, headline: str) -> dict[str, Metric]:
    """Return the metrics by name, the headline first.

    Args:
      unit: of the numbers; shares in per cent have errors in percentage points.
    """
    unit = "percentage points" if unit == "%" else unit
    names = {name: label for name, label in NAMES.items() if name != "pinball" or quantiles}
    found = {name: Metric(label, unit if name in IN_UNIT else "", name in UP) for name, label in names.items()}
    if quantiles:
        share = f"{100 * (quantiles[-1] - quantiles[0]):.3g}"
        found["coverage"] = Metric(f"coverage of the {share} % interval")
    return {headline: found[headline]} | found
