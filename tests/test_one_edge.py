"""Attention over one edge at most, whose weight is 1: the same layer, with less to do."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax import models
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import abstract_graph, sizes
from hetjax.kernels import attention, folded_attention, orders, partials
from hetjax.kernels.sparse import SparseRows
from hetjax.models import hgnn
from hetjax.models.one_edge import AT_ONCE, _at_most_one, one_edge, with_one_edge
from hetjax.models.rgat import RGATLayer
from hetjax.options import owners
from hetjax.options.config import Config, Sampling, Train
from hetjax.sampling.blocks import Block, OneEdge
from hetjax.sampling.whole import whole_relation
from hetjax.sharding import evaluate
from hetjax.sharding.registry import make_engine
from hetjax.sharding.single import reading, strategy
from tests.support.graphs import random_graph
from tests.support.models import evaluated, readout

HGT = {"name": "hgt", "heads": 2}
MODELS = {
    "R-GAT": {"name": "rgat", "heads": 2},
    "HGT, joint": HGT,
    "HGT, relation": HGT | {"softmax": "relation"},
    "R-GAT, dropout": {"name": "rgat", "heads": 2, "dropout": 0.2, "attention_dropout": 0.3},
    "HGT, joint, dropout": HGT | {"attention_dropout": 0.3},
}


def tables(seed: int = 0):
    """What tables make: orders and reviews that name a customer, or none, orders that name a shop, and products in many orders."""
    rng = np.random.default_rng(seed)
    nodes = {"order": 60, "customer": 15, "shop": 5, "product": 12, "review": 20}
    made, wrote, sold, of = (
        Relation("customer", "made", "order"),
        Relation("customer", "wrote", "review"),
        Relation("shop", "sold", "order"),
        Relation("review", "of", "order"),
    )
    edges = {
        r: (rng.integers(0, nodes[r.source], nodes[r.target]), np.arange(nodes[r.target])) for r in (made, wrote, sold)
    }
    some = rng.permutation(60)[:50]  # not every order has one
    edges[made] = edges[made][0][some], some
    edges |= {r.reverse: edges[r][::-1] for r in (made, sold)}
    edges[of] = np.arange(20), rng.integers(0, 60, 20)
    many = Relation("product", "in", "order")
    edges[many] = rng.integers(0, 12, 150), rng.integers(0, 60, 150)
    edges[many.reverse] = edges[many][::-1]
    widths = {"order": 9, "product": 4, "review": 3}
    features = {t: rng.standard_normal((nodes[t], width), np.float32) for t, width in widths.items()}
    features["product"] = features["product"].astype(np.float16)
    features["shop"] = np.eye(5, 40, dtype=np.float32)  # mostly zeros
    order = rng.permutation(60)
    splits = {"train": order[:30], "validation": order[30:45], "test": order[45:]}
    return build(Schema(nodes, tuple(edges), "order", 3), edges, features, rng.integers(0, 3, 60), splits)


def layer_of(model, graph, **own):
    """A layer of all relations and types."""
    built = hgnn.build(model, graph.schema, {}, readout(graph), 6, 1, **own)
    return built.layers[0].clone(relations=graph.schema.relations, targets=tuple(graph.schema.nodes))


def names(keys) -> set[str]:
    return {key.split("--")[1] for key in keys}


class Across(RGATLayer):
    """R-GAT with one softmax over all relations."""

    traits = replace(RGATLayer.traits, monoid=partials.SOFTMAX)


@pytest.mark.parametrize(
    ("model", "own", "expected"),
    [
        ("rgat", {}, {"made", "wrote", "sold"}),
        ("hgt", {"softmax": "relation"}, {"made", "wrote", "sold"}),
        ("hgt", {}, {"wrote"}),
        ("rgcn", {}, set()),
        (Across, {}, {"wrote"}),
    ],
)
def test_only_a_softmax_over_one_edge_at_most_needs_no_logits(model, own, expected):
    """Not one over several relations, or over nodes themselves too, nor a sum; and what is not known of a graph is not said."""
    graph = tables()
    layer = layer_of(models.find(model) if isinstance(model, str) else model, graph, **own)
    (keys,) = one_edge([layer], graph)
    assert names(keys) == expected
    block = Block({relation.key: whole_relation(graph, relation) for relation in graph.relations}, {})
    stands = {key for key, edges in with_one_edge(block, keys).adjacency.items() if isinstance(edges, OneEdge)}
    assert stands == keys
    weighted = {
        key: edges._replace(weights=np.ones(len(edges.indices), np.float32)) for key, edges in block.adjacency.items()
    }
    assert with_one_edge(block._replace(adjacency=weighted), keys).adjacency == weighted
    assert one_edge([layer], abstract_graph(sizes(graph), graph.labels, graph.splits)) == [frozenset()]


def test_a_softmax_over_a_node_itself_too_keeps_its_logits():
    graph = tables().only([Relation("customer", "wrote", "review"), Relation("review", "of", "order")])
    for selves, expected in (((), {"wrote"}), (("review",), set())):
        layer = layer_of(Across, graph).clone(selves=selves)
        assert names(one_edge([layer], graph)[0]) == expected


@pytest.mark.parametrize("places", [(), (0,), (AT_ONCE - 1,), (AT_ONCE,), (AT_ONCE + 9,)])
def test_every_node_is_looked_at(places):
    """Of a relation of many nodes some at a time, those at the ends of a part too."""
    degrees = np.zeros(AT_ONCE + 10, np.int64)
    degrees[::3] = 1
    degrees[list(places)] = 2
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    assert _at_most_one(CSC(indptr, np.broadcast_to(np.uint8(0), indptr[-1]))) == (not places)
    assert _at_most_one(CSC(np.zeros(1, np.int64), np.zeros(0, np.uint8)))


def test_a_relation_without_edges_has_one_at_most():
    layer = layer_of(models.find("rgat"), graph := random_graph())
    assert "ghost--haunts--author" in one_edge([layer], graph)[0]


@pytest.mark.parametrize(
    ("name", "mode", "first", "shares"),
    [
        ("R-GAT", "full", True, False),
        ("R-GAT", "minibatch", False, False),
        ("R-GAT, dropout", "full", False, False),
        ("HGT, joint", "full", False, False),
        ("HGT, joint, dropout", "minibatch", True, True),
        ("HGT, relation", "minibatch", False, False),
        ("HGT, relation", "full", True, True),
    ],
)
def test_a_step_and_evaluation_are_the_same(name, mode, first, shares, monkeypatch):
    """Losses, weights and learned features of some steps, and logits, in double precision, in either order and whatever others share.

    Of a gradient that is zero but for rounding, as keys' bias has, Adam makes up to 1e6 times as much: hence the absolute tolerance.
    """
    monkeypatch.setattr(orders, "multiplies_first", lambda work: first)
    monkeypatch.setattr(
        orders, "shared", lambda works, model=None: frozenset(works if shares and len(works) > 1 else ())
    )
    with jax.enable_x64(True):
        plain, sole = (_trained(tables(), name, mode, monkeypatch, replaced) for replaced in (False, True))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9), plain, sole)


def _trained(graph, name, mode, monkeypatch, replaced: bool):
    """What three steps give, with or without `OneEdge`; no kernel of attention sees one."""
    attended, found = set(), one_edge if replaced else lambda layers, graph: [frozenset()] * len(layers)

    def watched(attend, place):
        def seen(*given):
            attended.add(type(given[place]))
            return attend(*given)

        return seen

    model = owners.made_model(**{"hidden": 4, "layers": 2, "feature_width": 3} | MODELS[name])
    sampling = Sampling(mode=mode, batch_size=10, fanout=(3, 2))
    with monkeypatch.context() as patched:
        patched.setattr(attention, "_attend", watched(attention._attend, 0))
        patched.setattr(folded_attention, "_attend", watched(folded_attention._attend, 1))
        for module in (strategy, evaluate, reading):
            patched.setattr(module, "one_edge", found)
        engine = make_engine(Config(model=model, sampling=sampling, train=Train(learning_rate=0.01)), graph)
        state, losses, stood = engine.init(0), [], set()
        state = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype == jnp.float32 else leaf, state)
        for number in range(3):
            for drawn in engine.batches.epoch(number):
                stood |= {type(edges) for block in drawn.batch.blocks for edges in block.adjacency.values()}
                state, loss = engine.step(state, drawn.batch)
                losses.append(float(loss))
        whole = engine.gather(state)
        learned = {t: np.asarray(table.rows) for t, table in whole.tables.items()}
        evaluator = evaluate.Evaluator(engine.trainer.model, graph, 100)
        logits = evaluated(evaluator, whole.params, {**engine.given_features(), **learned}, graph.splits["test"])
    assert isinstance(engine.features.static["shop"], SparseRows) or mode == "minibatch"
    assert (OneEdge in stood) == replaced and attended and OneEdge not in attended
    return losses, jax.tree.map(np.asarray, (whole.params, learned)), logits
