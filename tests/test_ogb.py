"""Small trees in the layouts of OGB, MAG240M and IGB, right and wrong."""

import random

import numpy as np
import pytest

from hetjax.datasets import npy_tree, ogb
from hetjax.datasets.load import load
from hetjax.graph.schema import Relation
from hetjax.options import owners
from hetjax.options.config import Data
from hetjax.system.errors import InputError
from tests.support.ogb_files import ARXIV, IGB, MAG, MAG240M, tree, written

WRITES, CITES = Relation("author", "writes", "paper"), Relation("paper", "cites", "paper")


def test_several_kinds_of_nodes(tmp_path):
    graph = load(Data(format="ogb", path=str(written(tmp_path, MAG))))
    assert dict(graph.schema.nodes) == {"author": 3, "paper": 4}
    assert graph.schema.relations == (WRITES, WRITES.reverse, CITES, CITES.reverse)
    assert (graph.schema.target, graph.schema.classes, graph.labels.tolist()) == ("paper", 3, [1, 0, 2, 1])
    assert graph.relations[WRITES].indices.tolist() == [0, 1, 2]
    assert graph.relations[WRITES].indptr.tolist() == [0, 2, 2, 2, 3]
    assert graph.relations[WRITES.reverse].indices.tolist() == [0, 0, 3]
    assert graph.relations[CITES.reverse].indptr.tolist() == [0, 1, 1, 1, 2]
    np.testing.assert_array_equal(graph.features["paper"], np.float32([[0.5, 1], [-2, 3e-2], [0, 0], [1, 1]]))
    assert {name: ids.tolist() for name, ids in graph.splits.items()} == {
        "train": [0, 1],
        "validation": [3],
        "test": [2],
    }
    assert graph.names.nodes["paper"].values.to_pylist() == [2908, 29, 7, 11]
    assert graph.names.nodes["author"].values.to_pylist() == ["Ann, B.", "Bob (1)", "Bob (2)"]
    assert graph.names.class_names(3) == ["KDD", "1", "VLDB"]
    assert ogb.read(tmp_path, reverse=False).schema.relations == (WRITES, CITES)


def test_one_kind_of_node(tmp_path):
    graph = load(owners.made_data(format="ogb", path=str(written(tmp_path, ARXIV)), undirected=False))
    assert dict(graph.schema.nodes) == {"node": 4} and graph.edges == 3
    assert graph.labels.tolist() == [0, 1, 1, 0] and graph.splits["train"].tolist() == [0, 3]
    np.testing.assert_array_equal(graph.features["node"], np.float32([[0.5, 1], [0.25, 2], [0, 0], [1, 1]]))
    assert graph.names.nodes["node"].values.to_pylist() == [9, 8, 7, 6]
    assert graph.names.class_names(2) == ["arxiv cs na", "arxiv cs mm"]
    assert load(Data(format="ogb", path=str(tmp_path))).edges == 6


def test_several_labels_of_a_node(tmp_path):
    """As of ogbn-proteins: no features, a column of 0 and 1 per task, and features of edges, which are left out."""
    files = ARXIV | {"raw/node-label.csv.gz": "0,1\n1,1\n0,0\n,\n", "raw/edge-feat.csv.gz": "1\n2\n3\n"}
    files = {name: text for name, text in files.items() if "node-feat" not in name and "labelidx" not in name}
    graph = ogb.read(written(tmp_path, files | {"split/time/train.csv.gz": "0\n"}))
    assert graph.labels.tolist() == [[0, 1], [1, 1], [0, 0], [-1, -1]] and not graph.features


@pytest.mark.parametrize(
    "files, changes, message",
    [
        (MAG, {"raw__num-node-dict": "author,paper\n3,5\n"}, r"node-label.csv.gz: \(4, 1\) != \(5, 1\) of the nodes"),
        (MAG, {"raw__num-node-dict": "author,paper\n3,4\n3,4\n"}, "counts of 2 graphs, and there should be one"),
        (MAG, {"raw__relations__paper___cites___paper__edge.": "0,1\n3,4\n"}, "node 4, but type 'paper' has 4 nodes"),
        (MAG, {"raw__relations__paper___cites___paper__edge.": "0,1\n"}, r"edge.csv.gz: \(1, 2\) != \(2, 2\) of num-"),
        (MAG, {"raw__relations__paper___cites___paper__edge.": "0,1\n3,x\n"}, "edge.csv.gz: .*invalid value 'x'"),
        (MAG, {"raw__relations__paper___cites___paper__edge.": "0,1\n3\n"}, "edge.csv.gz: .*Expected 2 columns, got 1"),
        (MAG, {"raw__relations__paper___cites___paper__edge.": None}, "edge.csv.gz: No such file"),
        (MAG, {"raw__triplet": "../../x,writes,paper\n"}, "is no name of a node type or relation"),
        (MAG, {"raw__nodetype-has-label": "author,paper\nTrue,True\n"}, "with labels: author, paper, and there should"),
        (MAG, {"raw__node-feat__paper__node-feat": "1,1\n"}, "node-feat.csv.gz: feature rows 1 != 4 nodes"),
        (MAG, {"raw__node-label": "1\n0.5\n2\n1\n"}, "node-label.csv.gz: row 2: 0.5 is no class number"),
        (MAG, {"mapping__paper": "ent idx,ent name\n1,29\n1,2908\n2,7\n3,11\n"}, "which are not 0..3, each once"),
        (MAG, {"split__time__paper__valid": "9\n"}, "split 'validation': entry 0 is node 9"),
        (
            MAG,
            {"raw__triplet": random.Random(0).randbytes(2**20).hex()},
            "bytes, and there should be a few rows: at most 1048576",
        ),
        (ARXIV, {"raw__num-node-list": None}, "holds neither num-node-list.csv.gz nor num-node-dict.csv.gz"),
        (ARXIV, {"raw__edge.": ""}, "edge.csv.gz: is empty"),
        (ARXIV, {"raw__node-label": "0\n1\n"}, r"node-label.csv.gz: \(2, 1\) != \(4, 1\)"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, files, changes, message):
    with pytest.raises(InputError, match=message) as refused:
        load(Data(format="ogb", path=str(written(tmp_path, files, **changes))))
    assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)


def test_what_is_not_packed_as_it_says_is_one_line(tmp_path):
    written(tmp_path, ARXIV)
    (tmp_path / "raw" / "edge.csv.gz").write_text("0,1\n")
    with pytest.raises(InputError, match="edge.csv.gz: "):
        ogb.read(tmp_path)


def test_mag240m(tmp_path):
    graph = load(Data(format="mag240m", path=str(tree(tmp_path, MAG240M))))
    assert dict(graph.schema.nodes) == {"author": 5, "institution": 2, "paper": 6} and graph.edges == 14
    assert graph.schema.classes == 3 and graph.labels.tolist() == [0, 2, -1, 1, 0, -1]
    assert {k: v.tolist() for k, v in graph.splits.items()} == {"train": [0, 1, 4], "validation": [3], "test": []}
    assert isinstance(graph.features["paper"], np.memmap) and graph.features["paper"].dtype == np.float16
    assert graph.relations[WRITES].indptr.tolist() == [0, 2, 2, 2, 2, 2, 3]
    assert not npy_tree.mag240m(tmp_path, reverse=False).relations.keys() & {WRITES.reverse}


@pytest.mark.parametrize("labels, classes", [("19", 3), ("2K", 8)])
def test_igb(tmp_path, labels, classes):
    graph = load(owners.made_data(format="igb", path=str(tree(tmp_path, IGB)), labels=labels))
    assert dict(graph.schema.nodes) == {"author": 4, "institute": 2, "paper": 5} and graph.schema.classes == classes
    assert [graph.splits[name].tolist() for name in ("train", "validation", "test")] == [[0, 1, 2], [3], [4]]
    written_by = Relation("paper", "written_by", "author")
    assert graph.relations[written_by].indices.tolist() == [4, 0]
    assert isinstance(graph.features["author"], np.memmap)


def test_igb_without_headers(tmp_path):
    """As the large sizes have features and labels."""
    features = np.random.default_rng(0).random((5, npy_tree.WIDTH), np.float32)
    tree(tmp_path, IGB)
    features.tofile(tmp_path / "processed" / "paper" / "node_feat.npy")
    IGB["paper/node_label_19.npy"].tofile(tmp_path / "processed" / "paper" / "node_label_19.npy")
    graph = npy_tree.igb(tmp_path)
    np.testing.assert_array_equal(graph.features["paper"], features)
    assert graph.labels.tolist() == [0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    "kind, name, array, message",
    [
        ("mag240m", "paper/node_year.npy", np.zeros(5), r"node_year.npy: \(5,\) != \(6,\) of node_label"),
        ("mag240m", "paper/node_label.npy", np.full(6, 0.5), "entry 0 is 0.5, no class number"),
        ("mag240m", "paper___cites___paper/edge_index.npy", np.zeros((3, 2), int), r"\(3, 2\), and should be \(2, ed"),
        ("mag240m", "paper___cites___paper/edge_index.npy", np.array([[9], [0]]), "node 9, but type 'paper' has 6"),
        ("mag240m", "paper__x/edge_index.npy", np.zeros((2, 0), int), "is not named SOURCE___NAME___TARGET"),
        ("mag240m", "paper/node_label.npy", np.array([None] * 6), "pickled objects"),
        ("igb", "paper/node_label_19.npy", np.zeros(4), "5 papers != 4 labels"),
        ("igb", "paper__cites__paper/edge_index.npy", np.zeros((2, 3), int), r"\(2, 3\), and should be \(edges, 2\)"),
    ],
)
def test_what_is_wrong_in_a_tree_is_one_line(tmp_path, kind, name, array, message):
    tree(tmp_path, (MAG240M if kind == "mag240m" else IGB) | {name: array})
    with pytest.raises(InputError, match=message):
        load(Data(format=kind, path=str(tmp_path)))
