"""Schema, CSC, the checks at building, and the store."""

import dataclasses
import json
import os
import shutil
import warnings

import hypothesis
import networkx
import numpy as np
import pytest
from hypothesis import strategies

from hetjax.graph import csc, grouping, hetgraph, store
from hetjax.graph.hetgraph import build, check
from hetjax.graph.pieces import Pieces
from hetjax.graph.schema import Relation, Schema
from hetjax.system import durable
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph

CITES = Relation("paper", "cites", "paper")


def test_metagraph_keeps_parallel_relations(graph):
    metagraph = graph.schema.metagraph()
    assert isinstance(metagraph, networkx.MultiDiGraph)
    assert set(metagraph["paper"]["paper"]) == {"cites", "extends"}
    assert metagraph.nodes["author"]["count"] == 25
    assert metagraph.number_of_edges() == len(graph.schema.relations)


def test_layer_types_reach_down_from_the_target(graph):
    needed = graph.schema.layer_types([graph.schema.target], 2)
    assert needed[2] == {"paper"}
    assert needed[1] == {"paper", "author", "venue", "topic"}
    assert needed[0] == needed[1] | {"ghost"}


@pytest.mark.parametrize("names", [("a--b", "c", "d"), ("a", "b--c", "d"), ("http://x/y#z", "p/q", "ü")])
def test_relation_keys_are_safe_and_distinct(names):
    key = Relation(*names).key
    assert "/" not in key and "." not in key and key.isascii()
    assert len({Relation("a--b", "c", "d").key, Relation("a", "b--c", "d").key, Relation("a", "b", "c--d").key}) == 3


@hypothesis.given(
    strategies.lists(strategies.tuples(strategies.integers(0, 8), strategies.integers(0, 5))), strategies.integers(0, 3)
)
@hypothesis.settings(deadline=None)
def test_csc_holds_the_edges_in_order(pairs, spare):
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    made = csc.from_edges(source, target, 9 + spare, 6)
    assert made.indptr.dtype == np.int64 and made.indices.dtype == np.uint8
    for node in range(6):
        assert made.indices[made.indptr[node] : made.indptr[node + 1]].tolist() == source[target == node].tolist()
    back = csc.reverse(csc.reverse(made, 9 + spare), 6)
    assert sorted(zip(*csc.edges_of(back))) == sorted(zip(source, target))


@pytest.mark.parametrize("sources,seed", [(200, 0), (300, 1), (70_000, 2)])
def test_many_edges_are_grouped_alike(sources, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 100_000, 50_000) % rng.integers(1, 100_000, 50_000)  # in several ranges, unevenly
    source, weights = rng.integers(0, sources, 50_000), rng.standard_normal(50_000).astype(np.float32)
    plain = csc.from_edges(source, target, sources, 100_001, weights)
    assert plain.indptr[-1] == plain.edges == 50_000
    monkeypatch.setattr(csc, "MANY", 1)
    for given in (weights, None):
        made = csc.from_edges(source, target, sources, 100_001, given)
        expected = plain._replace(weights=plain.weights if given is not None else None)
        assert made.arrays.keys() == expected.arrays.keys()
        for name, array in made.arrays.items():
            assert array.dtype == expected.arrays[name].dtype
            np.testing.assert_array_equal(array, expected.arrays[name])


@pytest.mark.parametrize("ranges,weighted", [(11, True), (1, False), (1, True)])
def test_edges_in_pieces_are_grouped_alike(ranges, weighted, monkeypatch):
    """With few ranges, each has more targets than 16 bits tell apart."""
    monkeypatch.setattr(grouping, "RANGES", ranges)
    rng = np.random.default_rng(ranges)
    sizes, targets = [0, 700, 1, 0, 40_000, 5_000], 200_001
    target = rng.integers(0, targets, sum(sizes)) % rng.integers(1, targets, sum(sizes))
    values = [rng.integers(0, 300, sum(sizes)), rng.standard_normal(sum(sizes)).astype(np.float32)][: 1 + weighted]
    pieces, cuts = Pieces(300, targets, weighted), np.cumsum(sizes)[:-1]
    for end, *has in zip(*(np.split(array, cuts) for array in (target, *values))):
        pieces.add(pieces.spread(has[0], end, *has[1:]))
    made, expected = pieces.csc(), csc.from_edges(values[0], target, 300, targets, *values[1:])
    assert made.arrays.keys() == expected.arrays.keys()
    for name, array in made.arrays.items():
        assert array.dtype == expected.arrays[name].dtype
        np.testing.assert_array_equal(array, expected.arrays[name])


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3).T, np.arange(6, dtype=">i4"), np.empty((0, 3), np.float16), np.array(True)]
)
def test_arrays_are_written_as_numpy_does(array, tmp_path):
    durable.write_array(tmp_path / "ours.npy", array)
    np.save(tmp_path / "numpys.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


@pytest.mark.parametrize(
    ("grouped", "words"),
    [
        (csc.CSC(np.array([0, 1, 2]), np.array([0, 5])), "source of edge 1"),
        (csc.CSC(np.array([0, 1]), np.array([0])), "pointers 0..1 of 2 != 0..1 of 3"),
        (csc.CSC(np.array([0, 1, 2]), np.array([0.0, 1.0])), "indices: float64"),
        (csc.CSC(np.array([0, 1, 2]), np.array([0, 1]), None, True), "loops of a graph"),
        (csc.CSC(np.array([0, 2, 3]), np.array([0, 1]), None, False, csc.Piece(0, 2, "cites")), "a piece of a graph"),
    ],
)
def test_edges_that_are_grouped_already_are_checked(grouped, words):
    schema = Schema({"paper": 2}, (CITES,), "paper", 2)
    made = build(schema, {CITES: csc.CSC(np.array([0, 1, 2], ">i4"), np.array([0, 1]))}, {}, [0, 1], {"train": [0]})
    assert made.relations[CITES].indptr.dtype == np.int64 and made.relations[CITES].indices.dtype == np.uint8
    with pytest.raises(InputError, match=f"relation {CITES}.*{words}"):
        build(schema, {CITES: grouped}, {}, [0, 1], {"train": [0]})


def test_no_piece_is_no_edge():
    made = Pieces(5, 3, False).csc()
    assert made.indptr.tolist() == [0, 0, 0, 0] and not made.edges


@pytest.mark.parametrize("count,dtype", [(0, np.uint8), (256, np.uint8), (257, np.uint16), (65537, np.uint32)])
def test_smallest_index_type(count, dtype):
    assert csc.index_dtype(count) == dtype


def test_graph_is_immutable(graph):
    for array in graph.arrays():
        if array.size:
            with pytest.raises(ValueError, match="read-only"):
                array.flat[0] = 0
    with pytest.raises(TypeError):
        graph.features["paper"] = None
    with pytest.raises(AttributeError):
        graph.labels = None


def parts(**changes):
    """The parts of a graph of 4 papers and 1 author, with changes."""
    given = {
        "schema": Schema({"paper": 4, "author": 1}, (CITES,), "paper", 2),
        "edges": {CITES: (np.array([0, 1]), np.array([1, 3]))},
        "features": {"paper": np.ones((4, 2), np.float32)},
        "labels": np.array([0, 1, 1, -1]),
        "splits": {"train": np.array([0]), "validation": np.array([1]), "test": np.array([2])},
    }
    return given | changes


def with_value(value):
    features = np.ones((4, 2), np.float32)
    features[2, 1] = value
    return {"paper": features}


@pytest.mark.parametrize(
    "changes,message",
    [
        (
            {"edges": {CITES: (np.array([0, 4]), np.array([1, 3]))}},
            "relation paper -cites-> paper: source of edge 1 is node 4, but type 'paper' has 4 nodes",
        ),
        ({"edges": {CITES: (np.array([0, 1]), np.array([-1, 3]))}}, "target of edge 0 is node -1"),
        ({"edges": {CITES: (np.array([0]), np.array([1, 3]))}}, "1 source ids != 2 target ids"),
        (
            {"edges": {Relation("a", "b", "c"): (np.array([0]), np.array([0]))}},
            "a -b-> c, which the schema does not have",
        ),
        ({"edges": {}}, "relation paper -cites-> paper has no edge lists; where there are no edges, give two empty"),
        ({"labels": None}, r"labels of shape \(\), and there should be \[nodes\] or \[nodes, classes\]"),
        ({"features": {"paper": np.ones((3, 2), np.float32)}}, "feature rows 3 != 4 nodes of type 'paper'"),
        ({"features": {"venue": np.ones((3, 2), np.float32)}}, "features of 'venue', which is not among"),
        ({"features": {"paper": np.full((4, 2), "x")}}, "are <U1, and may be float32"),
        ({"features": with_value(np.nan)}, "feature 1 of 'paper' node 2 is nan"),
        ({"features": with_value(-np.inf)}, "feature 1 of 'paper' node 2 is -inf"),
        ({"labels": np.array([0, 1, 2, -1])}, "label 2 of 'paper' node 2 is outside 0..1"),
        ({"labels": np.array([0, 1, 1])}, r"labels of shape \(3,\) != 4 nodes"),
        ({"splits": {"train": np.array([0, 3])}}, "split 'train' has 'paper' node 3, which has no label"),
        (
            {"splits": {"train": np.array([0, 1]), "test": np.array([1])}},
            "'paper' node 1 is in both split 'train' and split 'test'",
        ),
        ({"splits": {"train": np.array([0, 0])}}, "split 'train' has 'paper' node 0 2 times"),
        ({"splits": {"train": np.array([7])}}, "split 'train': entry 0 is node 7"),
        ({"splits": {"valid": np.array([0])}}, "split 'valid', and the splits are train, validation, test"),
        ({"splits": {"train": np.array([True, False, True, False])}}, "split 'train': bool, .* give the ids"),
        ({"labels": np.array([0, 0.7, 1, 1])}, "labels: float64, and there should be integers"),
        ({"labels": np.array(["a", "b", "a", "b"])}, "labels: <U1, and there should be integers"),
        ({"edges": {CITES: (np.array([0, 1.7]), np.array([1, 3]))}}, "-cites-> paper: source ids: float64, and there"),
        ({"edges": {CITES: (np.array([0]),)}}, "-cites-> paper: 1 arrays, and there should be source and target ids"),
    ],
)
def test_building_names_what_is_wrong(changes, message):
    with pytest.raises(InputError, match=message):
        build(**parts(**changes))


SEVERAL = [[1, 0], [1, 1], [0, 0], [-1, -1]]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, ">i2"])
def test_several_labels_a_node(dtype):
    given = np.asfortranarray(SEVERAL, dtype)
    graph = build(**parts(labels=given))
    check(graph)
    assert graph.multilabel and graph.labels.dtype == np.int8 and graph.labels.flags.c_contiguous
    assert graph.labels.tolist() == SEVERAL and not graph.labels.flags.writeable
    assert graph.labelled(np.array([3, 2, 0])).tolist() == [False, True, True]
    assert graph.splits["test"].tolist() == [2]  # whose row is of zeros


def test_several_numbers_a_node():
    given = np.asfortranarray([[1.5, -1], [np.nan, 1], [0, 0], [np.nan, np.nan]])
    graph = build(**parts(labels=given, splits={"train": [0, 1]}))
    check(graph)
    assert graph.numeric and not graph.multilabel and graph.labels.dtype == np.float32
    assert graph.labelled(np.arange(4)).tolist() == [True, True, True, False]
    with pytest.raises(InputError, match="label inf of 'paper' node 0 is no float32"):
        build(**parts(labels=np.where(given == 1.5, np.inf, given), splits={}))
    with pytest.raises(InputError, match=r"numbers of shape \(4, 3\) != \(4, 2\) of 4 nodes of type 'paper'"):
        build(**parts(labels=np.zeros((4, 3)), splits={}))
    with pytest.raises(InputError, match="split 'train' has 'paper' node 3, which has no label"):
        build(**parts(labels=given, splits={"train": [3]}))


def test_labels_of_bool_and_lists():
    everyone = build(**parts(labels=np.array(SEVERAL) == 1, splits={"train": np.array([3, 0, 1, 2])}))
    assert everyone.labels.dtype == np.int8 and everyone.labels.tolist() == [[1, 0], [1, 1], [0, 0], [0, 0]]
    assert np.array_equal(build(**parts(labels=SEVERAL)).labels, build(**parts(labels=np.array(SEVERAL))).labels)
    assert build(**parts(labels=np.array(SEVERAL)[:, 0].astype(bool))).labels.tolist() == [1, 1, 0, 1]
    nobody = Schema({"paper": 0, "author": 1}, (), "paper", 2)
    graph = build(nobody, {}, {}, np.zeros((0, 2), bool), {})
    assert graph.multilabel and graph.labels.shape == (0, 2) and not len(graph.labelled(graph.splits["train"]))


def test_one_label_a_node():
    graph = build(**parts())
    assert not graph.multilabel and graph.labels.dtype == np.int32 and graph.labels.tolist() == [0, 1, 1, -1]
    assert graph.labelled(np.array([3, 2])).tolist() == [False, True]


def labels_with(row, column, value, dtype=np.int64):
    labels = np.array(SEVERAL, dtype)
    labels[row, column] = value
    return labels


@pytest.mark.parametrize(
    "labels,message",
    [
        (
            labels_with(1, 1, 2),
            "^graph: label 2 of 'paper' node 1 for class 1 is neither 0 nor 1, nor is its row -1 throughout$",
        ),
        (labels_with(0, 1, 256), "label 256 of 'paper' node 0 for class 1"),  # 0 in eight bits
        (labels_with(0, 1, 2**32), "label 4294967296 of 'paper' node 0 for class 1"),
        (labels_with(2, 0, -2, np.int8), "label -2 of 'paper' node 2 for class 0"),
        (labels_with(2, 1, -1), "label -1 of 'paper' node 2 for class 1"),
        (labels_with(3, 0, 1), "label -1 of 'paper' node 3 for class 1"),
        (np.array([[1, 0], [0, 1], [0, 0], [255, 255]], np.uint8), "label 255 of 'paper' node 3 for class 0"),
        (np.array(SEVERAL)[:3], r"labels of shape \(3, 2\) != 4 nodes of type 'paper' and 2 classes"),
        (np.zeros((4, 3), np.int8), r"labels of shape \(4, 3\) != 4 nodes of type 'paper' and 2 classes"),
        (np.zeros((4, 1), np.int8), r"labels of shape \(4, 1\) != 4 nodes"),
        (np.zeros((4, 2, 1), np.int8), r"labels of shape \(4, 2, 1\), and there should be"),
        (labels_with(1, slice(None), -1), "split 'validation' has 'paper' node 1, which has no label"),
    ],
)
def test_building_names_what_is_wrong_with_several_labels(labels, message):
    with pytest.raises(InputError, match=message):
        build(**parts(labels=labels))


def test_a_wrong_label_far_down_is_named():
    nodes, classes = 70, 2**20  # checked 16 rows at a time
    labels = np.zeros((nodes, classes), np.int8)
    labels[37, 5] = 3
    graph = build(Schema({"paper": nodes}, (), "paper", 1), {}, {}, np.zeros(nodes, int), {})
    graph = dataclasses.replace(graph, schema=Schema({"paper": nodes}, (), "paper", classes), labels=labels)
    with pytest.raises(InputError, match="label 3 of 'paper' node 37 for class 5 "):
        hetgraph.check_labels(graph)


@pytest.mark.parametrize(
    "arguments,message",
    [
        (({"a": 1}, (Relation("a", "r", "b"),), "a", 2), "no node type 'b'"),
        (({"a": 1}, (Relation("a", "r", "a"),) * 2, "a", 2), "given 2 times"),
        (({"a": 1}, (), "b", 2), "target type 'b'"),
        (({"a": -1}, (), "a", 2), "-1 nodes"),
        (({"a": 2**31}, (), "a", 2), "2147483648 nodes"),
        (({"a": 1}, (), "a", 0), "0 classes"),
        (({"a\ud800": 1}, (), "a\ud800", 2), r"the name 'a\\ud800' has '\\ud800' as character 1"),
        (({"a\nb": 1}, (), "a\nb", 2), r"the name 'a\\nb' has '\\n' as character 1"),
        (({"a": 1}, (Relation("a", "\0", "a"),), "a", 2), r"has '\\x00' as character 0"),
        (({"a" * 10_000: 1}, (), "a", 2), "the name 'aaa.*aaa' has 10,000 characters != at most 200"),
        (({"a": 1}, (Relation("a", "r" * 201, "a"),), "a", 2), "has 201 characters != at most 200"),
        (({"é" * 40: 1}, (), "a", 2), "has 240 characters != at most 200, each counted as a URL spells it"),
        (({f"a{n}": 1 for n in range(10_000)}, (), "b", 2), r"target type 'b' .*'a0', 'a1', .*\.\.\.\]"),
        (({"a": 1, "b": 1}, tuple(Relation("a", f"r{n}", "b") for n in range(30_000)), "c", 2), "target type 'c'"),
    ],
)
def test_schema_names_what_is_wrong(arguments, message):
    with pytest.raises(InputError, match=message):
        Schema(*arguments)


def test_ids_in_any_order_of_bytes_and_none_beyond_32_bits():
    cites, schema = (
        Relation("paper", "cites", "paper"),
        Schema({"paper": 3}, (Relation("paper", "cites", "paper"),), "paper", 2),
    )

    def built(source=(0, 1), labels=(0, 1, 1), train=(0,)):
        ids = np.array(source, ">i8"), np.array([1, 2], ">i4")
        return build(schema, {cites: ids}, {}, np.array(labels), {"train": np.array(train)})

    assert built().relations[cites].indices.tolist() == [0, 1]
    with pytest.raises(InputError, match="label 4294967296 of 'paper' node 0 is outside 0..1"):
        built(labels=(2**32, 0, 0))
    with pytest.raises(InputError, match="split 'train': entry 1 is node 4294967296, but type 'paper' has 3 nodes"):
        built(train=(0, 2**32))
    with pytest.raises(InputError, match=r"split 'train': ids of shape \(1, 1\), and there should be \(ids,\)"):
        built(train=((0,),))


def test_store_round_trip(graph, tmp_path):
    store.save(graph, tmp_path / "store")
    opened = store.open(tmp_path / "store")
    check(opened)
    assert opened.schema == graph.schema
    for one, other in zip(graph.arrays(), opened.arrays(), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
        assert isinstance(other, np.memmap) or not other.size
    assert json.loads((tmp_path / "store" / "schema.json").read_text())["version"] == store.VERSION
    with pytest.raises(InputError, match="exists already"):
        store.save(graph, tmp_path / "store")


@pytest.fixture
def several(graph):
    """The graph with up to 3 labels a node; where it had none, there is none."""
    labels = np.random.default_rng(5).integers(0, 2, (len(graph.labels), 3)).astype(np.int8)
    labels[graph.labels == -1] = -1
    return dataclasses.replace(graph, labels=labels)


def test_store_round_trip_with_several_labels(graph, several, tmp_path):
    store.save(several, tmp_path / "store")
    opened = store.open(tmp_path / "store")
    check(opened)
    assert opened.multilabel and isinstance(opened.labels, np.memmap) and opened.labels.dtype == np.int8
    assert opened.schema == several.schema and opened.labels.shape == (40, 3)
    for one, other in zip(several.arrays(), opened.arrays(), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    assert (opened.labels == -1).all(axis=1).sum() == 2
    store.save(graph, tmp_path / "single")
    said = [json.loads((tmp_path / name / "schema.json").read_text()) for name in ("store", "single")]
    assert [about["labels"] for about in said] == ["many", "one"] and said[0] | said[1] == said[1]
    assert said[0]["version"] == 1


def say(folder, **changes):
    """Change what the schema of a store says; None takes a key away."""
    file = folder / "schema.json"
    said = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in said.items() if value is not None}))


def test_a_store_that_does_not_say_has_one_label_a_node(graph, several, tmp_path):
    store.save(graph, tmp_path / "old")
    say(tmp_path / "old", labels=None)
    opened = store.open(tmp_path / "old")
    assert not opened.multilabel and np.array_equal(opened.labels, graph.labels)
    store.save(several, tmp_path / "new")
    say(tmp_path / "new", labels=None)
    with pytest.raises(InputError, match=r"labels.npy: labels: int8 \(40, 3\) != int32 \(40,\) of the schema"):
        store.open(tmp_path / "new")


@pytest.mark.parametrize(
    "form,message",
    [
        ("several", "schema.json: labels 'several', and a node may have 'one', 'many', 'number'"),
        (["many"], r"schema.json: labels \['many'\], and"),
        (True, "schema.json: labels True, and"),
        ("many", r"labels.npy: labels: int32 \(40,\) != int8 \(40, 3\) of the schema"),
    ],
)
def test_opening_names_a_wrong_form_of_labels(graph, tmp_path, form, message):
    store.save(graph, tmp_path / "store")
    say(tmp_path / "store", labels=form)
    with pytest.raises(InputError, match=message):
        store.open(tmp_path / "store")


@pytest.mark.parametrize(
    "labels,message",
    [
        (np.zeros((40, 4), np.int8), r"labels: int8 \(40, 4\) != int8 \(40, 3\)"),
        (np.zeros((39, 3), np.int8), r"labels: int8 \(39, 3\) != int8 \(40, 3\)"),
        (np.zeros((40, 3), np.int32), r"labels: int32 \(40, 3\) != int8 \(40, 3\)"),
        (np.zeros(40, np.int8), r"labels: int8 \(40,\) != int8 \(40, 3\)"),
    ],
)
def test_labels_of_another_shape_are_named(several, tmp_path, labels, message):
    store.save(several, tmp_path / "store")
    np.save(tmp_path / "store" / "labels.npy", labels)
    with pytest.raises(InputError, match=message):
        store.open(tmp_path / "store")


def test_checking_a_store_names_a_wrong_label(several, tmp_path):
    store.save(several, tmp_path / "store")
    labels = several.labels.copy()
    labels[31, 2] = 7
    np.save(tmp_path / "store" / "labels.npy", labels)
    with pytest.raises(InputError, match="^here: label 7 of 'paper' node 31 for class 2 is neither 0 nor 1"):
        hetgraph.check_labels(store.open(tmp_path / "store"), "here")


def test_opening_reads_no_rows(tmp_path):
    """A store whose feature file is 4 TiB of nothing opens at once."""
    graph = random_graph()
    store.save(graph, tmp_path / "store")
    width = 2**40 // graph.schema.nodes["paper"]
    file = tmp_path / "store" / "features_0.npy"
    np.lib.format.open_memmap(file, "w+", np.float32, (1, 1))
    with open(file, "wb") as stream:
        shape = (graph.schema.nodes["paper"], width)
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
        stream.truncate(stream.tell() + 4 * shape[0] * shape[1])
    description = tmp_path / "store" / "schema.json"
    described = json.loads(description.read_text())
    described["nodes"][0]["features"]["width"] = width
    description.write_text(json.dumps(described))
    assert store.open(tmp_path / "store").features["paper"].nbytes > 4 * 10**12


def header(words: str) -> bytes:
    """A `.npy` file that ends with its header."""
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words.encode()


@pytest.mark.parametrize(
    "file,content,message",
    [
        ("schema.json", None, "schema.json: No such file"),
        ("schema.json", b"{", "schema.json: JSONDecodeError: Expecting"),
        ("schema.json", b"[]", "format None version None"),
        (
            "schema.json",
            b'{"format": "hetjax-store", "version": 99}',
            "version 99, and this hetjax reads 'hetjax-store' version 1",
        ),
        ("schema.json", b'{"format": "hetjax-store", "version": 1}', "schema.json: lacks 'nodes'"),
        ("labels.npy", None, "labels.npy: No such file"),
        ("labels.npy", b"garbage", "labels.npy: 7 bytes that are no .npy file"),
        ("labels.npy", b"", "labels.npy: 0 bytes that are no .npy file"),
        ("relation_0.indices.npy", b"\x93NUMPY\x01\x00", "relation_0.indices.npy: "),
        ("schema.json", b"[" * 100_000, "schema.json: RecursionError"),
        ("schema.json", b"\xff\xfe", "schema.json: UnicodeDecodeError"),
        ("schema.json", b'{"format": 1' + b"0" * 5000 + b"}", "schema.json: ValueError: Exceeds the limit"),
        ("labels.npy", header("(((("), "labels.npy: TokenError"),
        ("labels.npy", header("(" * 9000), r"labels.npy: \w*Error"),
        ("labels.npy", header("-" * 9000 + "1"), r"labels.npy: \w*Error"),
        ("labels.npy", header(f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({10**4000},)}}"), "labels.npy: "),
        (
            "labels.npy",
            header("{'descr': '<i4', 'fortran_order': False, 'shape': (-2, -3)}") + bytes(24),
            "labels.npy: ",
        ),
        ("labels.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 99, "labels.npy: ValueError: EOF"),
    ],
)
def test_opening_names_what_is_wrong(graph, tmp_path, file, content, message):
    store.save(graph, tmp_path / "store")
    (tmp_path / "store" / file).unlink()
    if content is not None:
        (tmp_path / "store" / file).write_bytes(content)
    with pytest.raises(InputError, match=message):
        store.open(tmp_path / "store")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"files": 5}, "schema.json: files is 5, and should be a list of names"),
        ({"files": ["labels", 3]}, "schema.json: files is .*, and should be a list of names"),
        ({"nodes": 5}, "schema.json: TypeError"),
        ({"nodes": [[]]}, "schema.json: TypeError"),
        ({"relations": {}, "nodes": {"a": 1}}, "schema.json: TypeError"),
        ({"target": ["paper"]}, r"schema.json: the name \['paper'\] is list"),
        ({"classes": 10**4000}, "schema.json: .*classes, outside"),
        (
            {"relations": [{"source": "paper", "name": "x", "target": "paper", "edges": 10**400}]},
            "edges, outside 0..2814",
        ),
        ({"labels": {}}, "schema.json: labels {}, and a node"),
    ],
)
def test_a_description_of_another_shape_is_refused(stored, tmp_path, change, message):
    path = shutil.copytree(stored, tmp_path / "store")
    about = json.loads((path / "schema.json").read_text())
    (path / "schema.json").write_text(json.dumps(about | change))
    with pytest.raises(InputError, match=message) as refused:
        store.open(path)
    assert len(str(refused.value)) < 5000 and "\n" not in str(refused.value)


@pytest.mark.parametrize("told", [5, [], {"labels": "x"}, {"labels": -1}, {"labels": 2**32}, {"labels": True}])
def test_checksums_that_are_none_are_refused(stored, tmp_path, told):
    path = shutil.copytree(stored, tmp_path / "store")
    about = json.loads((path / "schema.json").read_text())
    (path / "schema.json").write_text(json.dumps(about | {"contents": told}))
    with pytest.raises(InputError, match="schema.json: contents is .*, and should be a CRC-32 per array"):
        store.contents(path)


@pytest.mark.parametrize("file", ["schema.json", "labels.npy"])
def test_what_is_no_regular_file_is_not_waited_for(stored, tmp_path, file):
    path = shutil.copytree(stored, tmp_path / "store")
    (path / file).unlink()
    os.mkfifo(path / file)
    with pytest.raises(InputError, match=f"{file}: is no regular file"):
        store.open(path)


def test_features_in_another_order_of_bytes_are_refused(stored, tmp_path):
    path = shutil.copytree(stored, tmp_path / "store")
    matrix = np.load(path / "features_0.npy")
    np.save(path / "features_0.npy", matrix.astype(">f4"))
    with pytest.raises(InputError, match="features_0.npy: features .*'>f4'"):
        store.open(path)


@pytest.mark.parametrize("change", [-8, 8])
def test_a_file_of_another_size_is_refused(graph, tmp_path, change):
    store.save(graph, tmp_path / "store")
    file = tmp_path / "store" / "features_0.npy"
    size = file.stat().st_size
    with open(file, "r+b") as stream:
        stream.truncate(size + change)
    with pytest.raises(InputError, match=f"features_0.npy: {size + change} bytes != {size} that its header says"):
        store.open(tmp_path / "store")


def test_a_pickle_is_refused(graph, tmp_path):
    store.save(graph, tmp_path / "store")
    np.save(tmp_path / "store" / "labels.npy", np.array([{}] * 40), allow_pickle=True)
    with pytest.raises(InputError, match=r"labels.npy: pickled objects, and there should be numbers"):
        store.open(tmp_path / "store")


@pytest.mark.parametrize(
    "file,array,message",
    [
        ("features_0.npy", np.ones((3, 7), np.float32), "feature rows 3 != 40 nodes of type 'paper'"),
        ("features_0.npy", np.ones((40, 8), np.float32), "'width': 8"),
        ("labels.npy", np.zeros(3, np.int32), r"labels: int32 \(3,\) != int32 \(40,\)"),
        ("labels.npy", np.zeros(40), r"labels: float64 \(40,\) != int32 \(40,\)"),
        ("split_test.npy", np.zeros((2, 2), np.int32), r"split 'test': int32 \(2, 2\) != int32 \(any,\)"),
        ("features_0.npy", np.float32(3), "feature rows 0 != 40"),
        ("relation_0.indptr.npy", np.zeros(41, np.uint64), r"uint64 \(41,\) != int64 \(41,\)"),
        ("relation_0.indices.npy", np.zeros(155, np.float32), "float32"),
        ("relation_0.indptr.npy", np.zeros(3, np.int64), r"int64 \(3,\) != int64 \(41,\)"),
    ],
)
def test_a_file_of_another_shape_is_named(graph, tmp_path, file, array, message):
    store.save(graph, tmp_path / "store")
    np.save(tmp_path / "store" / file, array)
    with pytest.raises(InputError, match=message):
        store.open(tmp_path / "store")


def test_checking_a_store_names_a_wrong_id(graph, tmp_path):
    store.save(graph, tmp_path / "store")
    file = tmp_path / "store" / "relation_2.indices.npy"
    indices = np.load(file)
    indices[7] = 25
    np.save(file, indices)
    with pytest.raises(
        InputError, match="author -writes-> paper: source of edge 7 is node 25, but type 'author' has 25 nodes"
    ):
        check(store.open(tmp_path / "store"))


def test_a_header_that_python_would_warn_of_is_one_line(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, np.arange(25))
    file.write_bytes(file.read_bytes().replace(b"(25,)", b"(2if5,)").replace(b"  \n", b"\n", 1))
    with warnings.catch_warnings(record=True) as said, pytest.raises(InputError, match="a.npy: "):
        warnings.simplefilter("always")
        store.load_array(file)
    assert not said
