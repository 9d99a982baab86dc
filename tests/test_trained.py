"""Training and predicting in Python, and that the commands know such a run."""

import base64
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import hetjax
from hetjax.graph import store
from hetjax.system.errors import InputError
from tests.support.commands import here
from tests.support.people import OPTIONS, people, wrote


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return hetjax.train(people(), tmp_path_factory.mktemp("python") / "run", **OPTIONS)


def test_a_run_in_python_predicts_by_the_users_ids(run):
    found = run.predict(embeddings=True)
    assert found.ids.to_pylist() == [f"p{n}" for n in range(12)] and set(found.class_names) == {"blue", "red"}
    assert found.embeddings.shape == (12, 8) and found.probabilities.shape == (12, 2)
    graph = people()
    test = graph.splits["test"]
    assert np.mean(found.classes[test] == graph.labels[test]) == run.summary["test_accuracy"]
    assert [record.get("epoch") for record in run.records] == [1, 2, None]
    np.testing.assert_array_equal(hetjax.predict(run.path).logits, found.logits)
    np.testing.assert_array_equal(hetjax.Trained(run.path).predict(people()).logits, found.logits)
    larger = people(1)
    assert run.predict(larger).logits.shape == (12, 2)


def test_the_commands_know_a_run_of_python(run, tmp_path):
    done = here("hetjax.predict", "--workdir", run.path, "--out", tmp_path / "p.parquet")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "p.parquet").equals(run.predict().table())
    done = here("hetjax.train", "--workdir", run.path, "--config", run.path / "config.yaml")
    assert done.returncode == 0 and "this run is done" in done.stdout, done.stderr


def test_a_run_is_shown_in_a_notebook(run):
    page = run._repr_html_()
    picture = base64.b64decode(re.search(r'base64,([^"]+)"', page)[1])
    assert picture == (run.path / "curves.png").read_bytes() and 'alt="' in page
    assert repr(run).startswith("Trained(") and "test accuracy" in repr(run)


def test_the_same_call_is_the_same_run_and_another_is_said(run, caplog):
    caplog.set_level("INFO", "hetjax")
    again = hetjax.train(people(), run.path, **OPTIONS)
    assert again.summary == run.summary and "this run is done" in caplog.text
    for graph, options, message in (
        (people(1), {}, "graph: another graph was trained there; give another workdir"),
        (people(), {"hidden": 16}, "model.hidden is 8 there != 16"),
        (people(), {"hiden": 8}, "option 'hiden': the nearest is hidden"),
        (people(), {"hidden": "many"}, "model.hidden is many, and should be a whole number"),
        (people(), {"name": "gcnn"}, "gcnn"),
    ):
        with pytest.raises(InputError, match=message):
            hetjax.train(graph, run.path, **OPTIONS | options)


def test_a_run_without_a_folder_leaves_none():
    run = hetjax.train(people(ids=False), **OPTIONS | {"epochs": 1, "train.seed": 3})
    assert run.predict().ids.to_pylist() == list(range(12))
    path = run.path
    assert path.exists()
    del run
    assert not path.exists()


def test_the_public_face_is_there():
    for name in hetjax.__all__:
        assert getattr(hetjax, name), name
    with pytest.raises(AttributeError, match="no attribute 'prdict'"):
        hetjax.prdict  # noqa: B018


def test_learned_features_are_found_by_ids(tmp_path):
    """A graph with its nodes in another order is predicted alike, and a new node is refused, or gets its type's mean."""
    run = hetjax.train(wrote(list("abcd"), list("wxyz")), tmp_path / "run", **OPTIONS)
    first = dict(zip("abcd", run.predict().logits))
    turned = run.predict(wrote(list("dbca"), list("zxyw")))
    for name, logits in zip(turned.ids.to_pylist(), turned.logits):
        np.testing.assert_allclose(logits, first[name], rtol=1e-5, atol=1e-6)
    assert not np.allclose(first["a"], first["d"])
    graph = wrote(list("dbca"), list("zxyw"))
    bare = replace(
        graph,
        schema=replace(graph.schema, classes=1),
        labels=np.full(4, -1, np.int32),
        splits=dict.fromkeys(graph.splits, np.empty(0, np.int32)),
        names=replace(graph.names, classes=None),
    )
    found = run.predict(bare).table()
    assert found.drop_columns("split") == turned.table().drop_columns("split")
    assert found["split"].null_count == 4 and set(turned.table()["split"].to_pylist()) == {"train"}
    more = wrote(list("daebc"), list("zwxxy"))
    with pytest.raises(
        InputError, match=r"graph: type 'author': node 2 \('e'\) is not of the graph that was trained on"
    ):
        run.predict(more, new_nodes="refuse")
    found = run.predict(more, new_nodes="mean")
    known = dict(zip(found.ids.to_pylist(), found.logits))
    np.testing.assert_allclose(known["a"], first["a"], rtol=1e-5, atol=1e-6)
    assert np.isfinite(known["e"]).all()
    store.save(more, tmp_path / "more")
    options = ["--workdir", run.path, "--graph", tmp_path / "more", "--out", tmp_path / "p.csv"]
    assert here("hetjax.predict", *options, "--new_nodes", "refuse").returncode == 2
    done = here("hetjax.predict", *options, "--new_nodes", "mean")
    assert "1 new node of author: features are the mean of what was learned of their type" in done.stdout, done.stderr
    assert (tmp_path / "p.csv").read_text().splitlines()[3].startswith("e,")
