"""Node regression: a number of each node of one type, by least squares on standardised targets."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError
from hetjax.tasks.heads import LinearHead, PlainHead
from hetjax.tasks.predictions import NumberPredictions
from hetjax.tasks.quality import Metric, Quality
from hetjax.tasks.task import Seeds, Task, own_options

NAMES = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "loss": "loss"}
METRICS = {name: Metric(label, "", higher=name == "r2") for name, label in NAMES.items()}


class Numbers(NamedTuple):
    """The arrays of examples.

    Attributes:
      values: float32 `[n]`, standardised.
      weights: float32 `[n]`, 1 for an example and 0 for padding.
    """

    values: Array
    weights: Array


class NodeRegression(Task):
    """Numbers of the nodes of one type; the head makes `(number - mean) / deviation`, both of the training nodes.

    Args:
      graph, config: as of `Task`.

    Attributes:
      values: float32 `[nodes]`, NaN where one is not known; of labels that are class numbers these.
      mean, deviation: the mean and the standard deviation of the training nodes' values.

    Raises:
      InputError: a node may have several labels, or labels are names.
    """

    outputs = 1
    metrics = METRICS
    options = own_options("node_regression")
    headline = compared_by = "rmse"

    def __init__(self, graph: HetGraph, config: Config):
        self.roots, self.splits = (graph.schema.target,), graph.splits
        self.metric = owners.own(config.task, "node_regression").metric
        if graph.multilabel or graph.names.classes is not None:
            what = "several labels a node" if graph.multilabel else "names of classes"
            raise InputError(f"task.name is node_regression, and the labels of {self.root} are {what}, not numbers")
        known = graph.labelled(np.arange(len(graph.labels)))
        self.values = np.where(known, graph.labels, np.nan).astype(np.float32)
        train = self.values[self.splits["train"]].astype(np.float64)
        self.mean, self.deviation = (float(train.mean()), float(train.std())) if len(train) else (0.0, 1.0)
        self.deviation = self.deviation or 1.0  # of a graph to predict, whose training nodes may be few

    @classmethod
    def check(cls, graph: HetGraph, config: Config) -> None:
        train = graph.labels[graph.splits["train"]]
        if train.ndim == 1 and len(train) and (train == train[0]).all():
            raise InputError(
                f"task.name is node_regression, and the training nodes, {len(train)}, all have the value {train[0]:g}"
            )

    def examples(self, split: str) -> np.ndarray:
        return self.splits[split]

    def seeds(self, examples: np.ndarray) -> Seeds:
        values = np.nan_to_num((self.values[examples] - self.mean) / self.deviation).astype(np.float32)
        return Seeds({self.root: examples}, Numbers(values, np.ones(len(examples), np.float32)))

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return LinearHead(self.outputs, self.root) if linear else PlainHead(self.root)

    def loss(self, outputs: jax.Array, arrays: Numbers) -> jax.Array:
        return jnp.sum(jnp.where(arrays.weights > 0, jnp.square(outputs[:, 0] - arrays.values), 0))

    def weight(self, arrays: Numbers) -> Any:
        return arrays.weights.sum()

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        return self.measured(self.numbers(outputs), examples)

    def measured(self, numbers: np.ndarray, examples: np.ndarray) -> Quality:
        """Return the metrics of numbers in the unit of the labels."""
        if not len(examples):
            return dict.fromkeys(self.metrics)
        values = self.values[examples].astype(np.float64)
        square, spread = np.mean((numbers - values) ** 2), values.var()
        scores = {"rmse": np.sqrt(square), "mae": np.abs(numbers - values).mean(), "loss": square / self.deviation**2}
        return {name: float(score) for name, score in scores.items()} | {"r2": 1 - square / spread if spread else None}

    def numbers(self, outputs: np.ndarray) -> np.ndarray:
        """Return the numbers that outputs stand for, float64 `[nodes]`, in the unit of the labels."""
        return outputs[:, 0].astype(np.float64) * self.deviation + self.mean

    def predictions(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any
    ) -> NumberPredictions:
        return NumberPredictions(self.root, self.numbers(outputs)[:, None].astype(np.float32), names, **more)

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        return {"mean": "of the training nodes"}

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        test = self.splits["test"]
        return {
            name: {"how": how} | self.measured(np.full(len(test), self.mean), test) for name, how in baselines.items()
        }
