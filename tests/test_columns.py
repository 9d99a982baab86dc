"""Several columns of labels on one graph: stored, chosen by `task.target`, and each as if it were the graph's own."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import hetjax
from hetjax import train_graph
from hetjax.graph import checksums, store
from hetjax.graph.columns import Column
from hetjax.graph.hetgraph import build, check
from hetjax.graph.label_inputs import with_labels
from hetjax.inference.restored import restore
from hetjax.metapaths import along_metapaths
from hetjax.options.command_line import config_of
from hetjax.system.errors import InputError

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
PAPERS, AUTHORS = 60, 20


def graph(**changes):
    """A graph whose papers have topics and years, some of which are not known, and whose authors have countries."""
    rng = np.random.default_rng(0)
    edges = {
        WRITES: (rng.integers(0, AUTHORS, 200), rng.integers(0, PAPERS, 200)),
        CITES: rng.integers(0, PAPERS, (2, 150)),
    }
    features = rng.standard_normal((PAPERS, 6), np.float32)
    years = 2000 + 5 * features[:, 0].astype(np.float64)
    years[::10] = np.nan
    countries = np.array(["FR", "DE", "JP", None], object)[rng.integers(0, 4, AUTHORS)]
    given = {
        "edges": edges,
        "features": {"paper": features},
        "labels": {"paper": rng.integers(0, 3, PAPERS), "paper.year": years, "author.country": countries},
        "splits": {"paper": {"train": np.arange(30), "val": np.arange(30, 45), "test": np.arange(45, PAPERS)}},
        "numbers": ["paper.year"],
        "reverse": True,
    }
    return hetjax.from_arrays(**given | changes)


def same(one, two):
    assert one.target == two.target and one.schema == two.schema and list(one.columns) == list(two.columns)
    for mine, other in zip(one.arrays(), two.arrays(), strict=True):
        np.testing.assert_array_equal(mine, other)
    for name in (one.target, *one.columns):
        mine, other = (g.with_target(name).names.class_names(9) for g in (one, two))
        assert mine == other


def test_columns_have_splits_classes_and_names_of_their_own():
    found = graph()
    assert (found.target, [*found.columns]) == ("paper.label", ["paper.year", "author.country"])
    years = found.with_target("paper.year")
    assert years.numeric and years.schema.classes == 1 and [*years.columns] == ["author.country", "paper.label"]
    assert len(years.splits["train"]) == 27 and not years.labelled(np.array([0, 10])).any()  # known of the first's 30
    countries = found.with_target("author")
    assert countries.names.class_names(3) == ["DE", "FR", "JP"] and countries.schema.target == "author"
    same(
        countries.with_target("paper.label"),
        replace(found, columns={n: found.columns[n] for n in ("paper.year", "author.country")}),
    )
    assert "paper.year: a number of each node; 27 train" in repr(found)


def test_a_column_that_was_chosen_is_as_if_it_were_alone():
    alone = graph(labels={"author": graph().with_target("author").labels}, splits=(0.6, 0.2, 0.2), numbers=False)
    chosen = graph(splits={"author.country": (0.6, 0.2, 0.2)}).with_target("author.country")
    np.testing.assert_array_equal(alone.labels, chosen.labels)
    for name in alone.splits:
        np.testing.assert_array_equal(alone.splits[name], chosen.splits[name])


def test_columns_are_stored_with_checksums_and_opened(tmp_path):
    saved = graph()
    store.save(saved, tmp_path / "s")
    opened = store.open(tmp_path / "s")
    same(saved, opened)
    check(opened)
    assert checksums.verify(tmp_path / "s") and store.contents(tmp_path / "s") == store.checksums_of(opened)
    store.save(saved.with_target("author"), tmp_path / "t")
    same(saved.with_target("author"), store.open(tmp_path / "t"))
    (tmp_path / "s" / "column_0.labels.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"column_0\.labels\.npy"):
        store.open(tmp_path / "s")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"name": "topic.year"}, r"column of labels 'topic.year', and should be TYPE.NAME of a type among"),
        ({"labels": "text"}, "labels are one, many, number"),
        ({"classes": 2}, r"float32 \(60,\) != float32 \(60, 2\)"),
        ({"classes": 0}, "has 0 classes"),
        ({"named": "yes"}, "named true or false"),
        ({"classes": True}, "has True classes"),
        ({"name": "paper.\x1b[2J"}, "has '.x1b' as character"),
        ({"name": "paper.label"}, "two columns of labels have one name"),
    ],
)
def test_a_store_whose_description_of_columns_is_wrong_is_refused(tmp_path, change, message):
    store.save(graph(), tmp_path / "s")
    file = tmp_path / "s" / "schema.json"
    description = json.loads(file.read_text())
    description["columns"][0] |= change
    file.write_text(json.dumps(description))
    with pytest.raises(InputError, match=message):
        store.open(tmp_path / "s")


@pytest.mark.parametrize("mesh", [{}, {"strategy": "raf", "relation": 2}], ids=["one device", "raf"])
@pytest.mark.parametrize("target,task", [("paper.year", "node_regression"), ("author.country", "node_classification")])
def test_a_run_trains_on_the_column_it_chooses_as_if_the_graph_had_no_other(tmp_path, mesh, target, task):
    whole = graph()
    one = whole.with_target(target)
    alone = replace(one, columns={})
    options = {"task": task, "epochs": 3, "mode": "full", "layers": 2, "hidden": 8, "recipe": "none"} | mesh
    chosen = hetjax.train(whole, tmp_path / "chosen", target=target, **options)
    expected = hetjax.train(alone, tmp_path / "alone", **options)

    def losses(run):
        records = map(json.loads, (tmp_path / run / "metrics.jsonl").read_text().splitlines())
        return [{key: value for key, value in record.items() if "loss" in key} for record in records]

    assert losses("chosen") == losses("alone")
    assert chosen.predict().table().equals(expected.predict().table())


def test_predictions_on_another_graph_are_of_the_column(tmp_path):
    run = hetjax.train(graph(), tmp_path / "run", target="author", epochs=1, mode="full", layers=2, recipe="none")
    expected = run.predict(graph=graph()).table()
    unlabelled = graph(labels=None, target="author", splits=(0.6, 0.2, 0.2), numbers=False)
    found = run.predict(graph=unlabelled).table()
    assert found.drop_columns(["split"]).equals(expected.drop_columns(["split"]))


@pytest.mark.parametrize(
    "name, message",
    [
        ("paper.yaer", "task.target is 'paper.yaer', and no column of labels; the nearest known one is paper.year"),
        ("paper", "task.target is 'paper', whose columns of labels are paper.label, paper.year: name one"),
    ],
)
def test_a_target_that_is_no_column_is_refused(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        hetjax.train(graph(), tmp_path / "run", target=name, epochs=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"splits": {"paper.age": (0.6, 0.2, 0.2)}}, "splits of 'paper.age', and no column of labels"),
        ({"numbers": ["paper.age"]}, "numbers of 'paper.age', and no column of labels"),
        ({"labels": {"paper": [0] * PAPERS, "paper.label": [0] * PAPERS}}, "two of them are one column"),
        ({"labels": {"paper": [0] * PAPERS, "paper.year": [0] * 3}}, "labels 'paper.year': 3 != 60 nodes"),
        (
            {"labels": {"paper": [0] * PAPERS, "papr.year": [0] * 3}},
            "labels of 'papr.year': no relation has nodes of this type",
        ),
        ({"labels": {"paper": [0] * PAPERS, "paper.year": [None] * PAPERS}, "numbers": False}, "no label is known"),
    ],
)
def test_columns_that_are_wrong_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        graph(**{"splits": (0.6, 0.2, 0.2), "numbers": False} | changes)


def test_build_refuses_a_column_with_a_label_beyond_its_classes():
    found = graph()
    edges = {relation: csc for relation, csc in found.relations.items()}
    wrong = {"author.age": Column(np.full(AUTHORS, 7), {}, 3)}
    with pytest.raises(InputError, match="graph: author.age: label 7 of 'author' node 0 is outside 0..2"):
        build(found.schema, edges, found.features, found.labels, found.splits, columns=wrong)


def test_a_graph_is_not_built_with_names_that_a_store_could_not_hold():
    found = graph()
    edges = dict(found.relations)
    same_name = {"paper.label": Column(np.zeros(PAPERS, int), {}, 1)}
    with pytest.raises(InputError, match="two columns of labels are called paper.label"):
        build(found.schema, edges, found.features, found.labels, found.splits, columns=same_name)
    with pytest.raises(InputError, match="column of labels 'paper.', and should be TYPE.NAME"):
        graph(labels={"paper.": [0] * PAPERS}, splits=(0.6, 0.2, 0.2), numbers=False)


def test_another_graph_is_read_by_the_name_of_the_column_that_was_trained_on(tmp_path):
    one, other = np.arange(PAPERS) % 3, np.arange(PAPERS) % 2
    options = {"splits": (0.6, 0.2, 0.2), "numbers": False}
    trained = graph(labels={"paper.topic": one, "paper.venue": other}, **options)
    store.save(trained, tmp_path / "s")
    hetjax.train(trained, tmp_path / "run", epochs=1, mode="full", layers=1, recipe="none")
    turned = graph(labels={"paper.venue": other, "paper.topic": one}, **options)
    np.testing.assert_array_equal(restore(tmp_path / "run", turned).graph.labels, one)
    with pytest.raises(InputError, match="its labels are 'paper.venue', and the run predicts 'paper.topic'"):
        restore(tmp_path / "run", graph(labels={"paper.venue": other}, **options))
    with pytest.raises(InputError, match="its labels are 'author.topic', and the run predicts 'paper.topic'"):
        restore(tmp_path / "run", graph(labels={"author.topic": np.arange(AUTHORS) % 2}, **options))
    np.testing.assert_array_equal(restore(tmp_path / "run", graph(labels={"paper": one}, **options)).graph.labels, one)


def test_a_column_that_is_added_to_a_store_leaves_its_runs_as_they_are(tmp_path):
    whole = graph()
    store.save(replace(whole, columns={}), tmp_path / "s")
    hetjax.train(tmp_path / "s", tmp_path / "run", epochs=1, mode="full", layers=1, recipe="none")
    shutil.rmtree(tmp_path / "s")
    store.save(whole, tmp_path / "s")
    assert restore(tmp_path / "run").graph.target == "paper.label"


def test_graphs_of_metapaths_and_label_inputs_are_right():
    for made in (along_metapaths(graph(), 1), with_labels(graph())):
        check(made)  # which raises where a column is of no type
        assert made.label_name == "label" and not made.columns


def test_an_option_of_a_task_that_is_not_named_is_of_the_default_one():
    assert "--node_classification.metric=loss" in train_graph._arguments({"metric": "loss"})
    assert "--node_regression.metric=r2" in train_graph._arguments({"metric": "r2", "task": "node_regression"})


def test_a_run_of_numbers_of_before_is_read(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("task: {name: node_regression}\ntrain: {metric: micro_f1}\n")
    assert config_of(file).task.own["node_regression"].metric == "rmse"
