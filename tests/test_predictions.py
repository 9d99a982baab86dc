"""Predictions by the users' ids: as a table and in each kind of file."""

import csv
import dataclasses
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax

from hetjax.datasets import hgb
from hetjax.graph import store
from hetjax.graph.names import Ids, Names
from hetjax.inference.predicting import predict
from hetjax.system.errors import InputError
from hetjax.tasks.predictions import ClassPredictions, classes, quoted, split_numbers
from tests.support.commands import here, train
from tests.support.reader_files import FILES, INFO

LOGITS = np.array([[1, 3], [0.5, -200], [0, 0]], np.float32)
NAMES = Names({"person": Ids(["Ann", 'Bob, "B"', "Çem\nD"])}, Ids(["no", "yes"]))
ONE = ClassPredictions("person", LOGITS, NAMES, embeddings=np.arange(6, dtype=np.float32).reshape(3, 2) / 7)


def test_predictions_of_one_label():
    assert ONE.classes.tolist() == [1, 0, 0] and ONE.class_names == ["no", "yes"]
    np.testing.assert_allclose(ONE.probabilities, softmax(LOGITS.astype(float), axis=1), rtol=1e-6, atol=1e-30)
    table = ONE.table(logits=True, probabilities=True)
    assert table.column_names == [
        *("node", "class", "probability", "probability_no", "probability_yes", "logit_no", "logit_yes", "embedding")
    ]
    assert table["node"].to_pylist() == ["Ann", 'Bob, "B"', "Çem\nD"] and table["class"].to_pylist() == [
        "yes",
        "no",
        "no",
    ]
    assert table["probability"].to_pylist() == ONE.probabilities.max(axis=1).tolist()
    assert table["embedding"].to_pylist() == ONE.embeddings.tolist()
    bare = ClassPredictions("person", LOGITS)
    assert bare.table()["node"].to_pylist() == [0, 1, 2] and bare.table()["class"].to_pylist() == [1, 0, 0]


def test_predictions_of_several_labels():
    several = ClassPredictions("person", LOGITS, NAMES, multilabel=True)
    assert several.classes.tolist() == [[1, 1], [1, 0], [0, 0]] and classes(LOGITS, True).dtype == np.int8
    np.testing.assert_allclose(several.probabilities, expit(LOGITS), rtol=1e-6, atol=1e-30)
    lower = dataclasses.replace(several, threshold=0.2)
    assert lower.classes.tolist() == [[1, 1], [1, 0], [1, 1]] and lower.probabilities[2, 0] == 0.5
    assert several.table(probabilities=True).column_names == [
        *("node", "class_no", "class_yes", "probability_no", "probability_yes")
    ]


def test_the_split_of_every_node_is_a_column(tmp_path):
    for multilabel in (False, True):
        found = ClassPredictions("person", LOGITS, NAMES, multilabel=multilabel, split=np.array([2, -1, 0], np.int8))
        assert found.table()["split"].to_pylist() == ["test", None, "train"]
        for suffix in ("csv", "parquet"):
            found.write(tmp_path / f"{multilabel}.{suffix}", True)
        assert pq.read_table(tmp_path / f"{multilabel}.parquet").equals(found.table(True))
        with open(tmp_path / f"{multilabel}.csv", newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        assert [row["split"] for row in rows] == ["test", "", "train"] and len(rows[0]) == 6
    splits = {"train": np.array([2]), "validation": np.array([], int), "test": np.array([0])}
    assert split_numbers(splits, 3).tolist() == [2, -1, 0]


def test_files_hold_the_table(tmp_path):
    assert (
        ONE.write(tmp_path / "p.parquet", True, True)
        == "3 rows of node, class, probability, probability_no, probability_yes, logit_no ..."
    )
    read = pq.read_table(tmp_path / "p.parquet")
    assert read.equals(ONE.table(True, True))
    ONE.write(tmp_path / "p.csv", True, True)
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    assert header == [*read.column_names[:-1], "embedding_0", "embedding_1"]
    assert [row[:2] for row in rows] == [["Ann", "yes"], ['Bob, "B"', "no"], ["Çem\nD", "no"]]
    numbers = np.array([row[2:] for row in rows], np.float32)
    expected = [ONE.probabilities.max(axis=1)[:, None], ONE.probabilities, LOGITS, ONE.embeddings]
    np.testing.assert_array_equal(numbers, np.concatenate(expected, axis=1))
    plain = ClassPredictions("person", LOGITS, NAMES)
    for name, more, array in (("c", (), ONE.classes), ("l", (True,), LOGITS), ("p", (False, True), ONE.probabilities)):
        plain.write(tmp_path / f"{name}.npy", *more)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), array)
    ONE.write(tmp_path / "e.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "e.npy"), ONE.embeddings)
    with pytest.raises(InputError, match="logits and embeddings, and a .npy holds one array"):
        ONE.write(tmp_path / "x.npy", True)
    assert not (tmp_path / "x.npy").exists() and not list(tmp_path.glob(".*"))


def test_a_run_is_predicted_by_the_ids_of_its_files(tmp_path):
    """The ids and classes of the files come back, and a node that was added after training is scored."""
    folder = tmp_path / "hgb"
    folder.mkdir()
    classes_of = {"label.dat": {"node type": {"0": {"0": "early", "1": "late"}}}}
    nodes = '0\tA "B\t0\t1\n1\tC\t0\t0\n2\tP\t1\t1,0.5\n3\tQ\t1\t0,2\n4\tD\t0\t1\n'
    for name, text in (FILES | {"info.dat": str(INFO | classes_of).replace("'", '"'), "node.dat": nodes}).items():
        (folder / name).write_text(text)
    small = [
        "--train.recipe",
        "none",
        "--model.hidden",
        "8",
        "--model.feature_width",
        "8",
        "--train.epochs",
        "2",
        "--sampling.mode",
        "full",
    ]
    done = train(tmp_path / "run", "--data.format", "hgb", "--data.path", folder, *small)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "p.parquet"
    done = here("hetjax.predict", "--workdir", tmp_path / "run", "--out", out, "--embeddings", "--probabilities")
    assert done.returncode == 0, done.stderr
    table, found = pq.read_table(out), predict(tmp_path / "run", embeddings=True)
    assert table.equals(found.table(probabilities=True)) and found.embeddings.shape == (3, 8)
    assert table["node"].to_pylist() == [0, 1, 4] and set(table["class"].to_pylist()) <= {"early", "late"}

    folder = shutil.copytree(folder, tmp_path / "later_files")
    (folder / "node.dat").write_text(nodes + "5\tnew\t0\t0.5\n")
    (folder / "link.dat").write_text(FILES["link.dat"] + "5\t3\t0\t1.0\n3\t5\t1\t1.0\n")
    store.save(hgb.read(folder), tmp_path / "later")
    later = predict(tmp_path / "run", tmp_path / "later")
    assert later.ids.to_pylist() == [0, 1, 4, 5] and np.isfinite(later.logits).all()


def test_formulas_are_quoted_where_that_is_asked_for(tmp_path):
    ids = ["=cmd()", "+1", "-1", "@x", "\ta", "plain", "a=b", "c"]
    names = Names({"paper": Ids(ids)}, Ids(["=A1", "b"]))
    found = ClassPredictions("paper", np.eye(8, 2, dtype=np.float32), names)
    found.write(tmp_path / "plain.csv")
    found.write(tmp_path / "quoted.csv", quote_formulas=True)
    rows = {}
    for name in ("plain", "quoted"):
        with open(tmp_path / f"{name}.csv", newline="") as stream:
            rows[name] = list(csv.reader(stream))
    assert [row[0] for row in rows["plain"][1:]] == ids
    assert [row[0] for row in rows["quoted"][1:]] == [f"'{one}" for one in ids[:5]] + ids[5:]
    assert {row[1] for row in rows["quoted"][1:]} == {"'=A1", "b"} and quoted("\rb") == "'\rb"
    with pytest.raises(InputError, match="quote_formulas is for a .csv"):
        found.write(tmp_path / "x.parquet", quote_formulas=True)
