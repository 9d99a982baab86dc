"""What a model is to be better than: label propagation, logistic regression, the larger class."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hetjax.graph import label_propagation, neighbour_sums
from hetjax.graph.csc import reverse
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.results.results import lines
from hetjax.system.logs import shown
from hetjax.tasks import baselines, logistic
from hetjax.tasks.ranking import areas
from hetjax.train import main
from tests.support.equivalence import few, homogeneous, several_labels
from tests.support.graphs import random_graph


def dense(graph, relations):
    """The normalised adjacency matrix of all nodes of all types, and where the target's are."""
    first, total = {}, 0
    for name, count in graph.schema.nodes.items():
        first[name], total = total, total + count
    matrix = np.zeros((total, total))
    for relation in relations:
        csc = graph.relations[relation]
        for target in range(len(csc.indptr) - 1):
            for edge in range(csc.indptr[target], csc.indptr[target + 1]):
                ends = first[relation.target] + target, first[relation.source] + csc.indices[edge]
                weight = 1 if csc.weights is None else abs(csc.weights[edge])
                matrix[ends] += weight
                matrix[ends[::-1]] += weight
    degree = matrix.sum(axis=1)
    scale = np.where(degree > 0, np.where(degree > 0, degree, 1) ** -0.5, 0)
    start = first[graph.schema.target]
    return scale[:, None] * matrix * scale, slice(start, start + graph.schema.nodes[graph.schema.target])


def one_weighted(seed=2):
    """One relation of several has weights, below zero too."""
    graph = random_graph(seed)
    relation, csc = next((r, csc) for r, csc in graph.relations.items() if csc.edges)
    weights = np.random.default_rng(seed).standard_normal(csc.edges).astype(np.float32)
    return replace(graph, relations={**graph.relations, relation: csc._replace(weights=weights)})


@pytest.mark.parametrize(
    "graph", [random_graph(2), homogeneous(), one_weighted()], ids=["several relations", "one relation", "weights"]
)
def test_propagation_is_the_papers_iteration(graph, monkeypatch):
    rng = np.random.default_rng(0)
    start = rng.uniform(size=(graph.schema.nodes[graph.schema.target], 5))
    for relations in label_propagation.ways(graph).values():
        matrix, target = dense(graph, relations)
        y = np.zeros((len(matrix), 5))
        y[target] = start
        f = y
        for _ in range(6):
            f = 0.9 * matrix @ f + 0.1 * y
        propagation = label_propagation.Propagation(graph, relations)
        np.testing.assert_allclose(propagation(start, 6), f[target], rtol=1e-5, atol=1e-6)
        monkeypatch.setattr(label_propagation, "AT_ONCE", 1)  # a column at a time
        monkeypatch.setattr(neighbour_sums, "BLOCK", 2)  # in blocks, by several threads
        np.testing.assert_allclose(propagation(start, 6), f[target], rtol=1e-5, atol=1e-6)
        monkeypatch.undo()


def test_a_relation_and_its_reverse_are_one_way():
    graph = few("writes", "of")
    (writes,) = (relation for relation in graph.relations if relation.name == "writes")
    back = reverse(graph.relations[writes], graph.schema.nodes[writes.source])
    schema = replace(graph.schema, relations=(*graph.schema.relations, writes.reverse))
    both = replace(graph, schema=schema, relations={**graph.relations, writes.reverse: back})
    assert list(label_propagation.ways(both)) == list(label_propagation.ways(graph))
    moved = back._replace(indices=np.zeros_like(back.indices))  # as many edges, of other nodes
    other = replace(both, relations={**graph.relations, writes.reverse: moved})
    assert len(label_propagation.ways(other)) == len(label_propagation.ways(both)) + 1


def two_kinds(nodes=200, seed=0):
    """Nodes of two classes that cite their own class alone, and have features that say nothing."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], nodes // 2)
    source, target = rng.integers(0, nodes, (2, 20 * nodes))
    kept = labels[source] == labels[target]
    relation, order = Relation("node", "cites", "node"), rng.permutation(nodes)
    splits = {"train": order[:40], "validation": order[40:80], "test": order[80:]}
    features = {"node": rng.standard_normal((nodes, 4), np.float32)}
    return build(
        Schema({"node": nodes}, (relation,), "node", 2),
        {relation: (source[kept], target[kept])},
        features,
        labels,
        splits,
    )


def test_baselines_read_what_they_say():
    graph = two_kinds()
    found = baselines.measured(baselines.baselines(graph, "micro_f1"), graph, "micro_f1")
    assert found["label propagation"]["micro_f1"] == 1.0
    assert found["larger class"]["micro_f1"] < 0.7
    assert found["logistic regression"]["micro_f1"] < 0.7
    assert found["larger class"]["roc_auc"] == 0.5


@pytest.mark.parametrize("change", [lambda g: g, several_labels], ids=["one label", "several"])
def test_no_test_label_is_read(change):
    graph = change(random_graph(4))
    labels = graph.labels.copy()
    others = np.flatnonzero(~np.isin(np.arange(len(labels)), [*graph.splits["train"], *graph.splits["validation"]]))
    labels[others] = 1 - labels[others] if graph.multilabel else (labels[others] + 1) % graph.schema.classes
    poisoned = replace(graph, labels=labels)
    for make in (baselines.larger_class, baselines.logistic, baselines.walk):
        one, two = (make(g, "micro_f1").logits for g in (graph, poisoned))
        for split in baselines.SPLITS:
            np.testing.assert_array_equal(one[split], two[split])


def test_logistic_regression_is_scikit_learns(monkeypatch):
    rng = np.random.default_rng(1)
    graph = two_kinds()
    features = rng.standard_normal((200, 4)).astype(np.float32) + graph.labels[:, None] * [1, 0.5, 0, 0]
    graph = replace(graph, features={"node": features.astype(np.float32)})
    monkeypatch.setattr(logistic, "PENALTIES", (1.0,))
    ids = graph.splits["test"]
    logits = baselines.logistic(graph, "micro_f1").logits["test"]
    train = graph.splits["train"]
    x = (
        (features - features[train].mean(axis=0)) / features[train].std(axis=0) / 2
    )  # rows of 4 numbers of variance 1 / 4
    # two columns of weights, each penalised, amount to one with half the penalty
    model = LogisticRegression(C=2.0, tol=1e-8).fit(x[train], graph.labels[train])
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], model.decision_function(x[ids]), atol=2e-2)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("multilabel", [True, False])
def test_of_more_features_than_nodes_only_what_nodes_span_is_learned(monkeypatch, sparse, multilabel):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 96)) * (rng.random((12, 96)) < (0.1 if sparse else 1))
    y = np.eye(3)[np.arange(12) % 3]
    found = logistic.regressions(rows, y, multilabel)
    assert logistic._basis(rows).shape == (96, 12) and logistic._basis(rows[:, :95]) is None
    monkeypatch.setattr(logistic, "_basis", lambda x: None)
    for one, other in zip(found, logistic.regressions(rows, y, multilabel), strict=True):
        np.testing.assert_allclose(one.kernel, other.kernel, atol=2e-3 * np.abs(other.kernel).max())
        np.testing.assert_allclose(one.bias, other.bias, atol=2e-3 * max(1, np.abs(other.bias).max()))


def test_logistic_regression_chooses_its_penalty_by_the_area_where_that_is_asked_for():
    graph, tried = random_graph(5), []
    rng, target = np.random.default_rng(0), graph.schema.target
    features = rng.standard_normal((len(graph.labels), 30)).astype(np.float32)
    graph = replace(graph, features={target: features})
    ids = graph.splits["validation"]
    with pytest.MonkeyPatch.context() as patch:
        for penalty in logistic.PENALTIES:
            patch.setattr(logistic, "PENALTIES", (penalty,))
            logits = baselines.logistic(graph, "roc_auc").logits["validation"]
            tried.append(areas(logits, graph.labels[ids])["roc_auc"])
    chosen = areas(baselines.logistic(graph, "roc_auc").logits["validation"], graph.labels[ids])["roc_auc"]
    assert chosen == pytest.approx(max(tried), abs=0.02) and max(tried) > tried[0] + 0.02


def test_a_run_that_does_not_test_has_no_baselines(tmp_path):
    options = ["--synthetic.scale=0.002", "--model.hidden=4", "--train.epochs=1", "--sampling.fanout=[2,2]"]
    main([*options, "--train.test=false", "--workdir", str(tmp_path / "run")])
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["baselines"] == {}
    assert (tmp_path / "run" / "report.html").exists()


def test_what_would_take_long_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(baselines, "MOST_EDGE_CLASSES", 10)
    monkeypatch.setattr(baselines, "MOST_VALUES", 8 * 10)
    graph = two_kinds()
    found = baselines.measured(baselines.baselines(graph, "micro_f1"), graph, "micro_f1")
    assert found["label propagation"].keys() == {"how"} and "> 10" in found["label propagation"]["how"]
    assert found["logistic regression"]["how"].endswith("on 10 of 40 training nodes")


def test_a_run_says_where_a_baseline_does_better(tmp_path, capsys):
    options = [
        "--synthetic.scale=0.002",
        "--synthetic.classes=4",
        "--model.hidden=4",
        "--train.epochs=1",
        "--sampling.fanout=[2,2]",
    ]
    with shown():
        main([*options, "--workdir", str(tmp_path / "run")])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["baselines"]) == {"larger class", "logistic regression", "label propagation"}
    assert "baselines, test micro-F1: larger class" in "".join(capsys.readouterr())
    for score, name in enumerate(baselines.NAMES):
        summary["baselines"][name] |= {"micro_f1": 0.4 + 0.1 * score, "how": f"words of {name}"}
    stacking = {"weights": {"model": 1.0}, "model_alone": {"test_micro_f1": 0.45}}
    for got, expected in (
        ({"test_micro_f1": 0.7, "stacking": {}}, []),
        ({"test_micro_f1": 0.55}, ["the model, 55.00 %, does worse than label propagation (60.00 %)"]),
        (
            {"test_micro_f1": 0.7, "stacking": stacking},
            ["the model alone, 45.00 %, does worse than label propagation (60.00 %) and logistic regression (50.00 %)"],
        ),
        (
            {"test_micro_f1": 0.55, "stacking": stacking},
            ["the stacked model, 55.00 %, does worse than label propagation (60.00 %)"],
        ),
    ):
        assert [line for line in lines(summary | got, tmp_path, False) if "does worse" in line] == expected
