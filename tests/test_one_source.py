"""Attention over at most one edge, whose weight is 1: the same layer, with less to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax import evaluate, models
from hetjax.config import Config, Model, Sampling, Train
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.models import hgnn, one_source, orders
from hetjax.models.one_source import relations_of_one_source, with_one_source
from hetjax.sampling.blocks import Block, OneSource
from hetjax.sampling.whole import whole_relation
from hetjax.sharding.registry import make_engine
from hetjax.sharding.single import strategy
from tests.conftest import random_graph

MODELS = {
    "R-GAT": {"name": "rgat"},
    "HGT, joint": {"name": "hgt"},
    "HGT, relation": {"name": "hgt", "softmax": "relation"},
    "R-GAT, dropout": {"name": "rgat", "dropout": 0.2, "attention_dropout": 0.3},
}


def tables(seed: int = 0):
    """What tables make: orders and reviews that name a customer, or none, orders that name a shop, and products in many orders."""
    rng = np.random.default_rng(seed)
    nodes = {"order": 60, "customer": 15, "shop": 5, "product": 12, "review": 20}
    made, wrote, sold = (
        Relation("customer", "made", "order"),
        Relation("customer", "wrote", "review"),
        Relation("shop", "sold", "order"),
    )
    of = {
        r: (rng.integers(0, nodes[r.source], nodes[r.target]), np.arange(nodes[r.target])) for r in (made, wrote, sold)
    }
    of[made] = tuple(end[rng.permutation(60)[:50]] for end in (np.stack(of[made])))  # not every order has one
    edges = dict(of) | {r.reverse: of[r][::-1] for r in (made, sold)}
    many = Relation("product", "in", "order")
    edges[many] = rng.integers(0, 12, 150), rng.integers(0, 60, 150)
    edges[many.reverse] = edges[many][::-1]
    edges[Relation("review", "of", "order")] = np.arange(20), rng.integers(0, 60, 20)
    features = {
        t: rng.standard_normal((nodes[t], width), np.float32)
        for t, width in (("order", 9), ("product", 4), ("review", 3))
    }
    order = rng.permutation(60)
    splits = {"train": order[:30], "validation": order[30:45], "test": order[45:]}
    return build(Schema(nodes, tuple(edges), "order", 3), edges, features, rng.integers(0, 3, 60), splits)


def keys(graph, *names: str) -> set[str]:
    return {relation.key for relation in graph.relations if relation.name in names}


def test_relations_of_one_source_are_found(monkeypatch):
    """Not those where any node has two sources, be it the last; counted some nodes at a time."""
    graph = tables()
    assert relations_of_one_source(graph) == keys(graph, "made", "wrote", "sold")
    assert "ghost--haunts--author" in relations_of_one_source(random_graph())  # which has no edges
    monkeypatch.setattr(one_source, "SOME", 4)
    degrees = np.array([1, 0, 1, 1, 1, 0, 0, 1, 0, 1])
    for last, expected in ((1, True), (2, False)):
        indptr = np.cumsum([0, *degrees, last])
        assert one_source._of_one_source(CSC(indptr, np.zeros(indptr[-1], np.uint8))) == expected
    assert one_source._of_one_source(CSC(np.zeros(1, np.int64), np.zeros(0, np.uint8)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("R-GAT", {"made", "wrote", "sold"}), ("HGT, relation", {"made", "wrote", "sold"}), ("HGT, joint", {"wrote"})],
)
def test_a_softmax_over_several_relations_keeps_its_logits(name, expected):
    graph = tables()
    own = {"heads": 2} | MODELS[name]
    built = hgnn.build(models.find(own.pop("name")), graph.schema, {}, 6, 1, **own)
    block = Block({relation.key: whole_relation(graph, relation) for relation in graph.relations}, {})
    every = built.layers[0].clone(relations=graph.schema.relations, targets=tuple(graph.schema.nodes))
    ready = with_one_source(every, block, relations_of_one_source(graph))
    assert {key for key, edges in ready.adjacency.items() if isinstance(edges, OneSource)} == keys(graph, *expected)


@pytest.mark.parametrize(
    ("name", "mode", "first"),
    [
        ("R-GAT", "full", True),
        ("R-GAT", "minibatch", False),
        ("R-GAT, dropout", "full", False),
        ("HGT, joint", "full", False),
        ("HGT, joint", "minibatch", True),
        ("HGT, relation", "full", True),
    ],
)
def test_a_step_and_evaluation_are_the_same(name, mode, first, monkeypatch):
    """Losses, weights and learned features of some steps, and logits, in double precision and in either order."""
    monkeypatch.setattr(orders, "multiplies_first", lambda work: first)
    monkeypatch.setattr(orders, "shared", lambda works: frozenset())
    graph = tables()
    with jax.enable_x64(True):
        plain, sole = (_trained(graph, name, mode, monkeypatch, replaced) for replaced in (False, True))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11), plain, sole)


def _trained(graph, name, mode, monkeypatch, replaced: bool):
    """What three steps give, with or without `OneSource`."""
    found = relations_of_one_source if replaced else lambda graph: frozenset()
    for module in (strategy, evaluate):
        monkeypatch.setattr(module, "relations_of_one_source", found)
    own = {"hidden": 4, "layers": 2, "feature_width": 3, "heads": 2} | MODELS[name]
    sampling = Sampling(mode=mode, batch_size=10, fanout=(3, 2))
    engine = make_engine(Config(model=Model(**own), sampling=sampling, train=Train(learning_rate=0.01)), graph)
    state, losses, stood = engine.init(0), [], set()
    if jax.config.jax_enable_x64:
        state = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype == jnp.float32 else leaf, state)
    for number in range(3):
        for drawn in engine.batches.epoch(number):
            for block in drawn.batch.blocks:
                stood |= {key for key, edges in block.adjacency.items() if isinstance(edges, OneSource)}
            state, loss = engine.step(state, drawn.batch)
            losses.append(float(loss))
    assert bool(stood) == replaced
    whole = engine.gather(state)
    features = {t: np.asarray(rows) for t, rows in engine.given_features().items()}
    features |= {t: np.asarray(table.rows) for t, table in whole.tables.items()}
    evaluator = evaluate.Evaluator(engine.trainer.model, graph, 1000)
    logits = evaluator.logits(whole.params, features, graph.splits["test"])
    return (
        losses,
        jax.tree.map(np.asarray, (whole.params, {t: table.rows for t, table in whole.tables.items()})),
        logits,
    )
