"""Types without rows, features that are no floats, and random schemas: every way to train equals one device."""

import dataclasses

import numpy as np
import pytest

from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.kernels.partials import Attention, attended
from hetjax.kernels.segment import by_source
from hetjax.sampling.blocks import Adjacency
from hetjax.sampling.sampler import ALL
from hetjax.system.eager import eagerly
from tests.support.equivalence import alone, apart, compare, damped, differ, few, setting
from tests.support.models import trainer_of
from tests.support.schemas import BOUND, found, random_case

RGAT, HGT = {"name": "rgat", "heads": 2}, {"name": "hgt", "heads": 2, "softmax": "relation"}


def small(b: int = 3, dtype=np.float32, into_b=((), ())):
    """Types a, which is classified, and b, of `b` nodes; b leads to a through an edge into a node that is not trained on."""
    relations = Relation("a", "own", "a"), Relation("b", "to", "a"), Relation("a", "back", "b")
    ends = ([0, 1, 2, 3], [1, 0, 0, 2]), ([0], [3]) if b else ((), ()), into_b
    edges = {r: tuple(np.array(end, int) for end in pair) for r, pair in zip(relations, ends)}
    features = {"a": np.arange(12).reshape(4, 3).astype(dtype)}
    splits = {"train": np.array([0, 1, 2])}
    return build(Schema({"a": 4, "b": b}, relations, "a", 2), edges, features, np.array([0, 1, 1, 0]), splits)


def test_no_rows_attend_to_nothing():
    partial = Attention(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2, 3)))
    assert attended(partial).shape == (0, 6)


def test_rows_past_the_sources_of_edges_have_no_edges():
    """A kernel that goes over all rows of a type without nodes, which are padding, would read past the end of the pointers."""
    zeros, none = np.zeros(2, np.int32), np.zeros(0, np.int32)
    rows, _ = by_source(Adjacency(zeros, none, zeros[:1], none, none), sources=4)
    np.testing.assert_array_equal(rows.indptr, np.zeros(5))
    one, edge = np.array([0, 1], np.int32), zeros[:1]
    rows, _ = by_source(Adjacency(one, edge, one, edge, edge), sources=3)
    np.testing.assert_array_equal(rows.indptr, [0, 1, 1, 1])


@pytest.mark.parametrize("model", [RGAT, HGT], ids=["R-GAT", "HGT"])
@pytest.mark.parametrize(("nodes", "mode"), [(3, "minibatch"), (0, "full")])
def test_a_type_without_rows_at_an_inner_layer(nodes, mode, model):
    made = alone(small(nodes), mode, model, steps=1)
    assert np.isfinite(made.losses).all() and any(np.any(leaf) for leaf in made.gradients.values())


@pytest.mark.parametrize("mode", ["minibatch", "full"])
def test_a_type_that_nothing_leads_to_or_reads_at_an_inner_layer(mode):
    """Without self terms, b has embeddings that are made of nothing."""
    graph = small()
    made = alone(graph.only([graph.schema.relations[1]]), mode, {"self_term": False}, steps=1)
    assert np.isfinite(made.losses).all() and any(np.any(leaf) for leaf in made.gradients.values())


def test_l2_pulls_at_the_rows_that_a_batch_reads_and_with_the_whole_graph_at_all():
    """Both have all neighbours: they differ by the penalty of the rows of b that no training node reaches, and by nothing else."""
    graph, model, l2 = small(), {"one_hot": True}, 0.1
    whole, mini = (alone(graph, mode, model, steps=1, l2=l2) for mode in ("full", "minibatch"))
    trainer = trainer_of(graph, setting(graph, "full", (1, 1), model, {}), steps=1)
    unread = np.asarray(eagerly(trainer.init, np.int32(0)).tables["b"].rows)[1:]
    np.testing.assert_allclose(whole.losses - mini.losses, l2 * np.sum(unread**2), rtol=1e-4)
    np.testing.assert_allclose(whole.gradients["b"][1:], 2 * l2 * unread, rtol=1e-6)
    assert not mini.gradients["b"][1:].any()
    read = np.arange(3)[:, None] == 0
    for name, leaf in (whole.gradients | {"b": whole.gradients["b"] * read}).items():
        np.testing.assert_allclose(mini.gradients[name], leaf, rtol=1e-5, atol=1e-6)


def test_the_whole_graph_has_the_relations_of_every_layer():
    """Without self terms a type need not be a target of every layer: here papers are one of the last, and authors of the first."""
    graph, everything = few("writes", "written_by"), {"fanout": (ALL, ALL), "batch_size": 99}
    whole, mini = (alone(graph, mode, {"self_term": False}, 1, **everything) for mode in ("full", "minibatch"))
    assert max(apart(mini, whole)) < 1e-5 and all(np.any(leaf) for leaf in whole.gradients.values())


@pytest.mark.parametrize("number", [19, 40, 148, 186, 2030, 2121])
def test_random_schemas(number):
    """Some of those of `python experiments/equivalence/random_schemas.py`."""
    ways = dict(found(random_case(number)))
    assert all(errors is None or max(errors) <= BOUND for errors in ways.values()), ways


def test_a_state_that_rounding_moves_agrees_where_adam_does_not_enlarge_it():
    """Of case 2095 some numbers of biases have gradients of 1e-18, with which the usual Adam leads the state 2e-3 away."""
    with damped():
        ways = dict(found(random_case(2095), ["raf 2x1"]))
    assert max(ways["raf 2x1"]) <= BOUND, ways


def test_damping_is_of_weights_and_rows_and_ends():
    usual = alone(small(), "minibatch", RGAT, steps=1)
    with damped():
        slow = alone(small(), "minibatch", RGAT, steps=1)
    again = alone(small(), "minibatch", RGAT, steps=1)
    assert not any(differ(again.state, usual.state, 0.0).values())
    assert max(differ(slow.gradients, usual.gradients, 0.0).values()) < 1e-6
    moved = {name for name, error in differ(slow.state, usual.state, 0.0).items() if error > 1e-4}
    assert "b" in moved and any(name.startswith("params/") for name in moved)


@pytest.mark.parametrize("dtype", [np.int8, bool])
def test_one_layer_that_looks_at_targets_whose_features_are_no_floats(dtype):
    errors = compare(small(dtype=dtype), (2, 1), "minibatch", RGAT | {"layers": 1}, steps=2, wide=True, fanout=(3,))
    assert max(errors) < 1e-9


@pytest.mark.parametrize("halves", [False, True])
def test_whole_numbers_that_travel_beside_learned_rows_or_halves(halves):
    """Numbers that a half does not hold; as whole rows, which a decoupled model reads."""
    graph = small(dtype=np.int16)
    features = {"a": graph.features["a"] + np.int16(2049)}
    if halves:
        features["b"] = np.eye(3, dtype=np.float16)
    graph = dataclasses.replace(graph, features=features)
    errors = compare(graph, (1, 1, "tensor", 2), "minibatch", {"decoupled": True}, steps=2, wide=True, fanout=(3, 3))
    assert max(errors) < 1e-9
