"""Node regression: exact under every strategy, in the unit of the labels, with a line for labels that are no numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

import hetjax
from hetjax.doctor.graph import odd
from hetjax.doctor.leakage import leakage
from hetjax.graph import store
from hetjax.inference.restored import restore
from hetjax.options.config import Config, Task
from hetjax.system.errors import InputError
from hetjax.tasks.node_regression import NodeRegression
from tests.support.equivalence import compare, few
from tests.support.graphs import random_graph

EMPTY = np.empty(0, np.int32)
EDGES = {("author", "writes", "paper"): None, ("paper", "cites", "paper"): None}


def numbers(papers=60, authors=20, missing=5):
    """A graph whose papers have numbers, some of which are not known."""
    rng = np.random.default_rng(0)
    ends = {
        relation: (rng.integers(0, authors if relation[0] == "author" else papers, 200), rng.integers(0, papers, 200))
        for relation in EDGES
    }
    features = rng.standard_normal((papers, 6), np.float32)
    values = 1000 + 50 * features[:, 0].astype(np.float64)
    values[rng.permutation(papers)[:missing]] = np.nan
    return hetjax.from_arrays(ends, {"paper": features}, {"paper": values}, numbers=True)


def test_metrics_are_those_of_scikit_learn_in_the_unit_of_the_labels():
    graph = numbers()
    task, test = NodeRegression(graph, Config()), graph.splits["test"]
    rng = np.random.default_rng(1)
    outputs = rng.standard_normal((len(test), 1)).astype(np.float32)
    found, true, predicted = task.quality(outputs, test), task.values[test][:, 0], task.numbers(outputs)[:, 0, 0]
    assert found["rmse"] == pytest.approx(root_mean_squared_error(true, predicted))
    assert found["mae"] == pytest.approx(mean_absolute_error(true, predicted))
    assert found["r2"] == pytest.approx(r2_score(true, predicted))
    assert set(task.quality(outputs[:0], test[:0]).values()) == {None}
    assert task.quality(outputs[:1], test[:1])["r2"] is None


def test_a_graph_of_numbers_is_stored_and_described(tmp_path):
    graph = numbers()
    store.save(graph, tmp_path / "s")
    opened = store.open(tmp_path / "s")
    np.testing.assert_array_equal(opened.labels, graph.labels)
    assert opened.numeric and json.loads((tmp_path / "s" / "schema.json").read_text())["labels"] == "number"
    assert "a number of each node" in repr(opened) and "55 of 60 have a label" in repr(opened)


@pytest.mark.parametrize("mode", ["full", "minibatch"])
def test_numbers_are_learned_and_predicted_in_their_unit(tmp_path, mode):
    graph, run = numbers(300), tmp_path / "run"
    given = {"sampling.batch_size": 16, "sampling.fanout": (3, 3)} if mode == "minibatch" else {}
    trained = hetjax.train(
        graph, run, task="node_regression", epochs=60, mode=mode, learning_rate=0.02, layers=2, **given
    )
    summary = trained.summary
    assert summary["test_rmse"] < summary["baselines"]["mean"]["rmse"] and summary["chosen_by"] == "rmse"
    found, test = trained.predict(), graph.splits["test"]
    assert found.table().column_names == ["node", "prediction", "split"]
    assert root_mean_squared_error(graph.labels[test], found.values[test]) == pytest.approx(
        summary["test_rmse"], rel=1e-4
    )
    np.testing.assert_allclose(hetjax.load(run).predict(test[:3]), found.values[test[:3]], rtol=1e-4)
    best = min(
        (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()[:-1]),
        key=lambda row: row["validation_rmse"],
    )
    assert summary["epoch"] == best["epoch"] and "RMSE" in repr(trained)


def test_other_doors_give_the_numbers_back_and_doctor_looks_for_no_classes(tmp_path):
    graph = numbers()
    frames = hetjax.to_pandas(graph)[0]
    np.testing.assert_array_equal(frames["paper"]["label"], graph.labels)
    found = [data["y"] for _, data in hetjax.to_networkx(graph).nodes(data=True) if "y" in data]
    assert len(found) == 55 and all(isinstance(one, float) for one in found)
    assert not [one for one in [*odd(graph, 2), *leakage(graph)] if "class" in str(one)]


def test_what_is_no_number_is_said():
    graph = random_graph()
    several = hetjax.from_arrays({("a", "r", "a"): ([0], [1])}, labels={"a": np.eye(4, 3, dtype=int)})
    with pytest.raises(InputError, match="several labels a node, not numbers"):
        NodeRegression(several, Config())
    named = hetjax.from_arrays({("a", "r", "a"): ([0], [1])}, labels={"a": ["x", "y", "x", "y"]})
    with pytest.raises(InputError, match="names of classes, not numbers"):
        NodeRegression(named, Config())
    with pytest.raises(InputError, match="the training nodes, .*, all have the value 7"):
        NodeRegression.check(
            hetjax.from_arrays({("a", "r", "a"): ([0], [1])}, labels={"a": [7.0] * 9}, numbers=True), Config()
        )
    with pytest.raises(InputError, match="node_regression predicts them"):
        hetjax.train(numbers(), task="node_classification")
    with pytest.raises(InputError, match="train.stacking is True, and task.name node_regression has no such option"):
        hetjax.train(numbers(), task="node_regression", stacking=True)
    with pytest.raises(InputError, match="are string|are large_string|should be numbers"):
        hetjax.from_arrays({("a", "r", "a"): ([0], [1])}, labels={"a": ["x", "y"]}, numbers=True)
    assert NodeRegression(graph, Config(task=Task("node_regression"))).values[0] == graph.labels[0]


MESHES = [
    ((2, 1), "minibatch"),
    ((2, 1), "full"),
    ((1, 2, "vanilla"), "minibatch"),
    ((1, 2, "dependency"), "full"),
    ((1, 1, "tensor", 2), "full"),
    ((1, 1, "tensor", 2), "minibatch"),
]


@pytest.mark.parametrize("task", ["node_regression", "examples.ordinal:OrdinalRegression"])
@pytest.mark.parametrize("mesh, mode", MESHES)
def test_every_strategy_equals_one_device(mesh, mode, task):
    graph = numbers() if task == "node_regression" else few("cites", "writes")
    errors = compare(graph, mesh, mode, {"name": "rgcn"}, steps=3, wide=True, task=task)
    assert max(errors) < 1e-9


def test_a_task_of_ones_own_resumes_and_predicts(tmp_path):
    graph, options = few("cites", "writes"), {"task": "examples.ordinal:OrdinalRegression", "layers": 2, "mode": "full"}
    whole = hetjax.train(graph, tmp_path / "whole", epochs=4, **options)
    hetjax.train(graph, tmp_path / "halved", epochs=2, **options)
    resumed = hetjax.train(graph, tmp_path / "halved", epochs=4, **options)
    rows = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.records] for run in (whole, resumed)]
    assert [row for row in rows[1] if "validation_mae" in row] == [row for row in rows[0] if "validation_mae" in row]
    found, test = resumed.predict(), graph.splits["test"]
    assert np.mean(np.abs(found.classes[test] - graph.labels[test])) == pytest.approx(resumed.summary["test_mae"])


def test_frames_and_networkx_take_numbers_and_give_them_back():
    graph = numbers()
    for there, back in ((hetjax.to_pandas, lambda parts: hetjax.from_pandas(*parts, numbers=True)),
                        (hetjax.to_networkx, lambda one: hetjax.from_networkx(one, numbers=True))):  # fmt: skip
        again = back(there(graph))
        np.testing.assert_array_equal(again.labels, graph.labels)
        assert again.numeric
    with pytest.raises(InputError, match="numbers to predict are given with numbers=True"):
        hetjax.from_pandas(*hetjax.to_pandas(graph))


def test_another_graph_is_predicted_with_its_numbers_or_without_and_not_with_classes(tmp_path):
    graph = numbers()
    run = hetjax.train(graph, tmp_path / "run", task="node_regression", epochs=2, mode="full", layers=1, recipe="none")
    expected = run.predict().values
    np.testing.assert_array_equal(run.predict(graph=numbers()).values, expected)
    unlabelled = replace(graph, labels=np.full_like(graph.labels, np.nan), splits=dict.fromkeys(graph.splits, EMPTY))
    np.testing.assert_array_equal(run.predict(graph=unlabelled).values, expected)
    assert hetjax.load(tmp_path / "run").class_names == []
    one = replace(graph, splits={**graph.splits, "train": graph.splits["train"][:1]})
    np.testing.assert_array_equal(run.predict(graph=one).values, expected)
    names = hetjax.from_arrays(
        dict.fromkeys(EDGES, ([0], [0])), {"paper": graph.features["paper"]}, {"paper": ["a", "b"] * 30}
    )
    with pytest.raises(InputError, match="labels are classes, and numbers in the graph that was trained on"):
        run.predict(graph=names)
    assert "not finished" not in restore(tmp_path / "run").chosen
    (tmp_path / "run" / "summary.json").unlink()
    assert "of a run that is not finished: 2 epochs so far" in restore(tmp_path / "run").chosen


@pytest.mark.parametrize(
    "task, message",
    [
        ("tests.support.odd_tasks:Lacking", "it lacks head, loss, predictions, quality, seeds, weight, which every task has"),
        ("tests.support.odd_tasks:Misnamed", "'error' is none of its metrics rmse, mae, r2, spearman, loss"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_whole_is_refused_in_a_line(tmp_path, task, message):
    with pytest.raises(InputError, match=message):
        hetjax.train(numbers(), tmp_path / "run", task=task, epochs=1, recipe="none")
    assert not (tmp_path / "run").exists()


def test_a_task_whose_loss_is_negative_resumes_and_predicts(tmp_path):
    options = {"task": "tests.support.odd_tasks:Below", "epochs": 2, "mode": "full", "layers": 1, "recipe": "none"}
    run = hetjax.train(numbers(), tmp_path / "run", **options)
    assert run.summary["test_loss"] < 0
    again = hetjax.train(numbers(), tmp_path / "run", **options | {"epochs": 3})
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records if "epoch" in record] == [1, 2, 3] and len(again.predict().values)
