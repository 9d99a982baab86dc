"""A graph that tests share, without jax."""

import numpy as np

from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.schema import Relation, Schema
from hetjax.kernels import cost_model
from hetjax.kernels.cost_model import CostModel, Costs
from hetjax.options.config import Config
from hetjax.sharding.evaluate import ReadOut
from hetjax.sharding.strategy import Engine
from hetjax.sharding.trainer import make_trainer
from hetjax.tasks.node_classification import NodeClassification


def random_graph(seed: int = 0, papers: int = 40, degree: int = 3) -> HetGraph:
    """A small graph with every oddity that is legal.

    Parallel edges, self loops, nodes without edges, two relations between the same types, an empty relation, a type that
    is only a source (`venue`), types with features of float32 and float16 and without, and a type without nodes.
    """
    rng = np.random.default_rng(seed)
    nodes = {"paper": papers, "author": 25, "venue": 6, "topic": 11, "ghost": 0}
    relations = (
        Relation("paper", "cites", "paper"),
        Relation("paper", "extends", "paper"),
        Relation("author", "writes", "paper"),
        Relation("paper", "written_by", "author"),
        Relation("venue", "publishes", "paper"),
        Relation("topic", "of", "paper"),
        Relation("paper", "about", "topic"),
        Relation("author", "knows", "author"),
        Relation("ghost", "haunts", "author"),
    )
    edges = {relation: (np.empty(0, int),) * 2 for relation in relations}
    for relation in relations[:-1]:
        count = degree * nodes[relation.target]
        if relation.name != "knows":
            ends = [rng.integers(0, max(1, nodes[name] - 2), count) for name in (relation.source, relation.target)]
            edges[relation] = tuple(np.concatenate([end, end[: count // 4]]) for end in ends)  # some edges twice
    loops = np.arange(5)
    edges[relations[0]] = tuple(np.concatenate([end, loops]) for end in edges[relations[0]])
    features = {
        "paper": rng.standard_normal((papers, 7), np.float32),
        "topic": rng.standard_normal((11, 5)).astype(np.float16),
    }
    labels = rng.integers(0, 3, papers)
    order = rng.permutation(papers)
    labels[order[-2:]] = -1
    third = papers // 3
    splits = {"train": order[:third], "validation": order[third : 2 * third], "test": order[2 * third : -2]}
    return build(Schema(nodes, relations, "paper", 3), edges, features, labels, splits)


def smaller_graph(seed: int = 0, papers: int = 40, degree: int = 3) -> HetGraph:
    """The random graph with six of its nine relations, whose programs compile sooner: one relation for each oddity but the two between the same types."""
    kept = ("cites", "writes", "written_by", "of", "knows", "haunts")
    graph = random_graph(seed, papers, degree)
    return graph.only([relation for relation in graph.relations if relation.name in kept])


def readout(graph):
    """The task of a graph's labels, as `hgnn.build` takes it."""
    return NodeClassification(graph, Config())


def evaluated(evaluator, params, features, ids):
    """The logits of some nodes of the one root type, by an `Evaluator`."""
    embeddings = evaluator.embed(params, features, {evaluator.model.target: ids})
    return ReadOut(evaluator.model)(params, embeddings, None)


def in_chunks(engine, state, ids):
    """The logits of some nodes by one device, so many edges at a time."""
    embeddings = Engine.embed(engine, state, {engine.trainer.model.target: ids})
    return engine.read_out(engine.params(state), embeddings, None)


def set_costs(monkeypatch, costs: Costs) -> None:
    """Let orders be counted with other costs than the usual ones."""
    monkeypatch.setattr(cost_model, "usual", lambda: CostModel(costs))


def trainer_of(graph, config, steps=1):
    """Model and optimizers for a graph's labels."""
    return make_trainer(graph, config, NodeClassification(graph, config), steps)
