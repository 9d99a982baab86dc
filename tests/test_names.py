"""The users' ids and the names of classes: which readers keep them, that a store holds them, and what an error says."""

import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hetjax import convert
from hetjax.datasets import edges, hgb, npz, rdf
from hetjax.datasets.homogeneous import Options
from hetjax.graph import checksums, store
from hetjax.graph.hetgraph import build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.options.command_line import run_command
from hetjax.system.errors import InputError
from tests.support.reader_files import FILES, INFO, TEST, TRAINING, TRIPLES

CITES = Relation("paper", "cites", "paper")
SCHEMA = Schema({"paper": 3, "author": 2}, (CITES,), "paper", 2)
NAMES = Names({"paper": Ids(["a", "b", "c"]), "author": Ids([10, 20])}, Ids(["no", "yes"]))


def made(names=NAMES, **changes):
    given = {"labels": np.array([0, 1, -1]), "splits": {"train": np.array([0])}, "features": {}} | changes
    return build(SCHEMA, {CITES: (np.array([0]), np.array([1]))}, names=names, **given)


def test_a_store_keeps_names_and_reads_them_when_asked(tmp_path):
    store.save(made(), tmp_path / "s")
    files = {file.name for file in (tmp_path / "s").glob("*.parquet")}
    assert files == {"ids_0.parquet", "ids_1.parquet", "classes.parquet"}
    names = store.open(tmp_path / "s").names
    (tmp_path / "s" / "ids_1.parquet").unlink()  # nobody asked for it
    assert names.nodes["paper"].values.to_pylist() == ["a", "b", "c"] and names.class_names(2) == ["no", "yes"]
    with pytest.raises(InputError, match=r"ids_1.parquet: No such file"):
        names.nodes["author"][0]
    store.save(made(Names()), tmp_path / "bare")
    assert not list((tmp_path / "bare").glob("*.parquet")) and not store.open(tmp_path / "bare").names


def test_ids_are_found_by_what_they_are():
    ids, numbers = Ids(["a", "b", "c"]), Ids(np.array([10, 20], np.uint8))
    assert ids.find(["c", "x", "a"]).tolist() == [2, -1, 0] and ids.find([1]).tolist() == [-1]
    assert numbers.find([20, 5]).tolist() == [1, -1] and numbers.find(["20", "x"]).tolist() == [1, -1]
    assert ids.find(np.array([], object)).tolist() == []
    assert ids == Ids(pa.chunked_array([["a"], ["b", "c"]])) and ids != numbers
    assert len(ids) == 3 and ids[np.int32(1)] == "b"
    for odd in ([1.5], [1, "a"], [b"a"], [[1]]):
        with pytest.raises(InputError, match="ids are"):
            len(Ids(odd))


@pytest.mark.parametrize(
    "names,message",
    [
        (Names({"paper": Ids(["a", "b"])}), "ids of type 'paper': 2 != 3 nodes"),
        (Names({"paper": Ids(["a", "b", "a"])}), "ids of type 'paper': 'a' is given 2 times"),
        (Names({"paper": Ids(["a", None, "b"])}), "ids of type 'paper': node 1 has none"),
        (Names({"papers": Ids(["a"])}), "ids of 'papers', which is not among the node types"),
        (Names({}, Ids(["a"])), "names of classes: 1 != 2 classes"),
        (Names({"paper": Ids([1.5, 2, 3])}), "ids of type 'paper': ids are double"),
    ],
)
def test_names_that_do_not_fit_are_said(names, message):
    with pytest.raises(InputError, match=message):
        made(names)


def test_errors_speak_in_names():
    with pytest.raises(InputError, match=r"split 'train' has 'paper' node 2 \('c'\), which has no label"):
        made(splits={"train": np.array([2])})
    with pytest.raises(InputError, match=r"label 5 of 'paper' node 1 \('b'\) is outside 0..1"):
        made(labels=np.array([0, 5, -1]))
    with pytest.raises(InputError, match=r"feature 0 of 'author' node 1 \(20\) is nan"):
        made(features={"author": np.array([[1], [np.nan]], np.float32)})
    with pytest.raises(InputError, match="'paper' node 2, which has no label"):
        made(Names({"paper": Ids([0, 1, 2])}), splits={"train": np.array([2])})


def test_a_check_reads_the_names_of_a_store(tmp_path, capsys):
    store.save(made(), tmp_path / "s")
    assert checksums.verify(tmp_path / "s")
    file, schema = tmp_path / "s" / "ids_0.parquet", tmp_path / "s" / "schema.json"
    good = file.read_bytes()
    file.write_bytes(good.replace(b"a", b"z", 1))
    with pytest.raises(InputError, match=r"ids_0.parquet: checksum .* it is not what was written"):
        checksums.verify(tmp_path / "s")

    def refused(content: bytes) -> str:
        file.write_bytes(content)
        about = json.loads(schema.read_text())
        about["names"]["ids_0"] = zlib.crc32(content)
        schema.write_text(json.dumps(about))
        with pytest.raises(SystemExit) as stopped:
            run_command(convert.main, ["--check", f"{tmp_path / 's'}"])
        assert stopped.value.code == 2
        return capsys.readouterr().err

    assert "ids_0.parquet: ArrowInvalid" in refused(b"no parquet")
    assert "ids_0.parquet: " in refused(good[:-9])
    pq.write_table(pa.table({"id": ["a", "b"]}), file, use_dictionary=False)
    assert "2 rows of the columns ['id'] != 3 rows" in refused(file.read_bytes())
    pq.write_table(pa.table({"id": ["a" * 50] * 3}), file)
    assert "or a dictionary" in refused(file.read_bytes())
    pq.write_table(pa.table({"id": ["a", "b", "a"]}), file, use_dictionary=False)
    assert "'a' is given 2 times" in refused(file.read_bytes())


def test_rdf_keeps_iris_literals_and_classes(tmp_path):
    (tmp_path / "g.nt").write_text(TRIPLES)
    for name, text in (("training", TRAINING), ("test", TEST)):
        (tmp_path / f"{name}Set.tsv").write_text(text, newline="")
    graph = rdf.read(tmp_path, validation_fraction=0)
    resources = graph.names.nodes["resource"].values.to_pylist()
    assert resources[:2] == ["http://x/a", "http://x/b"] and sum(name.startswith("_:") for name in resources) == 1
    assert graph.names.nodes["literal"].values.to_pylist() == ['"A"', '"A"@en']
    assert graph.names.class_names(2) == ["blue", "red"]
    assert graph.names.class_names(2)[graph.labels[graph.names.nodes["resource"].find(["http://x/a"])[0]]] == "red"
    (tmp_path / "testSet.tsv").write_text(TRAINING, newline="")
    with pytest.raises(InputError, match=r"'resource' node 0 \('http://x/a'\) is in both split"):
        rdf.read(tmp_path, validation_fraction=0)


def test_hgb_keeps_ids_and_classes(tmp_path):
    info = INFO | {"label.dat": {"node type": {"0": {"0": "early", "1": "late"}}}}
    for name, text in (FILES | {"info.dat": json.dumps(info)}).items():
        (tmp_path / name).write_text(text)
    names = hgb.read(tmp_path).names
    assert names.nodes["author"].values.to_pylist() == [0, 1, 4]  # as the files count them
    assert names.nodes["paper"].values.to_pylist() == [2, 3] and names.class_names(2) == ["early", "late"]
    for odd in ({}, {"0": {"0": "same", "1": "same"}}, {"0": {"0": "early"}}, {"0": [1, 2]}):
        (tmp_path / "info.dat").write_text(json.dumps(INFO | {"label.dat": {"node type": odd}}))
        assert hgb.read(tmp_path).names.classes is None


def test_npz_and_edges_keep_names(tmp_path):
    arrays = {"labels": np.array([0, 1, 0]), "edges": np.array([[0, 1]]), "train_idx": np.array([0])}
    arrays |= {"val_idx": np.array([1]), "test_idx": np.array([2])}
    texts = {"node_names": np.array(["a", "b", "c"]), "class_names": np.array(["x", "y", "z"])}
    np.savez(tmp_path / "g.npz", **arrays, **texts)
    graph = npz.read(tmp_path)
    assert graph.names.nodes["node"].values.to_pylist() == ["a", "b", "c"]
    assert graph.names.class_names(3) == ["x", "y", "z"] and graph.schema.classes == 3
    np.savez(tmp_path / "g.npz", **arrays, class_names=np.array(["x", None], object))
    assert not npz.read(tmp_path).names  # which would have to be unpickled
    np.savez(tmp_path / "g.npz", **arrays, class_names=np.array(["x"]))
    with pytest.raises(InputError, match="names of classes: 1 != 2"):
        npz.read(tmp_path)
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "f" / "labels.npy", arrays["labels"])
    np.save(tmp_path / "f" / "train.npy", arrays["train_idx"])
    (tmp_path / "f" / "edges.txt").write_text("0 1\n")
    (tmp_path / "f" / "ids.txt").write_text("Ann\nBob\nÇem\n")
    assert edges.read(tmp_path / "f", Options()).names.nodes["node"].values.to_pylist() == ["Ann", "Bob", "Çem"]
    (tmp_path / "f" / "ids.txt").write_text("Ann\nBob\n")
    with pytest.raises(InputError, match="ids of type 'node': 2 != 3 nodes"):
        edges.read(tmp_path / "f", Options())


def test_aifb_keeps_iris(real_data):
    graph = rdf.read(real_data / "aifb")
    ids = graph.names.nodes["resource"]
    assert len(ids) == graph.schema.nodes["resource"]
    assert all(ids[node].startswith("http") for node in graph.splits["test"])
    assert all(name.startswith("http") for name in graph.names.class_names(4))
