"""Edge regression: a number of each labelled pair of a relation, or several."""

from collections.abc import Mapping
from typing import Any

from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.tasks import number_baselines
from hetjax.tasks.declared.edge_regression import Options
from hetjax.tasks.labelled_pairs import OfPairs, ends_features, without_edges
from hetjax.tasks.node_regression import NodeRegression
from hetjax.tasks.task import own_options


class EdgeRegression(OfPairs, NodeRegression):
    """Numbers of labelled pairs, from the embeddings of both ends; what they are judged by is that of `NodeRegression`.

    Args:
      graph, config: as of `Task`.

    Raises:
      InputError: labels are of nodes, or an option does not go with them.
    """

    name = "edge_regression"
    options = own_options(name)

    def __init__(self, graph: HetGraph, config: Config):
        super().__init__(graph, config)
        assert isinstance(self.own, Options)
        self.decoder = self.own.decoder, self.own.bases

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        alone, both = without_edges(graph), ends_features(graph)
        found = number_baselines.baselines(alone, self.values, self.scale, self.score, ("mean", "median"))
        if isinstance(both, str):
            return found | {"ridge regression": both}
        return found | number_baselines.baselines(both, self.values, self.scale, self.score, ("ridge regression",))
