"""The protocol of tasks: a task says what a run predicts, and which metrics judge it.

A task stands above the engines, and knows none of them::

    examples --(task.seeds)--> nodes by type, arrays --(engine.embed)--> embeddings --(task.head)--> outputs --(task.loss)--> sum

It is a file of this package, or a class of a user's own (`registry`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.tasks.predictions import Predictions
from hetjax.tasks.quality import Metric, Quality
from hetjax.tasks.report_parts import Part


class Seeds(NamedTuple):
    """The seeds of some examples, as engines are given them.

    Attributes:
      nodes: the distinct ids of the nodes whose embeddings the examples need, int32 per root type; every root type is there.
      arrays: a pytree of arrays `[examples, ...]`, row `i` of every leaf about example `i`. Engines pad it with rows of zeros
        and never look into it. It may name seeds by their positions in `nodes`: engines that divide examples among devices
        call `seeds` for each share, and give a device the embeddings of the nodes of its own share in their order.
    """

    nodes: Mapping[str, np.ndarray]
    arrays: Any


def own_options(name: str) -> frozenset[str]:
    """Return the keys of the section that a built-in task owns."""
    return frozenset(f"{name}.{key.name}" for key in fields(owners.sections(owners.TASK)[name]))


OF_CLASSES = frozenset(
    {"train.stacking", "data.label_inputs", "data.metapath_label_hops", "model.logit_norm"}
)  # keys of shared sections that tasks about classes alone read
OPTIONS = OF_CLASSES.union(*map(own_options, owners.sections(owners.TASK)))  # keys that some tasks alone read


class Task(ABC):
    """A prediction target on a graph, with its loss, metrics and outputs.

    Args:
      graph: the graph whose label column is predicted.
      config: the configuration of the run.

    Attributes:
      roots: the node types whose embeddings the task reads.
      outputs: the number of values that the head returns per example.
      metrics: the metrics by name, in the order in which they are shown; `loss` is one of them.
      headline: the metric that is shown first, and that training examples are measured by.
      metric: the metric that epochs are chosen by on the validation examples.
      compared_by: the metric that baselines choose by and are compared by.
      beside: metrics that the line of an epoch names besides, where they are defined.
      targets: of several targets their names, with which names of their metrics begin.
      also_compared_by: further metrics that baselines are compared by, each a line.
      options: the keys of `OPTIONS` that the task reads.
    """

    roots: tuple[str, ...]
    outputs: int
    metrics: Mapping[str, Metric]
    headline: str
    metric: str
    compared_by: str
    beside: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    also_compared_by: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()

    @abstractmethod
    def __init__(self, graph: HetGraph, config: Config): ...

    @classmethod  # noqa: B027 (many tasks ask for nothing more)
    def check(cls, graph: HetGraph, config: Config) -> None:
        """Raise an InputError where a graph that is to be trained on does not go with the task and its options."""

    @classmethod
    def choices(cls, graph: HetGraph, config: Config, given: Set[str]) -> Iterator[tuple[str, Any, str]]:
        """Yield options that a graph needs, by their full names, with their values and the reasons; those that are given are left out.

        Args:
          graph: that is to be trained on.
          config: with the defaults of what is not given.
          given: the full names of the options that are.
        """
        yield from ()

    @classmethod
    def options_for(cls, graph: HetGraph, config: Config) -> frozenset[str]:
        """Return the keys of `OPTIONS` that the task reads on a graph."""
        return cls.options

    @property
    def root(self) -> str:
        """The only root type, of a task whose examples are nodes of one type."""
        (root,) = self.roots
        return root

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return for each example the value of one of its nodes, so that examples can be trained where that node is.

        A task whose examples are nodes of one type need not override it.

        Args:
          examples: their numbers.
          values: `[nodes]` per node type.
        """
        return values[self.root][self.seeds(examples).nodes[self.root]]

    @abstractmethod
    def examples(self, split: str) -> np.ndarray:
        """Return the numbers of the examples of `train`, `validation` or `test`, rising int32."""

    @abstractmethod
    def seeds(self, examples: np.ndarray) -> Seeds:
        """Return the seeds of some examples."""

    @property
    def aligned(self) -> bool:
        """True if each example has one seed, row `i` of which is about example `i`: the arrays have no positions of seeds."""
        return type(self).relocated is Task.relocated

    def relocated(self, arrays: Any, rows: Mapping[str, np.ndarray]) -> Any:
        """Return the arrays of `seeds` for other seeds, so that a task on several nodes an example can be one of `several`.

        A task that names seeds by their positions overrides it.

        Args:
          arrays: of `Seeds`.
          rows: per root type, where each of the nodes of `Seeds` is among the other seeds, int32 `[nodes]`.
        """
        return arrays

    @abstractmethod
    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        """Return the module that maps `(embeddings, arrays)` to outputs `[examples, outputs]`.

        It is called with the embeddings of the seeds, `[seeds, width]` per root type, padded, and the arrays of `Seeds`, and has
        to treat every example alone. Where every example has one seed, row `i` of both is about example `i`.

        Args:
          linear: whether it multiplies by a matrix; if not, the last layer made embeddings of the outputs' width.
          normalised: whether the outputs of every example are brought to mean 0 and variance 1.
        """

    @abstractmethod
    def loss(self, outputs: jax.Array, arrays: Any) -> jax.Array:
        """Return the sum of the examples' weighted losses, a scalar; an example whose arrays are zeros is padding and adds 0."""

    @abstractmethod
    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        """Return the value of every metric; None of a metric that these examples leave undefined, and of all where there are none.

        Args:
          outputs: float32 `[examples, outputs]`.
          examples: their numbers.
          chosen: the way in which outputs are read, as `chosen` gives it. None: the best for these examples, which is among the values
            that are returned.
        """

    def chosen(self, quality: Mapping[str, Any]) -> Mapping[str, float]:
        """Return the way in which outputs are read that validation chose, from the quality of the best epoch."""
        return {}

    def shown(self, quality: Mapping[str, Any]) -> list[str]:
        """Return the metrics that a line about some quality names, the headline first."""
        return [name for name in self.metrics if quality.get(name) is not None and name != "loss"]

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        """Return by name the baselines that the model has to beat, or the reasons for leaving them out; a `hetjax.tasks.baselines.Baseline` each.

        Args:
          graph: all of it, as it was read.
        """
        return {}

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return by name the quality of baselines on the test examples, by metric, and `how` they came to it."""
        return {}

    def stacked(self, outputs: np.ndarray, baselines: Mapping[str, Any]) -> Any:
        """Return a `hetjax.tasks.stack_fit.Tried`: how outputs are weighted with those of baselines, from outputs of the validation examples; None: they are not."""
        return None

    @abstractmethod
    def predictions(self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any) -> Predictions:
        """Return the predictions of nodes.

        Args:
          outputs: float32 `[nodes, outputs]`.
          names: the names of the graph.
          chosen: as of `quality`.
          **more: `embeddings` and `split`, as of `Predictions`.
        """

    def report(self, predicted: Predictions, examples: np.ndarray, folder: Path) -> Sequence[Part]:
        """Return the parts of a run's page about the test examples.

        Args:
          predicted: the predictions of these examples, in their order.
          folder: the folder of pictures while they are drawn.
        """
        return ()

    def report_of(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], examples: np.ndarray, folder: Path
    ) -> Sequence[Part]:
        """Return the parts of a run's page from the outputs of the test examples; arguments as of `predictions` and `report`."""
        return self.report(self.predictions(outputs, names, chosen), examples, folder)

    @abstractmethod
    def weight(self, arrays: Any) -> Any:
        """Return the sum of the examples' weights, by which a step's sum of losses is divided; of host arrays a number."""
