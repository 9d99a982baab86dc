"""Graphs of one kind of node and edge: every layout of a `.npz`, folders with a list of edges, and splits."""

import gzip
import zipfile

import numpy as np
import pytest

from hetjax import convert
from hetjax.casts.narrow import narrowest
from hetjax.datasets import edge_text, edges, npz, packed
from hetjax.datasets.homogeneous import EDGE, Edges, Options, undirected
from hetjax.datasets.load import load
from hetjax.datasets.splits import Split, divide
from hetjax.graph import store
from hetjax.graph.csc import edges_of
from hetjax.options import owners
from hetjax.options.command_line import run_command
from hetjax.options.config import Data
from hetjax.system.errors import InputError
from tests.support.homogeneous_files import (
    CSR,
    FEATURES,
    LABELS,
    LAYOUTS,
    MASKS,
    PATH,
    PLANETOID,
    PLATONOV,
    SHCHUR,
    folder_of,
)

RANDOM = Options(split=Split("random"))
AS_WRITTEN = Options(undirected=False)


def saved(folder, arrays, **changes):
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    np.savez_compressed(folder / "graph.npz", **arrays)
    return folder / "graph.npz"


def neighbours(graph):
    source, target = edges_of(graph.relations[EDGE])
    return sorted(zip(source.tolist(), target.tolist()))


BOTH_WAYS = sorted([(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (1, 4), (4, 1)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_the_same_graph(tmp_path, layout):
    saved(tmp_path, LAYOUTS[layout])
    graph = npz.read(tmp_path, RANDOM)
    assert dict(graph.schema.nodes) == {"node": 5} and graph.schema.relations == (EDGE,)
    assert graph.schema.target == "node" and graph.schema.classes == 2
    assert neighbours(graph) == BOTH_WAYS
    assert graph.features["node"].dtype == np.uint8 and graph.features["node"].tolist() == FEATURES.tolist()
    assert graph.labels[:4].tolist() == [0, 1, 0, 1]
    assert sum(map(len, graph.splits.values())) == (graph.labels >= 0).sum()


def test_planetoid_by_hand(tmp_path):
    graph = npz.read(saved(tmp_path, PLANETOID))
    assert {name: ids.tolist() for name, ids in graph.splits.items()} == {
        "train": [0, 1],
        "validation": [3],
        "test": [2],
    }
    assert graph.relations[EDGE].weights is None and graph.labels.tolist() == LABELS.tolist()
    some = {
        "feat_indptr": np.array([0, 2, 3]),
        "feat_indices": np.array([2, 0, 1]),
        "feat_data": np.array([0.1, -1, 0.5]),
    }
    some |= {"feat_rows": np.array([3, 1]), "feat_shape": np.array([2, 4])}
    found = npz.read(saved(tmp_path, PLANETOID | some)).features["node"]
    assert found.dtype == np.float32 and found.shape == (5, 4) and not found[[0, 2, 4]].any()
    assert found[3].tolist() == np.float32([-1, 0, 0.1, 0]).tolist() and found[1].tolist() == [0, 0.5, 0, 0]


def test_shchur_by_hand(tmp_path):
    file = saved(tmp_path, SHCHUR)
    graph = npz.read(file, Options(undirected=False, split=Split("random")))
    assert neighbours(graph) == BOTH_WAYS
    source, target = edges_of(graph.relations[EDGE])
    rows = np.repeat(np.arange(5), np.diff(PATH["indptr"]))
    given = {(a, b): w for a, b, w in zip(rows, PATH["indices"], range(8))}
    assert graph.relations[EDGE].weights.tolist() == [given[pair] for pair in zip(source.tolist(), target.tolist())]
    assert npz.read(file, Options(edge_weights=False, split=Split("random"))).relations[EDGE].weights is None
    ones = saved(tmp_path, SHCHUR, adj_data=np.ones(8))
    assert npz.read(ones, RANDOM).relations[EDGE].weights is None
    dense = {f"attr_{name}": None for name in CSR} | {"attr_matrix": FEATURES}
    assert npz.read(saved(tmp_path, SHCHUR, **dense), RANDOM).features["node"].tolist() == FEATURES.tolist()
    with pytest.raises(
        InputError, match="graph.npz: holds no split, which --npz.split public takes; give --npz.split random"
    ):
        npz.read(file)


def test_platonov_by_hand(tmp_path):
    file = saved(tmp_path, PLATONOV)
    first, second = (npz.read(file, Options(split=Split(number=number))).splits for number in (0, 1))
    assert {name: ids.tolist() for name, ids in first.items()} == {"train": [0], "validation": [1], "test": [2, 3]}
    assert {name: ids.tolist() for name, ids in second.items()} == {"train": [4], "validation": [3], "test": [1, 2]}
    with pytest.raises(InputError, match="graph.npz: npz.split_number 2, and there are 2 splits, 0 the first"):
        npz.read(file, Options(split=Split(number=2)))
    assert neighbours(npz.read(file, AS_WRITTEN)) == [(0, 1), (1, 4), (2, 1), (2, 3)]
    single = {f"{name}_mask": mask for name, mask in zip(("train", "val", "test"), MASKS)}
    single |= {f"{name}_masks": None for name in ("train", "val", "test")}
    assert npz.read(saved(tmp_path, PLATONOV, **single)).splits["test"].tolist() == [2, 3]


def test_without_features_a_model_learns_them(tmp_path):
    bare = {name: array for name, array in PLANETOID.items() if not name.startswith("feat_")}
    assert not npz.read(saved(tmp_path, bare)).features


def test_a_row_divided_by_its_sum(tmp_path):
    found = npz.read(saved(tmp_path, PLANETOID), Options(normalize_features="row")).features["node"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.float32([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0], [0.8, 0, 0.2]]))
    wide = np.random.default_rng(0).integers(0, 9, (1000, 7000))
    (tmp_path / "wide").mkdir()
    folder_of(tmp_path / "wide", labels=np.arange(1000) % 2, features=wide)
    found = edges.read(tmp_path / "wide", Options(normalize_features="row", split=Split("random"))).features["node"]
    np.testing.assert_allclose(found, wide / wide.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, 1, 255], "uint8"),
        ([-1, 127], "int8"),
        ([0, 256], "uint16"),
        ([-1, 128], "int16"),
        ([0.5, -2], "float16"),
        ([0.1], "float32"),
        ([2**17 + 1], "float32"),
        ([1e300], "float32"),
        ([np.nan], "float32"),
        ([-(2.0**63)], "float32"),
        ([], "uint8"),
        ([True], "uint8"),
    ],
)
def test_the_smallest_type_that_is_exact(values, dtype):
    assert narrowest(np.array(values)) == dtype
    assert narrowest(np.array([values, values])) == dtype


def test_what_is_small_already_is_not_copied(tmp_path):
    folder_of(tmp_path, features=FEATURES.astype(np.int8))
    assert isinstance(edges.read(tmp_path).features["node"], np.memmap)


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        ("planetoid", {"indices": None}, ": lacks the array indices, and has indptr"),
        (
            "planetoid",
            {"indptr": None, "indices": None},
            ": no array of edges: adj_indptr or indptr or edges; it holds feat_",
        ),
        ("planetoid", {"labels": None}, ": no array of labels: labels or node_labels; it holds "),
        ("planetoid", {"node_labels": LABELS}, ": holds labels and node_labels, and should hold one kind of labels"),
        ("planetoid", {"val_idx": None}, ": lacks the array val_idx, and has train_idx"),
        ("planetoid", {"labels": np.array([None] * 5)}, ": labels: pickled objects, and there should be numbers"),
        (
            "planetoid",
            {"labels": LABELS + 0.5},
            r": labels: -?[0-9].5 of node 0 is no class: classes are whole numbers or texts",
        ),
        ("planetoid", {"labels": LABELS - 1}, ": labels: -2 of node 4: class numbers are 0 or more, or -1"),
        ("planetoid", {"labels": np.full(5, -1)}, ": 5 nodes, and none has a label"),
        ("planetoid", {"labels": LABELS[:4]}, r": indptr: int64 \(6,\), and should be integers \(5\)"),
        (
            "planetoid",
            {"labels": LABELS.astype(np.int64) + 2**40},
            ": labels: 1099511627776 of node 0: class numbers are 0 or more",
        ),
        ("planetoid", {"indptr": PATH["indptr"] + 1}, r": indptr: pointers 1..9 != 0..8 of indices"),
        ("planetoid", {"indptr": np.array([0, 4, 1, 6, 7, 8])}, ": indptr: pointer 2 is 1, below 4 before it"),
        ("planetoid", {"indptr": PATH["indptr"][None]}, r": indptr: int64 \(1, 6\), and should be integers \(6\)"),
        ("planetoid", {"indices": np.full(8, 5)}, ": target of edge 0 is node 5, but type 'node' has 5 nodes"),
        ("planetoid", {"indices": np.full(8, -1)}, ": target of edge 0 is node -1, but"),
        (
            "planetoid",
            {"feat_shape": np.array([4, 3])},
            ": feat_shape: 4 rows of width 3 != 5 nodes of width 1 or more",
        ),
        ("planetoid", {"feat_shape": np.array([5, 2])}, ": feat_indices: entry 2 is column 2, and there are 2"),
        ("planetoid", {"feat_shape": np.array([5, 0])}, ": feat_shape: 5 rows of width 0 != "),
        ("planetoid", {"feat_shape": np.array([5, 2**40])}, ": unpacks to 21990232555520 bytes, over the"),
        (
            "planetoid",
            {"feat_shape": np.array([5.0, 3])},
            r": feat_shape: float64 \(2,\), and should be integers \(2\)",
        ),
        (
            "planetoid",
            {"feat_rows": np.array([0, 1, 2, 3, 3])},
            ": feat_shape: 5 rows of width 3 != 4 nodes of width 1",
        ),
        ("planetoid", {"feat_rows": np.array([0, 1, 2, 3, 9])}, ": feat_rows: entry 4 is node 9, but"),
        ("planetoid", {"feat_indices": np.array([1, 0, 2, 2, 2])}, ": feat_indices: a row has a column twice"),
        (
            "planetoid",
            {"feat_data": np.array([2, 1, np.inf, 4, 1])},
            ": feature 2 of 'node' node 2 is inf, not a finite",
        ),
        (
            "planetoid",
            {"feat_data": np.array([2, 1, 1e200, 4, 1])},
            ": feature 2 of 'node' node 2 is inf, not a finite",
        ),
        ("planetoid", {"feat_data": np.ones(4)}, r": feat_data: float64 \(4,\), and should be numbers \(5\)"),
        (
            "planetoid",
            {"attr_matrix": FEATURES},
            ": holds feat_indptr and attr_matrix, and should hold one kind of features",
        ),
        ("planetoid", {"train_idx": np.array([0, 4])}, "split 'train' has 'node' node 4, which has no label"),
        ("planetoid", {"train_idx": np.array([0, 3])}, "node 3 is in both split 'train' and split 'validation'"),
        ("planetoid", {"train_idx": np.array([2**32])}, "split 'train': entry 0 is node 4294967296, but"),
        ("planetoid", {"train_idx": np.array([0, 0])}, "split 'train' has 'node' node 0 2 times"),
        (
            "planetoid",
            {"train_idx": np.ones((2, 3), int)},
            r": train_idx: int64 \(2, 3\), and should be ids, or bool \(5,\)",
        ),
        ("shchur", {"adj_shape": np.array([5, 6])}, r": adj_shape: \[5 6\] != 5 nodes twice"),
        ("shchur", {"adj_data": np.ones(7)}, r": adj_data: float64 \(7,\), and should be numbers \(8\)"),
        ("shchur", {"adj_data": np.full(8, np.nan)}, ": weights: the value of edge 0 is missing"),
        ("shchur", {"adj_data": np.array(["a"] * 8)}, r": adj_data: <U1 \(8,\), and should be numbers \(8\)"),
        ("platonov", {"edges": PLATONOV["edges"].T}, r": edges: int64 \(2, 4\), and should be integers \(edges, 2\)"),
        ("platonov", {"edges": PLATONOV["edges"] * 1.0}, ": edges: float64"),
        (
            "platonov",
            {"node_features": FEATURES[:3]},
            r": node_features: int64 \(3, 3\), and should be numbers \(5, width\)",
        ),
        ("platonov", {"node_features": np.ones((5, 0))}, r"features of type 'node' have shape \(5, 0\)"),
        (
            "platonov",
            {"test_masks": MASKS[:, :4]},
            r": test_masks: bool \(3, 4\), and should be ids, or bool \(5,\) or",
        ),
        ("platonov", {"test_masks": MASKS[:1]}, ": test_masks: 1 splits != 2 of .*: train_masks"),
    ],
)
def test_npz_names_what_is_wrong(tmp_path, layout, changes, message):
    options = RANDOM if layout == "shchur" else Options()
    with pytest.raises(InputError, match=f"graph.npz(: .*)?{message}") as error:
        npz.read(saved(tmp_path, LAYOUTS[layout], **changes), options)
    assert "\n" not in str(error.value)


def test_npz_files_that_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="0 files end in .npz, and there should be 1"):
        npz.read(tmp_path)
    (tmp_path / "graph.npz").write_bytes(b"PK no")
    with pytest.raises(InputError, match="graph.npz: [0-9]+ bytes that are no .npz file, which is a zip"):
        npz.read(tmp_path)
    whole = saved(tmp_path, PLANETOID).read_bytes()
    (tmp_path / "graph.npz").write_bytes(whole[:60] + bytes(20) + whole[80:])
    with pytest.raises(InputError, match="graph.npz: "):
        npz.read(tmp_path)
    with zipfile.ZipFile(tmp_path / "graph.npz", "w") as archive:
        archive.writestr(
            "labels.npy",
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (1000000,), }".ljust(128),
        )
    with pytest.raises(InputError, match="graph.npz: labels: 128 bytes != 8000128 that its header says"):
        npz.read(tmp_path)
    monkeypatch.setattr(packed, "ALWAYS", 10**5)
    saved(tmp_path, PLANETOID, class_names=np.zeros(10**7, np.int8))
    with pytest.raises(
        InputError, match="graph.npz: .*unpacks from [0-9]+ bytes to [0-9]+ or more, over 500 times as many"
    ):
        npz.read(tmp_path)
    saved(tmp_path, PLANETOID)
    (tmp_path / "other.npz").write_bytes(b"")
    with pytest.raises(InputError, match="2 files end in .npz"):
        npz.read(tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_npz_has_every_array_once(tmp_path):
    with zipfile.ZipFile(saved(tmp_path, PLANETOID), "a") as archive:
        archive.writestr("labels.npy", b"")
    with pytest.raises(InputError, match="graph.npz: 2 arrays are named labels.npy"):
        npz.read(tmp_path)


def test_arrays_of_any_order(tmp_path):
    changes = {"node_features": np.asfortranarray(FEATURES.astype(">f8")), "edges": PLATONOV["edges"].astype(">u4")}
    graph = npz.read(saved(tmp_path, PLATONOV, **changes))
    assert neighbours(graph) == BOTH_WAYS and graph.features["node"].tolist() == FEATURES.tolist()


def test_undirected_keeps_the_first_weight():
    found = undirected(Edges(np.array([0, 1, 0, 2, 2]), np.array([1, 0, 1, 0, 2]), np.array([5, 6, 7, 8, 9])), 3)
    assert list(zip(*(part.tolist() for part in found))) == [(1, 0, 6), (2, 0, 8), (0, 1, 5), (0, 2, 8), (2, 2, 9)]
    none = undirected(Edges(np.empty(0, int), np.empty(0, int), np.empty(0)), 3)
    assert [len(part) for part in none] == [0, 0, 0]


SNAP = "# Directed graph (each unordered pair of nodes is saved once): web-Google.txt \r\n# FromNodeId\tToNodeId\r\n0\t1\r\n2\t1\r\n"
PAIRS = [(0, 1), (2, 1)]


@pytest.mark.parametrize(
    "text",
    ["0 1\n2 1\n", "0 1\n2 1", SNAP, "% x\n\n \t\n 0  1 \n2,1\n#", "0 ,\t1\n2\t 1\t\n", "00,01\r\n2, 1\r\n\r\n"],
)
def test_edges_in_text(tmp_path, text):
    assert neighbours(edges.read(folder_of(tmp_path, text), AS_WRITTEN)) == PAIRS


@pytest.mark.parametrize("name", ["edges.txt", "edges.csv", "edges.txt.gz", "edges.csv.gz", "edges.npy"])
def test_every_list_of_edges_is_the_same(tmp_path, name):
    folder_of(tmp_path, None)
    weights, given = [0.5, 3], np.array(PAIRS)
    text = "".join(f"{a},{b},{w}\n" for (a, b), w in zip(PAIRS, weights)).encode()
    if name == "edges.npy":
        np.save(tmp_path / name, np.column_stack([given, weights]))
    else:
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    graph = edges.read(tmp_path)
    assert neighbours(graph) == [(0, 1), (1, 0), (1, 2), (2, 1)] and not graph.features
    assert graph.relations[EDGE].weights.tolist() == [0.5, 0.5, 3, 3]
    assert neighbours(edges.read(tmp_path, Options(undirected=False, edge_weights=False))) == PAIRS
    assert {name: ids.tolist() for name, ids in graph.splits.items()} == {"train": [0, 1], "validation": [], "test": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n# x\n0 x\n", "line 3: '0 x', and should be SOURCE TARGET or SOURCE TARGET WEIGHT"),
        ("source,target\n0,1\n", "line 1: 'source,target', and should be .*; other lines begin with # or %"),
        ("0\n", "line 1: '0', and"),
        ("0 1 2 3\n", "line 1: '0 1 2 3', and"),
        ("0,,1\n", "line 1: '0,,1', and"),
        (",0,1\n", "line 1: ',0,1', and"),
        ("0,1,\n", "line 1: '0,1,', and"),
        ("0 1 2,\n", "line 1: '0 1 2,', and"),
        ("0;1\n", "line 1: '0;1', and"),
        ("-1 0\n", "line 1: '-1 0', and"),
        ("1.0 0\n", "line 1: '1.0 0', and"),
        ("0 1 nan\n", "line 1: '0 1 nan', and"),
        ("0 1 1e\n", "line 1: '0 1 1e', and"),
        ("0 1 .\n", "line 1: '0 1 .', and"),
        ("0 1 0x1\n", "line 1: '0 1 0x1', and"),
        ("0 1 1_0\n", "line 1: '0 1 1_0', and"),
        ("0 1 1\n0 1 1e39\n", "line 2: weight 1e\\+39 is not a finite number of 32 bits"),
        ("\n\n0 1 -1e400\n", "line 3: weight -inf is not a finite number"),
        ("0 1\n1 2\n0 1 1.5\n", "line 3: 3 columns != 2 of the lines before"),
        ("0 1 1\n\n1 2\n", "line 3: 2 columns != 3 of the lines before"),
        ("0 1\n0 5\n", "line 2: node 5, and there are 5"),
        ("0 1\n7 0", "line 2: node 7, and there are 5"),
        (f"0 {'9' * 400}\n", "line 1: node 9{40}, and there are 5"),
        ("0 ١\n", "line 1: '0 ١', and"),
        (b"0 \xff\n", r"line 1: '0 \\\\xff', and"),
        ("0 1\0\n", r"line 1: '0 1\\x00', and"),
        ("0 1" + " " * 2**24 + "\n", "line 1: 16777216 bytes or more"),
    ],
)
def test_a_line_that_is_no_edge_is_named(tmp_path, text, message):
    with pytest.raises(InputError, match=f"edges.txt: {message}") as error:
        edges.read(folder_of(tmp_path, text))
    assert len(str(error.value)) < 500


def test_lines_are_counted_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("hetjax.datasets.text.AT_ONCE", 16)
    lines = [f"{n % 5} {n * 7 % 5} {n}" for n in range(50)]
    found = edge_text.read(folder_of(tmp_path, "\n".join(["#" * 40, *lines])) / "edges.txt", 5)
    assert found.weights.tolist() == list(range(50)) and found.source.tolist() == [n % 5 for n in range(50)]
    for wrong in (0, 3, 31, 49):
        text = "\n".join(["#" * 40, *lines[:wrong], "oops", *lines[wrong + 1 :]])
        with pytest.raises(InputError, match=f"edges.txt: line {wrong + 2}: 'oops'"):
            edge_text.read(folder_of(tmp_path, text) / "edges.txt", 5)


def test_weights_in_text_are_python_s(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(300) * 10.0 ** rng.integers(-30, 30, 300)
    cells = [repr(float(value)) for value in values]
    cells += [f"{value:.{digits}f}" for digits, value in enumerate(rng.standard_normal(30))]
    cells += [
        "+1",
        "-0",
        "1e5",
        "1E-5",
        ".5",
        "5.",
        "0.1e+1",
        "123456789012345678901234567890",
        "1e-400",
        "0" * 50 + "7",
        "1e-22",
        "1e23",
    ]
    text = "".join(f"0 1 {cell}\n" for cell in cells)
    found = edge_text.read(folder_of(tmp_path, text) / "edges.txt", 5)
    assert found.weights.tolist() == [float(np.float32(cell)) for cell in map(float, cells)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": None}, "labels.npy: No such file"),
        ({"labels": np.array([None])}, "labels.npy: pickled objects"),
        ({"labels": LABELS + 0.5}, r"labels.npy: 0.5 of node 0 is no class: classes are whole numbers or texts"),
        ({"labels": np.zeros((5, 2, 2), int)}, r"labels.npy: int64 \(5, 2, 2\), and should be"),
        ({"labels": np.zeros((5, 0), int)}, "labels.npy: labels of 0 classes, outside 1..1048576"),
        ({"labels": np.full((5, 2), 3)}, "labels.npy: label 3 of 'node' node 0 for class 0 is neither 0 nor 1"),
        (
            {"features": FEATURES[:4]},
            r"features.npy is int64 \(4, 3\), and should be numbers \(5, width\), as labels.npy has 5",
        ),
        ({"features": FEATURES[0]}, r"features.npy is int64 \(3,\), and should be numbers \(5, width\)"),
        ({"features": np.full((5, 2), "a")}, r"features are <U1 \(5, 2\), and should be numbers \(nodes, width\)"),
        ({"features": np.full((5, 2), np.nan)}, "feature 0 of 'node' node 0 is nan"),
        ({"train": None}, "holds no split, which --npz.split public takes"),
        ({"train": np.array([0.5])}, r"train.npy: float64 \(1,\), and should be ids, or bool \(5,\) or \(splits, 5\)"),
        ({"train": np.zeros(0, int)}, "train.npy: 0 training nodes of 5, and there should be 1 or more"),
        ({"train": np.zeros(5, bool)}, "train.npy: 0 training nodes of 5"),
        ({"labels": np.array([0, 1, 10**6, 0, 1])}, "labels.npy: label 1000000 of node 2: 1000001 classes > 5 nodes"),
        ({"labels": np.array([0, 1, 5, 0, 1])}, "labels.npy: label 5 of node 2: 6 classes > 5 nodes"),
        ({"test": np.ones(4, bool)}, r"test.npy: bool \(4,\), and should be ids"),
        ({"test": np.array([1])}, "node 1 is in both split 'train' and split 'test'"),
        ({"edges": np.array(PAIRS)}, "lists of edges: edges.npy, edges.txt, and there should be one of"),
    ],
)
def test_a_folder_names_what_is_wrong(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        edges.read(folder_of(tmp_path, **arrays))


def test_there_may_be_as_many_classes_as_have_names(tmp_path):
    folder = folder_of(tmp_path, labels=np.array([0, 1, 6, 0, 1]))
    (folder / "classes.txt").write_text("\n".join("abcdefgh"))
    assert edges.read(folder).schema.classes == 8
    (folder / "classes.txt").write_text("\n".join("abcdef"))
    with pytest.raises(InputError, match="labels.npy: label 6 of node 2: 7 classes > 6 names of classes"):
        edges.read(folder)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4), int), r"edges.npy: int64 \(2, 4\), and should be integers \(edges, 2\), or with weights"),
        (np.zeros((0, 2), int), "edges.npy: 0 edges between 5 nodes, and there should be 1 or more"),
        (np.zeros(4, int), r"edges.npy: int64 \(4,\), and should be"),
        (np.zeros((4, 2), bool), r"edges.npy: bool \(4, 2\), and should be"),
        (np.array([[0.0, 1, 1], [0, 1.5, 1]]), "edges.npy: edge 1: 1.5 in column 1, and should be a node's number"),
        (np.array([[0.0, 1, 1], [np.nan, 1, 1]]), "edges.npy: edge 1: nan in column 0"),
        (np.array([[0.0, -1, 1]]), "edges.npy: edge 0: -1.0 in column 1"),
        (np.array([[0.0, 1e300, 1]]), "edges.npy: edge 0: 1e\\+300 in column 1"),
        (np.array([[0, 2**32]]), "target of edge 0 is node 4294967296, but type 'node' has 5 nodes"),
        (np.array([[0.0, 1, np.inf]]), "weight of edge 0 is inf"),
    ],
)
def test_wrong_arrays_of_edges_are_named(tmp_path, array, message):
    np.save(folder_of(tmp_path, None) / "edges.npy", array)
    with pytest.raises(InputError, match=message):
        edges.read(tmp_path)


def test_folders_that_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="x: is no folder"):
        edges.read(tmp_path / "x")
    with pytest.raises(InputError, match="lists of edges: none, and there should be one of edges.npy, edges.txt"):
        edges.read(folder_of(tmp_path, None))
    file = tmp_path / "edges.txt.gz"
    file.write_bytes(gzip.compress(b"# nothing follows\n"))
    with pytest.raises(InputError, match="edges.txt.gz: 0 edges between 5 nodes, and there should be 1 or more"):
        edges.read(tmp_path)
    file.write_bytes(b"no")
    with pytest.raises(InputError, match="edges.txt.gz: .*Not a gzipped file"):
        edges.read(tmp_path)
    file.write_bytes(gzip.compress(b"0 1\n" * 99)[:-9])
    with pytest.raises(InputError, match="edges.txt.gz: EOFError"):
        edges.read(tmp_path)
    monkeypatch.setattr(packed, "ALWAYS", 10**5)
    file.write_bytes(gzip.compress(b"\n" * 10**6))
    with pytest.raises(InputError, match="edges.txt.gz: .*unpacks from [0-9]+ bytes to .* over 500 times as many"):
        edges.read(tmp_path)


def test_several_labels_and_masks(tmp_path):
    labels = np.array([[1, 0, 1], [0, 0, 0], [-1, -1, -1], [0, 1, 0], [1, 1, 1]])
    masks = {"train": MASKS[:2].T, "validation": np.zeros((5, 2), bool), "test": np.eye(5, dtype=bool)[3:]}
    folder_of(tmp_path, labels=labels, **masks)
    graph = edges.read(tmp_path, Options(split=Split(number=1)))
    assert graph.multilabel and graph.schema.classes == 3 and graph.labels.tolist() == labels.tolist()
    assert {name: ids.tolist() for name, ids in graph.splits.items()} == {"train": [1], "validation": [], "test": [4]}
    assert sorted(np.concatenate(list(edges.read(tmp_path, RANDOM).splits.values()))) == [0, 1, 3, 4]
    with pytest.raises(
        InputError, match="npz.split shchur draws nodes of every class, and here a node may have several"
    ):
        edges.read(tmp_path, Options(split=Split("shchur")))


def test_random_splits():
    labels = np.where(np.arange(1000) % 10 == 0, -1, 0)
    found = divide(labels, Split("random"), {}, "x")
    assert {name: len(ids) for name, ids in found.items()} == {"train": 540, "validation": 180, "test": 180}
    assert sorted(np.concatenate(list(found.values()))) == np.flatnonzero(labels == 0).tolist()
    again, other = (divide(labels, Split("random", seed), {}, "x") for seed in (0, 1))
    assert np.array_equal(found["test"], again["test"]) and not np.array_equal(found["test"], other["test"])
    few = divide(labels, Split("random", shares=(0.1, 0.0, 0.2)), {}, "x")
    assert {name: len(ids) for name, ids in few.items()} == {"train": 90, "validation": 0, "test": 180}
    assert divide(np.zeros(5, int), Split("random"), {}, "x")["train"].tolist() == [0, 1, 3]  # on any machine


def test_shchur_s_splits():
    labels = np.repeat([0, 1, 3, -1], [60, 50, 400, 30])
    found = divide(labels, Split("shchur", 7), {}, "x")
    for name, counts in (("train", [20, 20, 0, 20]), ("validation", [30, 30, 0, 30]), ("test", [10, 0, 0, 350])):
        assert np.bincount(labels[found[name]], minlength=4).tolist() == counts
    assert len(np.unique(np.concatenate(list(found.values())))) == 510
    assert not np.array_equal(found["train"], divide(labels, Split("shchur", 8), {}, "x")["train"])
    with pytest.raises(InputError, match=r"x: class 1 has 50 labelled nodes < 20 \+ 31 of npz.split_per_class"):
        divide(labels, Split("shchur", per_class=(20, 31)), {}, "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_shares": (0.6, 0.6, 0.2)}, "npz.split_shares is .*, and must be three shares of at most 1 together"),
        ({"split_shares": (0.6, 0.4)}, "npz.split_shares is"),
        ({"split_shares": (0.0, 0.5, 0.5)}, "npz.split_shares is"),
        ({"split_shares": (float("nan"), 0.5, 0.5)}, "npz.split_shares is"),
        ({"split_per_class": (0, 30)}, "npz.split_per_class is .*, and must be two numbers of nodes"),
        ({"split_per_class": (20,)}, "npz.split_per_class is"),
        ({"split_number": -1}, "npz.split_number is -1, and must be at least 0"),
        ({"split_number": 2, "split": "random"}, "npz.split_number is 2, and npz.split random draws a split"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        owners.made_data("npz", **options)


@pytest.mark.parametrize(
    ("asked", "files", "message"),
    [
        ("hgb", ["cora.npz"], "data.format is hgb, and it looks like npz .cora.npz."),
        ("npz", ["labels.npy", "edges.csv"], "data.format is npz, and it looks like edges .edges.csv."),
        ("edges", ["b.nt.gz", "x.zip"], "data.format is edges, and it looks like rdf .b.nt.gz. or hgb .x.zip."),
        ("store", ["raw"], "data.format is store, and it looks like ogb .raw."),
        ("igb", ["schema.json"], "data.format is igb, and it looks like store .schema.json."),
        ("npz", ["config.yaml", "metrics.jsonl", "stacking.npz"], "is the folder of a run, and not a graph"),
        ("ogb", ["notes"], "holds no folder raw, which OGB unpacks"),
    ],
)
def test_a_folder_of_another_format_is_known(tmp_path, asked, files, message):
    for name in files:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match=message):
        load(Data(format=asked, path=str(tmp_path)))


def test_a_file_of_another_format_is_known(tmp_path):
    """A `.npz` is a zip."""
    np.savez(tmp_path / "x.npz", labels=LABELS)
    with pytest.raises(InputError, match="x.npz: data.format is hgb, and it looks like npz"):
        load(Data(format="hgb", path=str(tmp_path / "x.npz")))


@pytest.mark.parametrize("form", ["npz", "edges"])
def test_the_command_line_reads_both(tmp_path, form, capsys):
    (tmp_path / "in").mkdir()
    saved(tmp_path / "in", SHCHUR) if form == "npz" else folder_of(tmp_path / "in", "0 1 2\n1 2 3\n")
    about = [
        f"--data.format={form}",
        f"--data.path={tmp_path / 'in'}",
        f"--{form}.split=random",
        f"--{form}.undirected=false",
    ]
    run_command(convert.main, [*about, f"--{form}.split_shares=[0.5,0.25,0.25]", f"--out={tmp_path / 'store'}"])
    opened = load(Data(format="store", path=str(tmp_path / "store")))
    assert opened.relations[EDGE].edges == (8 if form == "npz" else 2) and opened.relations[EDGE].weights is not None
    assert {name: len(ids) for name, ids in opened.splits.items()} == {"train": 2, "validation": 1, "test": 1}
    run_command(convert.main, ["--check", str(tmp_path / "store")])
    assert "1 node type, 1 relation, 5 nodes" in capsys.readouterr().out
    assert store.describe(tmp_path / "store").weighted == {EDGE}


PUBLISHED = {  # nodes, directed edges, width, values that are not 0, nodes of each class, split
    "cora": (2708, 10556, 1433, 49216, [351, 217, 418, 818, 426, 298, 180], (140, 500, 1000)),
    "citeseer": (3327, 9104, 3703, 105165, [249, 590, 668, 701, 596, 508], (120, 500, 1000)),
    "pubmed": (19717, 88648, 500, None, [4103, 7739, 7875], (60, 500, 1000)),
    "coauthor_physics": (34493, 495924, 8415, 1137311, [5750, 5045, 17426, 2753, 3519], (100, 150, 34243)),
    "tolokers": (11758, 1038000, 10, None, [9192, 2566], (5879, 2939, 2940)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(real_data, name):
    nodes, directed, width, values, classes, split = PUBLISHED[name]
    drawn = name == "coauthor_physics"
    graph = npz.read(real_data / name, Options(split=Split("shchur" if drawn else "public")))
    matrix = graph.features["node"]
    assert (graph.schema.nodes["node"], graph.relations[EDGE].edges, matrix.shape[1]) == (nodes, directed, width)
    assert values is None or np.count_nonzero(matrix) == values
    assert np.bincount(graph.labels[graph.labels >= 0]).tolist() == classes
    assert tuple(map(len, graph.splits.values())) == split
    assert matrix.dtype == ("float32" if name in ("pubmed", "tolokers") else "uint8")
    assert graph.relations[EDGE].weights is None


def test_tolokers_ships_ten_splits(real_data):
    splits = [npz.read(real_data / "tolokers", Options(split=Split(number=number))).splits for number in (0, 9)]
    assert not np.array_equal(splits[0]["train"], splits[1]["train"])
    with pytest.raises(InputError, match="npz.split_number 10, and there are 10 splits"):
        npz.read(real_data / "tolokers", Options(split=Split(number=10)))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", ">u2", "bool"])
def test_labels_and_masks_of_any_type_of_integers(dtype, tmp_path):
    masks = {f"{name}_mask": np.arange(5) == number for number, name in enumerate(("train", "val", "test"))}
    arrays = {"edges": np.array([[0, 1], [1, 2]]), "node_labels": np.array([0, 1, 0, 1, 1]).astype(dtype)}
    np.savez(tmp_path / "graph.npz", **arrays, **{name: mask.astype(dtype) for name, mask in masks.items()})
    graph = npz.read(tmp_path / "graph.npz")
    assert graph.labels.tolist() == [0, 1, 0, 1, 1] and [ids.tolist() for ids in graph.splits.values()] == [
        [0],
        [1],
        [2],
    ]
    np.savez(tmp_path / "graph.npz", **arrays, **{name: mask * 2 for name, mask in masks.items()})
    with pytest.raises(InputError, match="train_mask: 2 of row 0, and should be true and false, or 1 and 0"):
        npz.read(tmp_path / "graph.npz")
    wrong = {"node_labels": np.array([0, 1, 0, 1, 2**64 - 1], np.uint64)}
    np.savez(tmp_path / "graph.npz", **arrays | wrong, **masks)
    with pytest.raises(InputError, match="labels: 18446744073709551615 is no class number"):
        npz.read(tmp_path / "graph.npz")
