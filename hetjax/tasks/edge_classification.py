"""Edge classification: one class of each labelled pair of a relation, or any number of labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.system.errors import InputError
from hetjax.tasks import baselines
from hetjax.tasks.declared.edge_classification import Options
from hetjax.tasks.labelled_pairs import OfPairs, ends_features, without_edges
from hetjax.tasks.node_classification import NodeClassification, compared_by
from hetjax.tasks.task import own_options


class EdgeClassification(OfPairs, NodeClassification):
    """The classes of labelled pairs, from the embeddings of both ends; what they are judged by is that of `NodeClassification`.

    Args:
      graph, config: as of `Task`.

    Raises:
      InputError: labels are of nodes, or an option does not go with them.
    """

    name = "edge_classification"
    options = own_options(name)

    def __init__(self, graph: HetGraph, config: Config):
        super().__init__(graph, config)
        own = self.own(config)
        assert isinstance(own, Options)
        if own.ordinal:
            raise InputError("edge_classification.ordinal is true, and only nodes have classes with an order so far")
        self.decoder = own.decoder, own.bases

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        metric, both = compared_by(self.compared_by), ends_features(graph)
        fitted = both if isinstance(both, str) else baselines.logistic(both, metric)
        return {"larger class": baselines.larger_class(without_edges(graph), metric), "logistic regression": fitted}

    def stacked(self, outputs: np.ndarray, baselines: Mapping[str, Any]) -> None:
        return None
