"""Labels as inputs: what reaches a node, and that its own label, and those of validation and test, do not."""

from dataclasses import replace

import numpy as np
import pytest

from hetjax.graph.csc import CSC
from hetjax.graph.label_inputs import propagated, with_labels, without_labels
from hetjax.graph.label_propagation import ways
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError
from tests.support.equivalence import MODELS, compare, few, homogeneous, several_labels
from tests.support.graphs import random_graph
from tests.support.label_changes import logits, relabelled

GRAPHS = {
    "several relations": lambda: random_graph(5),
    "one relation": homogeneous,
    "several labels": lambda: several_labels(random_graph(5)),
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_nodes_own_label_does_not_reach_its_inputs_and_those_of_others_do(graph):
    plain = GRAPHS[graph]()
    before, reached = propagated(plain), 0
    for node in plain.splits["train"]:
        after = propagated(relabelled(plain, np.array([node])))
        np.testing.assert_array_equal(before[node], after[node])
        reached += not np.array_equal(before, after)
    assert reached > len(plain.splits["train"]) / 2


@pytest.mark.parametrize("graph", GRAPHS)
def test_labels_of_validation_and_test_reach_nothing(graph):
    plain = GRAPHS[graph]()
    others = np.setdiff1d(np.arange(len(plain.labels)), plain.splits["train"])
    np.testing.assert_array_equal(propagated(plain), propagated(relabelled(plain, others)))


@pytest.mark.parametrize(
    ("graph", "name"),
    [("several relations", "rgcn"), ("several relations", "hgt"), ("several labels", "rgat"), ("one relation", "gcn")],
)
def test_a_nodes_own_label_does_not_reach_its_logits_through_the_layers(graph, name):
    """Three layers, in which a neighbour's inputs, that hold the label, are one hop away and back."""
    plain = GRAPHS[graph]()
    train = plain.splits["train"]
    changed = [with_labels(relabelled(plain, np.array([node]))) for node in train]
    before, *found = logits(with_labels(plain), *changed, name=name)
    for node, after in zip(train, found):
        np.testing.assert_array_equal(before[node], after[node])
    assert sum(not np.array_equal(before, after) for after in found) > len(train) / 2


def test_it_is_a_graph_with_another_target_and_back():
    plain = random_graph(5)
    graph = with_labels(plain)
    assert graph.schema.target == "paper with labels"
    assert {r.source for r in graph.schema.relations if r.target == graph.schema.target} >= {
        "paper",
        graph.schema.target,
    }
    assert [r for r in graph.schema.relations if r.source == graph.schema.target] == [
        Relation(graph.schema.target, "labels", graph.schema.target)
    ]
    back = without_labels(graph)
    assert back.schema == plain.schema and back.features.keys() == plain.features.keys()
    assert without_labels(plain) is plain
    with pytest.raises(InputError, match="type 'paper with labels' already"):
        with_labels(replace(graph, schema=replace(graph.schema, target="paper")))


@pytest.mark.parametrize(
    ("mesh", "mode", "model"),
    [
        ((2, 1), "minibatch", "R-GCN"),
        ((2, 1), "full", "HGT, joint"),
        ((2, 1), "full", "R-GAT, dropout"),
        ((1, 2, "vanilla"), "minibatch", "R-GCN"),
        ((1, 2, "vanilla"), "minibatch", "HGT, relation"),
        ((1, 2, "dependency"), "full", "R-GCN, residual"),
        ((1, 2, "dependency"), "full", "HGT, dropout"),
        ((1, 1, "tensor", 2), "full", "R-GAT"),
        ((1, 1, "tensor", 2), "full", "R-GCN"),
    ],
)
def test_every_strategy_equals_one_device(mesh, mode, model):
    errors = compare(with_labels(few("cites", "writes")), mesh, mode, MODELS[model], wide=True)
    assert errors.loss < 1e-9 and errors.gradient < 1e-9 and errors.state < 1e-7


def test_another_graph_gets_the_columns_of_the_one_that_was_trained_on():
    plain = random_graph(5)
    touching = [r for r in plain.relations if plain.schema.target in (r.source, r.target)]
    most = max(touching, key=lambda r: plain.relations[r].edges)
    csc = plain.relations[most]
    fewer = CSC(np.minimum(csc.indptr, 1), csc.indices[: min(1, csc.indptr[-1])])  # one edge at most
    other = replace(plain, relations={**plain.relations, most: fewer})
    assert list(ways(other)) != list(ways(plain))
    found = with_labels(other, plain)
    expected = propagated(other, ways(plain))
    np.testing.assert_array_equal(found.features[found.schema.target], expected)
    assert not np.array_equal(expected, propagated(other))
    with pytest.raises(InputError, match="there is no relation"):
        with_labels(other.only([r for r in other.relations if r != most]), plain)
