"""Node regression: exact under every strategy, in the unit of the labels, with a line for labels that are no numbers."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.dummy import DummyRegressor
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

import hetjax
from hetjax.doctor.graph import odd
from hetjax.doctor.leakage import leakage
from hetjax.graph import store
from hetjax.inference.restored import restore
from hetjax.options.config import Config, Task
from hetjax.options.owners import made_task
from hetjax.results.results import lines
from hetjax.system.errors import InputError
from hetjax.tasks.node_regression import NodeRegression
from hetjax.tasks.predictions import NumberPredictions
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


def test_several_numbers_with_quantiles_are_predicted_by_their_names(tmp_path):
    rng, graph = np.random.default_rng(5), numbers(200)
    frame = pd.DataFrame({"mass": graph.labels, "height": graph.features["paper"][:, 1] + rng.normal(size=200) / 4})
    edges = {r: tuple(rng.integers(0, graph.schema.nodes[end], 300) for end in (r[0], r[2])) for r in EDGES}
    made = hetjax.from_arrays(edges, graph.features, {"paper": frame}, numbers=True)
    store.save(made, tmp_path / "s")
    opened = store.open(tmp_path / "s")
    np.testing.assert_array_equal(opened.labels, made.labels)
    assert "the target: 2 numbers of each node" in repr(opened)
    for back in (hetjax.from_pandas(*hetjax.to_pandas(made), label=["label_mass", "label_height"], numbers=True),
                 hetjax.from_networkx(hetjax.to_networkx(made), numbers=True)):  # fmt: skip
        np.testing.assert_array_equal(back.labels, made.labels)
    given = {"loss": "quantile", "quantiles": (0.05, 0.5, 0.95), "unit": "kg", "metric": "pinball"}
    run = hetjax.train(opened, tmp_path / "run", task="node_regression", epochs=30, mode="full", layers=1, **given)
    found, test = run.predict(), made.splits["test"]
    names = [f"prediction_{name}{level}" for name in ("mass", "height") for level in ("", "_q0.05", "_q0.5", "_q0.95")]
    table = found.table()
    assert table.column_names == ["node", *names, "split"]
    assert found.values.shape == (200, 2) and found.intervals.shape == (200, 2, 3)
    np.testing.assert_array_equal(table["prediction_height"], table["prediction_height_q0.5"])
    assert (np.diff(found.intervals, axis=2) >= 0).all()
    inside = (found.intervals[:, :, 0] <= made.labels) & (made.labels <= found.intervals[:, :, 2])
    known = ~np.isnan(made.labels[test])
    coverage = np.mean([inside[test][known[:, n], n].mean() for n in range(2)])
    assert run.summary["test_coverage"] == pytest.approx(coverage)
    assert f"test pinball loss {run.summary['test_pinball']:.4f} kg" in "\n".join(lines(run.summary, run.path, False))
    served = hetjax.load(run.path)
    np.testing.assert_allclose(served.predict(test[:3]), found.values[test[:3]], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(served.intervals(test[:3]), found.intervals[test[:3]], rtol=1e-3, atol=1e-3)
    rows = run.summary["baselines"]
    assert set(rows) == {"mean", "median", "ridge regression", "neighbours' mean"}
    assert rows["ridge regression"]["pinball"] < rows["mean"]["pinball"] and rows["mean"]["coverage"] > 0.7
    page = (run.path / "report.html").read_text()
    assert all(heading in page for heading in ("Predicted and true", "Residuals", "Quantiles", "coverage of the 90 %"))
    with pytest.raises(InputError, match="predicts no quantiles"):
        _ = NumberPredictions("a", np.zeros((1, 1))).intervals


def test_the_baselines_are_those_of_scikit_learn_and_of_a_plain_loop():
    graph = numbers(120)
    task = NodeRegression(graph, Config())
    found, train, test = task.compared(task.baselines(graph)), graph.splits["train"], graph.splits["test"]
    for name, strategy in (("mean", "mean"), ("median", "median")):
        dummy = DummyRegressor(strategy=strategy).fit(train[:, None], graph.labels[train])
        expected = root_mean_squared_error(graph.labels[test], dummy.predict(test[:, None]))
        assert found[name]["rmse"] == pytest.approx(expected, rel=1e-6) and found[name]["spearman"] is None
    assert found["ridge regression"]["rmse"] < 1 and "features of paper" in found["ridge regression"]["how"]
    near = {("a", "r", "a"): ([0, 1, 2, 3], [4, 4, 5, 5])}
    labels, splits = [1.0, 3, 10, 20, 2.1, 14.5], {"train": [0, 1, 2, 3], "validation": [4], "test": [5]}
    pairs = hetjax.from_arrays(near, labels={"a": labels}, numbers=True, splits=splits)
    of_pairs = NodeRegression(pairs, Config())
    rows = of_pairs.compared(of_pairs.baselines(pairs))
    assert rows["neighbours' mean"]["mae"] == pytest.approx(0.5, rel=1e-5)
    assert rows["ridge regression"] == {"how": "left out: the target type has no features"}


def test_options_are_chosen_by_the_numbers_and_said(tmp_path, caplog):
    graph = numbers()
    skewed = replace(graph, labels=np.exp((graph.labels - 1000) / 30))
    with caplog.at_level("INFO", "hetjax"):
        run = hetjax.train(skewed, tmp_path / "run", task="node_regression", epochs=2, mode="full", layers=1)
    chosen = yaml.safe_load((run.path / "config.yaml").read_text())["node_regression"]
    assert (chosen["scale"], chosen["loss"], chosen["metric"]) == ("log", "huber", "mae")
    assert "node_regression.scale log: " in caplog.text and "over 4 robust deviations from the median" in caplog.text
    assert run.summary["chosen_by"] == "mae" and (run.predict().values >= 0).all()


def test_other_doors_give_the_numbers_back_and_doctor_looks_for_no_classes(tmp_path):
    graph = numbers()
    frames = hetjax.to_pandas(graph)[0]
    np.testing.assert_array_equal(frames["paper"]["label"], graph.labels)
    found = [data["y"] for _, data in hetjax.to_networkx(graph).nodes(data=True) if "y" in data]
    assert len(found) == 55 and all(isinstance(one, float) for one in found)
    assert not [one for one in [*odd(graph, 2), *leakage(graph)] if "class" in str(one)]
    far = replace(graph, labels=np.exp((graph.labels - 1000) / 20))
    assert any("robust deviations from the median" in str(one) for one in odd(far, 2))
    alike = replace(
        graph, labels=np.stack([graph.labels, graph.labels * 0], axis=1), schema=replace(graph.schema, classes=2)
    )
    assert any("number '1' has one value, 0, at all 33 training nodes" in str(one) for one in odd(alike, 2))


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
    many = hetjax.from_arrays({("a", "r", "a"): ([0], [1])}, labels={"a": [[7.0, n] for n in range(9)]}, numbers=True)
    with pytest.raises(InputError, match="the training nodes, 5, all have the value 7 of number '0'"):
        NodeRegression.check(many, Config())
    unknown = hetjax.from_arrays(
        {("a", "r", "a"): ([0], [1])}, labels={"a": [[None, n] for n in range(9)]}, numbers=True
    )
    with pytest.raises(InputError, match="no training node, of 5, has number '0'"):
        NodeRegression.check(unknown, Config())
    with pytest.raises(InputError, match="all have the same value"):
        alike = hetjax.from_arrays(
            {("a", "r", "a"): ([0], [1])},
            labels={"a": [1.0, 2, 3, 3]},
            numbers=True,
            splits={"train": [0, 1], "validation": [2, 3]},
        )
        NodeRegression.check(alike, Config(task=made_task("node_regression", metric="r2")))
    with pytest.raises(InputError, match="scale is log, for numbers from 0 on, and paper node"):
        below = replace(numbers(), labels=-numbers().labels)
        hetjax.train(below, task="node_regression", **{"node_regression.scale": "log"})
    with pytest.raises(InputError, match="split 'train' has 'a' node 1, which has no label"):
        hetjax.from_arrays(
            {("a", "r", "a"): ([0], [1])}, labels={"a": [1, np.nan, 2]}, numbers=True, splits={"train": [0, 1]}
        )
    with pytest.raises(InputError, match="task.target is 'paper.weight', and no column of labels"):
        hetjax.train(numbers(), task="node_regression", target="paper.weight")
    for options, message in (
        ({"quantiles": (0.1, 0.9)}, r"quantiles is \[0.1, 0.9\], and must be rising numbers between 0 and 1, with 0.5"),
        ({"metric": "pinball"}, "metric is pinball, which is of node_regression.loss quantile; that is mse"),
        ({"huber_delta": 0.0}, "huber_delta is 0.0, and must be over 0"),
    ):
        with pytest.raises(InputError, match=message):
            made_task("node_regression", **options)
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


def several(**more):
    """The same graph, its papers with two numbers of different units, one of which is often unknown."""
    graph = numbers(**more)
    rng, first = np.random.default_rng(3), graph.labels
    second = np.where(rng.uniform(size=len(first)) < 0.4, np.nan, np.exp(rng.normal(size=len(first))))
    labels = np.stack([first, second.astype(np.float32)], axis=1)
    return replace(graph, labels=labels, schema=replace(graph.schema, classes=2))


LOSSES = [
    ("mae", several, MESHES[0], {}),
    ("huber", several, MESHES[2], {"huber_delta": 0.5, "scale": "linear"}),
    ("log_cosh", numbers, MESHES[4], {"scale": "log"}),
    ("quantile", several, MESHES[1], {"quantiles": (0.25, 0.5, 0.9)}),
    ("quantile", several, MESHES[5], {}),
    ("mse", several, MESHES[3], {}),
    ("huber", numbers, ((1, 1, "averaging"), "full"), {"scale": "robust"}),
    ("quantile", several, ((1, 1, "averaging"), "minibatch"), {"scale": "robust"}),
]


@pytest.mark.parametrize("loss, graph, mesh, more", LOSSES)
def test_every_loss_equals_one_device_on_some_strategy(loss, graph, mesh, more):
    task = {"task": "node_regression", "loss": loss, **more}
    errors = compare(graph(), *mesh, {"name": "rgcn"}, steps=3, wide=True, **task)
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
