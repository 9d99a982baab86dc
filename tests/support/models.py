"""Models of a graph's labels, and what they compute for some nodes."""

from hetjax.kernels import cost_model
from hetjax.kernels.cost_model import CostModel, Costs
from hetjax.options.config import Config
from hetjax.sharding.evaluate import ReadOut
from hetjax.sharding.strategy import Engine
from hetjax.sharding.trainer import make_trainer
from hetjax.tasks.node_classification import NodeClassification


def readout(graph):
    """The task of a graph's labels, as `hgnn.build` takes it."""
    return NodeClassification(graph, Config())


def evaluated(evaluator, params, features, ids):
    """The logits of some nodes of the one root type, by an `Evaluator`."""
    embeddings = evaluator.embed(params, features, {evaluator.model.roots[0]: ids})
    return ReadOut(evaluator.model)(params, embeddings, None)


def in_chunks(engine, state, ids):
    """The logits of some nodes by one device, so many edges at a time."""
    embeddings = Engine.embed(engine, state, {engine.trainer.model.roots[0]: ids})
    return engine.read_out(engine.params(state), embeddings, None)


def set_costs(monkeypatch, costs: Costs) -> None:
    """Choose orders by other costs than the usual ones."""
    monkeypatch.setattr(cost_model, "usual", lambda: CostModel(costs))


def trainer_of(graph, config, steps=1):
    """Model and optimizers for a graph's labels."""
    return make_trainer(graph, config, NodeClassification(graph, config), steps)
