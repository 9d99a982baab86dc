"""Options of classes: the focal loss, an order, costs, and a threshold of each class."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.metrics import f1_score

import hetjax
from hetjax.options.config import Config, Model, Train
from hetjax.options.owners import made_task
from hetjax.system.errors import InputError
from hetjax.tasks.class_losses import cross_entropy
from hetjax.tasks.heads import ProportionalOdds
from hetjax.tasks.metrics import best_thresholds, quality
from hetjax.tasks.node_classification import NodeClassification
from tests.support.equivalence import compare, few, several_labels
from tests.support.graphs import random_graph

LABELS = np.random.default_rng(0).integers(0, 3, 30)
LOGITS = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32) * 3


@pytest.mark.parametrize("focal", [0.5, 2.0])
def test_the_focal_loss_is_its_definition_and_optax(focal):
    share = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    true = share[np.arange(30), LABELS]
    weights = (1.0, 2.0, 0.5)
    expected = -np.log(true) * (1 - true) ** focal * np.array(weights)[LABELS]
    np.testing.assert_allclose(cross_entropy(LOGITS, LABELS, 0, weights, focal), expected, rtol=1e-4)
    several = np.eye(3)[LABELS].astype(np.int8)
    of_optax = optax.sigmoid_focal_loss(LOGITS, several.astype(np.float32), gamma=focal).mean(axis=1)
    np.testing.assert_allclose(cross_entropy(LOGITS, several, focal=focal), of_optax, rtol=1e-4)
    sure = jnp.array([[200.0, 0.0, 0.0]])
    assert np.isfinite(jax.grad(lambda one: cross_entropy(one, np.array([0]), focal=focal).sum())(sure)).all()


def test_probabilities_of_an_order_are_differences_of_sigmoids():
    head = ProportionalOdds(4, "paper")
    embeddings = {"paper": jnp.asarray(LOGITS)}
    params = head.init(jax.random.key(0), embeddings, None)
    params["params"]["steps"] = jnp.array([-1.0, 2.0])
    found = np.asarray(head.apply(params, embeddings, None), np.float64)
    one = {name: np.asarray(leaf, np.float64) for name, leaf in params["params"].items()}
    thresholds = one["first"] + np.concatenate([[0], np.cumsum(np.log1p(np.exp(one["steps"])))])
    upto = 1 / (1 + np.exp(-(thresholds - LOGITS @ one["kernel"])))
    expected = np.diff(np.pad(upto, ((0, 0), (1, 1)), constant_values=(0, 1)), axis=1)
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-4, atol=1e-7)
    far = head.apply(params, {"paper": jnp.full((1, 3), 1e4)}, None)
    assert np.isfinite(far).all() and ProportionalOdds(2, "paper").init_with_output(
        jax.random.key(0), embeddings, None
    )[0].shape == (30, 2)


def task_of(graph, **options):
    return NodeClassification(graph, Config(task=made_task("node_classification", **options)))


def test_costs_move_the_decision_and_are_measured():
    graph = random_graph()
    nodes = graph.splits["validation"]
    classes, costs = graph.schema.classes, [1.0] * graph.schema.classes
    costs[1] = 20.0
    task, plain = task_of(graph, costs=tuple(costs)), task_of(graph)
    outputs = np.random.default_rng(2).normal(size=(len(nodes), classes)).astype(np.float32)
    share = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    chosen, true = (share * costs).argmax(axis=1), graph.labels[nodes]
    found = task.quality(outputs, nodes)
    assert found["accuracy"] == np.mean(chosen == true)
    assert found["cost"] == pytest.approx(np.mean([costs[a] * (a != b) for a, b in zip(true, chosen)]))
    assert found["loss"] == plain.quality(outputs, nodes)["loss"] and "cost" not in plain.quality(outputs, nodes)
    np.testing.assert_array_equal(task.predictions(outputs, graph.names, {}).classes, chosen)
    assert (chosen == 1).sum() > (outputs.argmax(axis=1) == 1).sum()
    assert task.headline == next(iter(task.metrics)) == "cost"
    assert set(task.quality(outputs[:0], nodes[:0]).values()) == {None}


def test_every_class_has_the_threshold_of_its_highest_f1():
    rng = np.random.default_rng(3)
    labels = (rng.uniform(size=(200, 3)) < [0.5, 0.1, 0.02]).astype(np.int8)
    logits = (labels * 1.5 - 2 + rng.normal(size=labels.shape)).astype(np.float32)
    found, share = best_thresholds(logits, labels), 1 / (1 + np.exp(-logits.astype(np.float64)))
    for n, threshold in enumerate(found):
        tried = [f1_score(labels[:, n], share[:, n] > step / 100) for step in range(1, 100)]
        assert f1_score(labels[:, n], share[:, n] > threshold) == max(tried)
    macro = quality(logits, labels, threshold=tuple(found))["macro_f1"]
    assert macro == pytest.approx(f1_score(labels, share > found, average="macro"))
    assert macro > quality(logits, labels)["macro_f1"]


def test_a_run_keeps_the_thresholds_of_its_classes(tmp_path):
    graph = several_labels(few("cites", "writes"))
    given = {"epochs": 3, "mode": "full", "layers": 1}
    run = hetjax.train(graph, tmp_path / "run", threshold="classes", focal=2, **given)
    chosen = [run.summary[f"threshold_{n}"] for n in range(3)]
    found = run.predict()
    assert found.threshold == tuple(chosen) and not run.summary["stacking"]
    np.testing.assert_array_equal(found.classes, found.probabilities > np.array(chosen))
    np.testing.assert_array_equal(hetjax.load(run.path).predict([0, 1, 2]), found.classes[:3])
    assert json.loads((run.path / "summary.json").read_text())["chosen_by"] == "micro_f1"


def test_an_order_chooses_by_the_distance_and_is_stacked_and_served(tmp_path):
    graph = few("cites", "writes")
    costs = {"costs": [1.0, 2.0, 5.0][: graph.schema.classes]}
    run = hetjax.train(graph, tmp_path / "run", ordinal=True, epochs=4, mode="full", layers=1)
    found, test = run.predict(), graph.splits["test"]
    assert run.summary["chosen_by"] == "distance" and "mean distance" in repr(run)
    distance = np.abs(found.classes[test] - graph.labels[test]).mean()
    assert run.summary["test_distance"] == pytest.approx(distance)
    assert all(row["distance"] is not None for row in run.summary["baselines"].values() if "accuracy" in row)
    np.testing.assert_array_equal(hetjax.load(run.path).predict(test), found.classes[test])
    by_cost = hetjax.train(graph, tmp_path / "costs", epochs=2, mode="full", layers=1, **costs)
    assert by_cost.summary["chosen_by"] == "cost" and by_cost.predict().costs == tuple(costs["costs"])


PAIRS = [
    ({"focal": 2.0}, few, ((2, 1), "minibatch")),
    ({"focal": 1.5}, lambda *names: several_labels(few(*names)), ((1, 2, "vanilla"), "minibatch")),
    ({"ordinal": True}, few, ((2, 1), "full")),
    ({"ordinal": True, "focal": 1.0}, few, ((1, 1, "tensor", 2), "full")),
    ({"ordinal": True, "class_weights": "balanced"}, few, ((1, 1, "averaging"), "full")),
]


@pytest.mark.parametrize("task, graph, mesh", PAIRS)
def test_every_loss_equals_one_device_on_some_strategy(task, graph, mesh):
    errors = compare(graph("cites", "writes"), *mesh, {"name": "rgcn"}, steps=3, wide=True, **task)
    assert max(errors) < 1e-9


@pytest.mark.parametrize(
    "options, message",
    [
        ({"focal": 2.0, "label_smoothing": 0.1}, "focal is 2.0, and label_smoothing 0.1: one of the two must be 0"),
        ({"focal": -1.0}, "focal is -1.0, and must be in"),
        ({"costs": (1.0, 0.0)}, r"costs is \(1.0, 0.0\), and must be none, or numbers over 0, one per class"),
        ({"metric": "cost"}, "metric is cost, which is of node_classification.costs, and that is none"),
        ({"metric": "distance"}, "metric is distance, which is of node_classification.ordinal, and that is false"),
    ],
)
def test_options_that_are_wrong_are_refused_in_a_line(options, message):
    with pytest.raises(InputError, match=message):
        made_task("node_classification", **options)


def test_options_that_do_not_go_with_the_labels_are_refused_in_a_line():
    graph = few("cites")
    several = several_labels(graph)
    for given, options, message in (
        (graph, {"costs": (1.0, 2.0)}, "costs has 2 numbers != 3 classes"),
        (graph, {"costs": ("7=1", "1=2", "2=2")}, "costs: there is no class '7'"),
        (several, {"costs": (1.0, 2.0, 3.0)}, "costs is for one label a node, and a paper may have several"),
        (several, {"ordinal": True}, "ordinal is for one label a node, and a paper may have several"),
        (graph, {"threshold": "classes"}, "threshold is classes, for several labels a node, and a paper has one"),
    ):
        with pytest.raises(InputError, match=message):
            NodeClassification.check(given, Config(task=made_task("node_classification", **options)))
            task_of(given, **options)
    config = Config(task=made_task("node_classification", threshold="classes"))
    with pytest.raises(InputError, match="a stack has one threshold"):
        NodeClassification(several, replace(config, train=Train(stacking=True)))
    ordinal = Config(task=made_task("node_classification", ordinal=True), model=Model(head=False))
    with pytest.raises(InputError, match="ordinal is true, which has a head of its own, and model.head is false"):
        NodeClassification(graph, ordinal)
