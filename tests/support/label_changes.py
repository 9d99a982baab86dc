"""Graphs with changed labels, and the logits that a model gives for them."""

from dataclasses import replace

import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.options import owners
from hetjax.options.config import Config, Sampling
from hetjax.sharding.evaluate import Evaluator
from hetjax.sharding.strategy import setup
from hetjax.system.eager import eagerly
from tests.support.graphs import evaluated


def relabelled(graph: HetGraph, ids: np.ndarray) -> HetGraph:
    """The same graph, with other labels of some nodes."""
    labels = graph.labels.copy()
    labels[ids] = 1 - labels[ids] if graph.multilabel else (labels[ids] + 1) % graph.schema.classes
    return replace(graph, labels=labels)


def alike(one: HetGraph, other: HetGraph) -> bool:
    """Whether their edges and weights are the same."""
    pairs = ((one.relations[relation], csc) for relation, csc in other.relations.items())
    return all(jax.tree.all(jax.tree.map(np.array_equal, tuple(a), tuple(b))) for a, b in pairs)


def logits(graph: HetGraph, *others: HetGraph, name: str, layers: int = 3, **options) -> list[np.ndarray]:
    """Of every target node, of each graph, by one model with random weights; the others differ from the first in features alone."""
    config = Config(
        model=owners.made_model(**{"name": name, "hidden": 8, "layers": layers} | options),
        sampling=Sampling(mode="full"),
    )
    made = setup(config, graph)
    assert all(one.schema == graph.schema and alike(one, graph) for one in others)
    state = eagerly(made.trainer.init, np.int32(0))
    learned = {name: np.asarray(table.rows) for name, table in state.tables.items()}
    evaluator, nodes = Evaluator(made.trainer.model, made.graph, 10**6), np.arange(len(graph.labels))
    return [evaluated(evaluator, state.params, dict(one.features) | learned, nodes) for one in (made.graph, *others)]
