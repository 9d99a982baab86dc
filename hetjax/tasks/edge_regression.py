"""Edge regression: a number of each labelled pair of a relation, or several."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.tasks import number_baselines
from hetjax.tasks.declared.edge_regression import Options
from hetjax.tasks.labelled_pairs import LabelledPairs, Places, ends_features, without_edges
from hetjax.tasks.node_regression import NodeRegression
from hetjax.tasks.task import Seeds, own_options


class EdgeRegression(NodeRegression):
    """Numbers of labelled pairs, from the embeddings of both ends; what they are judged by is that of `NodeRegression`.

    Args:
      graph, config: as of `Task`.

    Raises:
      InputError: labels are of nodes, or an option does not go with them.
    """

    name = "edge_regression"
    options = own_options(name)
    pairs: LabelledPairs

    def __init__(self, graph: HetGraph, config: Config):
        super().__init__(graph, config)
        assert isinstance(self.own, Options)
        self.decoder = self.own.decoder, self.own.bases

    def seeds(self, examples: np.ndarray) -> Seeds:
        nodes, (source, target) = self.pairs.seeds(examples)
        return Seeds(nodes, Places(source, target, self.numbers_of(examples)))

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
        alone, both = without_edges(graph), ends_features(graph)
        found = number_baselines.baselines(alone, self.values, self.scale, self.score, ("mean", "median"))
        if isinstance(both, str):
            return found | {"ridge regression": both}
        return found | number_baselines.baselines(both, self.values, self.scale, self.score, ("ridge regression",))
