"""Training and predicting in Python, and that the commands know such a run."""

import base64
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import hetjax
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from tests.test_command_line import here

OPTIONS = {"model": "rgcn", "epochs": 2, "mode": "full", "hidden": 8, "feature_width": 8, "fanout": (2, 2)}


def people(seed: int = 0, ids: bool = True) -> HetGraph:
    rng = np.random.default_rng(seed)
    return hetjax.from_arrays(
        {
            ("person", "knows", "person"): rng.integers(0, 12, (2, 40)),
            ("city", "of", "person"): rng.integers(0, 3, (2, 9)),
        },
        {"person": rng.standard_normal((12, 4), np.float32), "city": np.eye(3, dtype=np.float32)},
        {"person": np.array(["red", "blue"])[np.arange(12) % 2]},
        ids={"person": [f"p{n}" for n in range(12)]} if ids else None,
        reverse=True,
    )


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


def test_the_same_call_is_the_same_run_and_another_is_said(run, capsys):
    again = hetjax.train(people(), run.path, **OPTIONS)
    assert again.summary == run.summary and "this run is done" in capsys.readouterr().out
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
