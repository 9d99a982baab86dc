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
from hetjax.tasks import baselines, logistic, regressed, walked
from hetjax.tasks.baseline import SPLITS
from hetjax.tasks.metrics import quality
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
        for split in SPLITS:
            np.testing.assert_array_equal(one[split], two[split])


def test_logistic_regression_is_scikit_learns(monkeypatch):
    rng = np.random.default_rng(1)
    graph = two_kinds()
    features = rng.standard_normal((200, 4)).astype(np.float32) + graph.labels[:, None] * [1, 0.5, 0, 0]
    graph = replace(graph, features={"node": features.astype(np.float32)})
    monkeypatch.setattr(logistic, "PENALTIES", (1.0,))
    monkeypatch.setattr(regressed, "SCALINGS", {"columns": logistic.SCALINGS["columns"]})
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


def scaled(nodes: int, kind: str):
    """Words that tell the class, of which texts have any number (`rows`), or beside which there is a column of large numbers (`columns`)."""
    graph, rng = two_kinds(nodes), np.random.default_rng(0)
    words = rng.poisson(np.where(graph.labels[:, None] == (np.arange(20) % 2), 1.5, 1.0)).astype(np.float32)
    if kind == "rows":
        words *= np.exp(rng.uniform(0, 8, (nodes, 1))).astype(np.float32)
    if kind == "columns":
        words = np.concatenate([words, 1e4 * rng.standard_normal((nodes, 1))], axis=1).astype(np.float32)
    return replace(graph, features={"node": words})


@pytest.mark.parametrize(("kind", "validation"), [("rows", 200), ("columns", 200), ("columns", 40)])
def test_logistic_regression_chooses_the_scaling_of_features(kind, validation):
    graph = scaled(600, kind)
    ids = np.random.default_rng(1).permutation(600)
    splits = np.split(ids, [150, 150 + validation])
    graph = replace(graph, splits=dict(zip(("train", "validation", "test"), map(np.sort, splits))))
    found = baselines.logistic(graph, "micro_f1")
    assert logistic.SCALINGS[kind] in found.how
    assert ("cross-validation over 190 nodes" in found.how) == (validation == 40)
    test = found.quality(graph, "test", "micro_f1")["micro_f1"]
    assert found.score == pytest.approx(test, abs=0.1) and test > 0.7
    again = baselines.again("logistic regression", found.learned, graph, graph.splits["test"])
    np.testing.assert_array_equal(again, found.logits["test"])


def rare_kind(validation: int):
    """Nodes that cite their own class mostly, of two classes as large as each other among the training nodes alone."""
    graph, rng = two_kinds(1000), np.random.default_rng(2)
    one, two = (rng.permutation(np.flatnonzero(graph.labels == kind)) for kind in (0, 1))
    train = np.concatenate([one[:40], two[:10]])
    rest = rng.permutation(np.setdiff1d(np.arange(1000), train))
    source, target = rng.integers(0, 1000, (2, 3000))
    kept = (graph.labels[source] == graph.labels[target]) | (rng.random(3000) < 0.3)
    (relation,) = graph.schema.relations
    splits = {"train": train, "validation": rest[:validation], "test": rest[validation:]}
    return build(graph.schema, {relation: (source[kept], target[kept])}, {}, graph.labels, splits)


@pytest.mark.parametrize("validation", [300, 20])
def test_label_propagation_chooses_a_shift_of_classes(validation):
    graph = rare_kind(validation)
    found = baselines.walk(graph, "macro_f1")
    plain = {**found.learned, "scale": np.array(1.0), "shift": np.zeros(2)}
    logits = baselines.again("label propagation", plain, graph, graph.splits["test"])
    before = quality(logits, graph.labels[graph.splits["test"]])["macro_f1"]
    after = found.quality(graph, "test", "macro_f1")["macro_f1"]
    assert ("shifted" in found.how) == bool(found.learned["shift"].any())
    assert after > before - 0.02 and (validation < 100 or after > before + 0.1)
    again = baselines.again("label propagation", found.learned, graph, graph.splits["test"])
    np.testing.assert_array_equal(again, found.logits["test"])


def test_logistic_regression_chooses_its_penalty_by_the_area_where_that_is_asked_for(monkeypatch):
    graph, tried = random_graph(5), []
    rng, target = np.random.default_rng(0), graph.schema.target
    features = rng.standard_normal((len(graph.labels), 30)).astype(np.float32)
    graph = replace(graph, features={target: features})
    monkeypatch.setattr(regressed, "SCALINGS", {"columns": logistic.SCALINGS["columns"]})
    for penalty in logistic.PENALTIES:
        with monkeypatch.context() as patch:
            patch.setattr(logistic, "PENALTIES", (penalty,))
            tried.append(baselines.logistic(graph, "roc_auc").score)
    assert baselines.logistic(graph, "roc_auc").score == pytest.approx(max(tried), abs=0.02)


def test_a_run_that_does_not_test_has_no_baselines(tmp_path):
    options = ["--synthetic.scale=0.002", "--model.hidden=4", "--train.epochs=1", "--sampling.fanout=[2,2]"]
    main([*options, "--train.test=false", "--workdir", str(tmp_path / "run")])
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["baselines"] == {}
    assert (tmp_path / "run" / "report.html").exists()


def test_what_would_take_long_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(walked, "MOST_EDGE_CLASSES", 10)
    monkeypatch.setattr(regressed, "MOST_VALUES", 8 * 10)
    graph = two_kinds()
    found = baselines.measured(baselines.baselines(graph, "micro_f1"), graph, "micro_f1")
    assert found["label propagation"].keys() == {"how"} and "> 10" in found["label propagation"]["how"]
    assert found["logistic regression"]["how"].count("on 10 of 40 training nodes") == 1


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
    stacking = {"kept": True, "weights": {"model": 1.0}, "metric": "micro_f1", "alone": 0.5, "stacked": 0.6}
    stacking |= {"standard_error": 0.01, "nodes": 100, "test_micro_f1": 0.55}
    for got, expected in (
        ({"test_micro_f1": 0.7, "stacking": {}}, []),
        ({"test_micro_f1": 0.55}, ["the model, 55.00 %, does worse than label propagation (60.00 %)"]),
        (
            {"test_micro_f1": 0.45, "stacking": stacking},
            [
                "the model, 45.00 %, does worse than label propagation (60.00 %) and logistic regression (50.00 %)",
                "the stacked model, 55.00 %, does worse than label propagation (60.00 %)",
            ],
        ),
    ):
        assert [line for line in lines(summary | got, tmp_path, False) if "does worse" in line] == expected
