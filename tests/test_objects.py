"""Graphs from Python objects: arrays of every kind, and round trips through networkx and pandas."""

import logging

import networkx
import numpy as np
import pyarrow as pa
import pytest

import hetjax
from hetjax.casts.labels import Categories
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError
from tests.support import peer_cases, stand_ins
from tests.support.round_trips import GRAPHS, same, there_and_back

WRITES = ("author", "writes", "paper")


@pytest.mark.parametrize("seed,several", GRAPHS)
@pytest.mark.parametrize("library", ["networkx", "pandas"])  # PyG and DGL by `make peers`
def test_round_trips_are_identities(library, seed, several):
    there_and_back(library, seed, several)


def authors(**changes):
    given = {
        "edges": {WRITES: ([0, 1, 2], [0, 0, 1])},
        "features": {"paper": [[1.5, 2], [0, 1]]},
        "labels": {"author": ["early", None, "late"]},
        "splits": {"train": [0, 2]},
    }
    return hetjax.from_arrays(**given | changes)


def test_a_type_without_edges_is_one_that_nodes_names():
    graph = authors(features={"shop": [[1.0]]}, nodes={"shop": 1})
    assert dict(graph.schema.nodes) == {"shop": 1, "author": 3, "paper": 2}
    assert hetjax.from_arrays({}, {"author": [[1.0], [2]]}, {"author": [0, 1]}).schema.target == "author"


def test_lists_and_texts_are_taken(caplog):
    graph = authors(reverse=True)
    assert dict(graph.schema.nodes) == {"paper": 2, "author": 3} and graph.labels.tolist() == [0, -1, 1]
    assert [str(relation) for relation in graph.relations] == ["author -writes-> paper", "paper -rev_writes-> author"]
    assert graph.names.class_names(2) == ["early", "late"] and graph.features["paper"].dtype == np.float32
    assert not caplog.messages  # of a list's numbers nobody chose the type
    authors(features={"paper": np.array([[1.5, 2], [0, 1]])})
    assert caplog.messages == ["features of type 'paper': float64 cast to float32"]
    named = authors(
        edges={WRITES: (["Ann", "Bob", "Ann"], ["p", "q", "q"])}, labels={"author": [1, 0]}, splits={"train": ["Bob"]}
    )
    assert named.names.nodes["author"].values.to_pylist() == ["Ann", "Bob"] and named.splits["train"].tolist() == [1]
    assert named.relations[WRITES].indices.tolist() == [0, 1, 0]
    ids = {"author": ["x", "Bob", "Ann"], "paper": ["q", "p"]}
    named = authors(edges={WRITES: (["Ann", "Bob"], ["p", "q"])}, ids=ids, nodes={"venue": 2})
    assert named.relations[WRITES].indices.tolist() == [1, 2] and named.schema.nodes["venue"] == 2


@pytest.mark.parametrize(
    "given,dtype,said",
    [
        (np.array([[1.25], [2]]), "float32", "float64 cast to float32"),
        (np.array([[1.1], [2]]), "float32", "float64 cast to float32, rounded"),
        (np.array([[1], [-2]]), "int8", "int64 cast to int8"),
        (np.array([[1], [70000]]), "float32", "int64 cast to float32"),
        (np.array([[True], [False]]), "bool", ""),
        (np.array([[1], [2]], np.float16), "float16", ""),
        ([1.5, 2.5], "float32", ""),
        (pa.array([3, 4]), "uint8", "int64 cast to uint8"),
    ],
)
def test_features_are_cast_with_a_line(given, dtype, said, caplog):
    features = authors(features={"paper": given}).features["paper"]
    assert features.dtype == dtype and features.shape == (2, 1)
    assert caplog.messages == ([f"features of type 'paper': {said}"] if said else [])
    if isinstance(given, np.ndarray):
        np.testing.assert_array_equal(features, given.astype(dtype))
        assert given.flags.writeable


def test_a_library_can_quiet_the_lines(caplog):
    with caplog.at_level(logging.ERROR, "hetjax"):
        authors()
    assert not caplog.messages


@pytest.mark.parametrize(
    "given,expected,classes",
    [
        ([1, 0, -1], [1, 0, -1], None),
        ([1.0, np.nan, 0.0], [1, -1, 0], None),
        ([True, False, True], [1, 0, 1], ["false", "true"]),
        (np.array(["b", "a", "b"]), [1, 0, 1], ["a", "b"]),
        ([1, None, 0], [1, -1, 0], None),
        ([[1], [0], [1]], [1, 0, 1], None),
        ([[1, 1], [0, 1], [0, 0]], [[1, 1], [0, 1], [0, 0]], None),
        ([[1.0, 1.0], [np.nan, np.nan], [0, 0]], [[1, 1], [-1, -1], [0, 0]], None),
        (Categories([2, -1, 0], ["x", "y", "z"]), [2, -1, 0], ["x", "y", "z"]),
    ],
)
def test_labels_are_taken_as_they_are(given, expected, classes):
    graph = authors(labels={"author": given}, splits={"train": [0]})
    assert graph.labels.tolist() == expected
    assert (graph.names.classes.values.to_pylist() if graph.names.classes else None) == classes


def test_splits_are_masks_ids_or_shares():
    given = {"train": np.array([True, False, False]), "val": [2]}
    assert {k: v.tolist() for k, v in authors(splits=given).splits.items()} == {
        "train": [0],
        "validation": [2],
        "test": [],
    }
    labels = {"author": np.r_[np.zeros(50, int), np.full(10, -1)]}
    graph = authors(labels=labels, splits=0.6, seed=3)
    assert [len(ids) for ids in graph.splits.values()] == [30, 10, 10]
    again, other = (authors(labels=labels, splits=(0.6, 0.2, 0.2), seed=seed) for seed in (3, 4))
    assert np.array_equal(graph.splits["train"], again.splits["train"])
    assert not np.array_equal(graph.splits["train"], other.splits["train"])


@pytest.mark.parametrize("form", ["rows", "columns", "table", "dictionary"])
def test_edges_come_in_several_forms(form):
    source, target = [0, 1, 2], [0, 0, 1]
    given = {
        "rows": np.array([source, target]),
        "columns": np.array([source, target]).T,
        "table": pa.table({"weight": [1.0, 2, 3], "target": target, "source": source}),
        "dictionary": {"from": source, "to": target},
    }[form]
    csc = authors(edges={WRITES: given}).relations[WRITES]
    assert csc.indices.tolist() == source and (csc.weights is not None) == (form == "table")


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"labels": None}, "labels of none, and there should be labels of one node type"),
        ({"labels": {"auhtor": [0, 1, 1]}}, "labels of 'auhtor': no relation .*; the nearest known one is author"),
        ({"features": {"papers": [[1.5]]}}, "features of 'papers': no relation .*; the nearest known one is paper"),
        ({"ids": {"x": ["B"]}}, "ids of 'x': no relation has nodes of this type; known are author, paper"),
        ({"labels": {"author": [0.5, 1, 1]}}, "labels of type 'author': 0.5 of node 0 is no class"),
        ({"labels": {"author": ["a", 1, "b"]}}, "labels of type 'author': 1 is int, and others are texts"),
        ({"labels": {"author": ["a", "b"]}}, "source of edge 2 is node 2, but type 'author' has 2 nodes"),
        ({"features": {"paper": [["a"], ["b"]]}}, "features of type 'paper' are object, and should be numbers"),
        ({"features": {"paper": [[1.0, 2], [3]]}}, "features of type 'paper': "),
        ({"features": {"paper": [[1.0], [np.inf]]}}, "feature 0 of 'paper' node 1 is inf"),
        ({"features": {"paper": [[1e300], [1]]}}, "feature 0 of 'paper' node 0 is inf"),
        (
            {"splits": {"training": [0], "train": [1]}},
            "split 'train': the splits are train, validation, test, each once",
        ),
        ({"splits": {"training": [True]}}, r"split 'train': a mask of shape \(1,\) != \(3,\)"),
        ({"splits": {"train": ["Ann"]}}, "split 'train': 'Ann' is an id of yours, and the type has none"),
        ({"splits": {"train": ["Ann"]}, "ids": {"author": ["B", "C", "D"]}}, "split 'train': 'Ann', entry 0, is no id"),
        (
            {"edges": {"author-writes-paper": ([0], [0])}},
            r"relation 'author-writes-paper': should be \(source type, name",
        ),
        ({"splits": 1.5}, "splits are 1.5, and should be shares"),
        ({"edges": {WRITES: np.zeros((3, 3), int)}}, r"edges of shape \(3, 3\)"),
        (
            {"edges": {WRITES: (["Ann"], [0])}, "ids": {"author": ["B"]}},
            "writes-> paper: source: 'Ann', entry 0, is no id",
        ),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    with pytest.raises(InputError, match=message):
        authors(**changes)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "NA", "a"], [1, -1, 0]),
        (["b", None, float("nan")], [1, -1, -1]),
        ([1.0, float("nan"), 0.0], [1, -1, 0]),
        ([np.int8(1), -1, 0], [1, -1, 0]),
        (["b", "c", "a"], "row 2: class 'c' is not among a, b"),
        ([2, 0, 0], "class 2 of node 0"),
        ([True, False, True], "bool, and should be whole numbers"),
    ],
)
def test_labels_of_networkx_with_classes_are_cast_as_others(labels, expected):
    graph = networkx.DiGraph(classes=["a", "b"])
    for node, label in enumerate(labels):
        graph.add_node(node, y=label)
    graph.add_edge(0, 1)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            hetjax.from_networkx(graph)
    else:
        assert hetjax.from_networkx(graph).labels.tolist() == expected


def test_a_plain_networkx_graph_is_taken():
    club = networkx.karate_club_graph()
    for _, about in club.nodes(data=True):
        about["y"] = about["club"]
    graph = hetjax.from_networkx(club, splits=0.5)
    assert graph.schema.nodes["node"] == 34 and graph.edges == 2 * club.number_of_edges()
    assert graph.names.class_names(2) == ["Mr. Hi", "Officer"] and not graph.names.nodes
    assert graph.relations[Relation("node", "edge", "node")].weights is not None
    club.nodes[0]["x"] = [1.0]
    with pytest.raises(InputError, match="features of type 'node': 1 nodes have x, and 33 have none"):
        hetjax.from_networkx(club)


def test_frames_of_a_user(caplog):
    pd = pytest.importorskip("pandas")
    people = pd.DataFrame(
        {"id": ["u1", "u2", "u3"], "name": ["A", "B", "C"], "age": [30, 41, 22], "vip": [True, False, True]}
    )
    people["label"] = ["yes", None, "no"]
    people["split"] = ["train", None, "test"]
    items = pd.DataFrame({"price": [1.5, 2.5]}, index=[700, 701])
    bought = pd.DataFrame({"who": ["u1", "u3"], "what": [701, 700], "weight": [1.0, 2.0]})
    graph = hetjax.from_pandas({"person": people, "item": items}, {("person", "bought", "item"): bought}, reverse=True)
    assert (
        graph.features["person"].tolist() == [[30, 1], [41, 0], [22, 1]] and graph.features["person"].dtype == np.uint8
    )
    assert graph.relations["person", "bought", "item"].indices.tolist() == [2, 0]
    assert graph.names.nodes["item"].values.to_pylist() == [700, 701] and graph.splits["test"].tolist() == [2]
    assert "nodes of type 'person': columns that are no numbers are left out: name" in caplog.messages
    arrow = {"person": pa.Table.from_pandas(people), "item": pa.table({"id": [700, 701], "price": [1.5, 2.5]})}
    same(graph, hetjax.from_pandas(arrow, {("person", "bought", "item"): pa.Table.from_pandas(bought)}, reverse=True))

    def refused(message, nodes, edges=bought, **options):
        with pytest.raises(InputError, match=message):
            hetjax.from_pandas(
                {"person": people, "item": items} | nodes, {("person", "bought", "item"): edges}, **options
            )

    with pytest.raises(InputError, match=r"relation 'bought': should be \(source type, name, target type\)"):
        hetjax.from_pandas({"person": people, "item": items}, {"bought": bought})
    refused("'u9', entry 1, is no id of the type's 3", {}, bought.assign(who=["u1", "u9"]))
    refused("ids of type 'person': 'u1' is given 2 times", {"person": people.assign(id=["u1", "u1", "u3"])})
    refused("column 'name' is .*, and features are numbers", {}, features={"person": ["name"]})
    refused("no column 'size' among", {}, features={"person": ["size"]})
    refused("types with labels: none, and there should be one", {}, label="class")
    refused(
        "nodes of type .item.: column .price.: the value of node 1 is missing",
        {"item": items.assign(price=[1, np.nan])},
    )


def test_graphs_of_pyg_and_dgl_with_numbers_of_types():
    peer_cases.pyg_types(stand_ins.Data, np.asarray)
    peer_cases.dgl_types(stand_ins.Graph, np.asarray)


def test_stores_of_pyg():
    peer_cases.pyg_stores(stand_ins.Data, stand_ins.HeteroData, np.asarray)


def test_names_of_types_of_pyg_are_kept():
    names = {"_node_type_names": ["a", "p"], "_edge_type_names": [("a", "w", "p"), ("p", "c", "p")]}
    given = {
        "edge_index": np.array([[0, 1], [1, 3]]),
        "edge_type": np.array([0, 1]),
        "node_type": np.array([0, 1, 0, 1]),
    }
    x, y = np.array([[0.0], [np.nan], [20.0], [np.nan]]), np.array([-1, 1, -1, 0])
    graph = hetjax.from_pyg(stand_ins.Data(**given, x=x, y=y, **names))
    assert dict(graph.schema.nodes) == {"a": 2, "p": 2} and graph.features["a"].ravel().tolist() == [0, 20]
    assert list(graph.features) == ["a"] and peer_cases.edges_of(graph) == {
        ("a", "w", "p"): [(0, 0)],
        ("p", "c", "p"): [(0, 1)],
    }
    given["edge_type"] = np.array([1, 0])
    with pytest.raises(InputError, match="edge_type: an edge of a -w-> p goes from 'p' to 'p'"):
        hetjax.from_pyg(stand_ins.Data(**given, x=x, y=y, **names))


def test_adjacencies_of_pyg_come_in_other_layouts():
    sparse = pytest.importorskip("scipy.sparse")
    adjacency = sparse.coo_array((np.ones(2), ([1, 2], [0, 1])), (3, 3))  # targets, sources
    graph = hetjax.from_pyg(stand_ins.Data(adj_t=adjacency, y=np.array([0, 1, 0])))
    assert peer_cases.edges_of(graph) == {("node", "edge", "node"): [(0, 1), (1, 2)]}
