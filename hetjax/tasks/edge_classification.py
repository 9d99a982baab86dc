"""Edge classification: one class of each labelled pair of a relation, or any number of labels."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.options.config import Config
from hetjax.system.errors import InputError
from hetjax.tasks import baselines
from hetjax.tasks.baselines import measured
from hetjax.tasks.declared.edge_classification import Options
from hetjax.tasks.labelled_pairs import LabelledPairs, Places, ends_features, without_edges
from hetjax.tasks.node_classification import NodeClassification
from hetjax.tasks.predictions import ClassPredictions
from hetjax.tasks.task import Seeds, own_options


class EdgeClassification(NodeClassification):
    """The classes of labelled pairs, from the embeddings of both ends; what they are judged by is that of `NodeClassification`.

    Args:
      graph, config: as of `Task`.

    Raises:
      InputError: labels are of nodes, or an option does not go with them.
    """

    name = "edge_classification"
    options = own_options(name)
    pairs: LabelledPairs

    def __init__(self, graph: HetGraph, config: Config):
        super().__init__(graph, config)
        own = self.own(config)
        assert isinstance(own, Options)
        if own.ordinal:
            raise InputError("edge_classification.ordinal is true, and only nodes have classes with an order so far")
        self.decoder = own.decoder, own.bases

    def seeds(self, examples: np.ndarray) -> Seeds:
        nodes, (source, target) = self.pairs.seeds(examples)
        return Seeds(nodes, Places(source, target, self.labels_of(examples)))

    def relocated(self, arrays: Any, rows: Mapping[str, np.ndarray]) -> Any:
        return self.pairs.relocated(arrays, rows)

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.pairs.node_values(examples, values)

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return self.pairs.head(self.name, linear, self.outputs, *self.decoder)

    def loss(self, outputs: jax.Array, arrays: Any) -> jax.Array:
        return super().loss(outputs, arrays.labels)

    def weight(self, arrays: Any) -> Any:
        return super().weight(arrays.labels)

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        found, both = (
            {"larger class": baselines.larger_class(without_edges(graph), self.compared_by)},
            ends_features(graph),
        )
        fitted = both if isinstance(both, str) else baselines.logistic(both, self.compared_by)
        return found | {"logistic regression": fitted}

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return measured(baselines, self, self.compared_by)

    def stacked(self, outputs: np.ndarray, baselines: Mapping[str, Any]) -> None:
        return None

    def predictions(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any
    ) -> ClassPredictions:
        return super().predictions(outputs, names, chosen, **more)
