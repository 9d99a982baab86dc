"""The casts that every door calls, one function at a time."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

from hetjax.casts import edges, ids, labels, numbers, reverses, roles, splits
from hetjax.casts.column import as_column
from hetjax.graph.names import Ids
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError

WRITES = Relation("author", "writes", "paper")


@pytest.mark.parametrize(
    "given,values",
    [
        (pa.array(["y", "x", None]).dictionary_encode(), ["y", "x", None]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None])), ["a", None, None]),
        (
            pa.chunked_array([pa.array(["y", None]).dictionary_encode(), pa.array(["z"]).dictionary_encode()]),
            ["y", None, "z"],
        ),
        (pa.chunked_array([], pa.int32()), []),
        (pa.array([1, None], pa.float16()), [1.0, None]),
        (pa.array([b"a", None]), ["a", None]),
        ([np.str_("a"), "b", None, float("nan")], ["a", "b", None, None]),
        ({3}, [3]),
        (range(2), [0, 1]),
        (np.array([1, 2], ">i4"), [1, 2]),
        (np.array([b"a"]), ["a"]),
        (np.array([1, np.nan]), [1.0, None]),
        (np.ma.array([1, 2], mask=[0, 1]), [1, None]),
        (np.array([[1], [2]]), [1, 2]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, None], [True, None]),
    ],
)
def test_columns_of_any_kind_have_their_nulls(given, values):
    assert as_column(given, "column").to_pylist() == values


@pytest.mark.parametrize(
    "given,message",
    [
        ("abc", "'abc' is str"),
        ([1, 1, "a"], "'a' is str, and others are numbers"),
        ([0, True, 1], "True is bool, and others are numbers"),
        ([2**64], "a whole number of over 64 bits"),
        ([b"\xff"], "codec can't decode"),
        (np.zeros((2, 2)), r"float64 \(2, 2\), and should be one column"),
        (np.array([1j]), "complex128"),
    ],
)
def test_what_is_no_column_is_refused(given, message):
    with pytest.raises(InputError, match=f"column: .*{message}"):
        as_column(given, "column")


@pytest.mark.parametrize(
    "given,expected,classes",
    [
        (np.array([0, 1, 255], np.uint8), [0, 1, 255], None),
        (np.array([0, 2], np.uint64), [0, 2], None),
        ([-1, 0], [-1, 0], None),
        ([-1.0, 1.0, None], [-1, 1, -1], None),
        ([decimal.Decimal("1.0"), None], [1, -1], None),
        (["b", "NA", "", "a", "nan", "-1"], [1, -1, -1, 0, -1, -1], ["a", "b"]),
        (["10", "9", "-1.0"], [1, 0, -1], ["9", "10"]),
        ([True, None, False], [1, -1, 0], ["false", "true"]),
        (pa.array(["y", "x", None]).dictionary_encode(), [1, 0, -1], ["x", "y"]),
        (labels.Categories([1, -1], ["NA", "b"]), [1, -1], ["NA", "b"]),
    ],
)
def test_labels(given, expected, classes):
    found, names = labels.as_labels(given, "labels")
    assert found.tolist() == expected and (names.values.to_pylist() if names else None) == classes


@pytest.mark.parametrize(
    "given", [[0.5], [np.inf], [-2], ["0", "-2"], [[1], [1, 2]], np.array(["2020"], "M8[D]"), [2**40], [{"a": 1}]]
)
def test_labels_that_are_no_classes_are_refused(given):
    with pytest.raises(InputError, match="labels: "):
        labels.as_labels(given, "labels")


def test_categories_keep_their_order_and_missing_words_are_no_class():
    pd = pytest.importorskip("pandas")
    column = pd.Series(pd.Categorical(["low", "NA", "high", None], ["low", "high", "NA"]))
    found, names = labels.as_labels(column, "labels")
    assert found.tolist() == [0, -1, 1, -1] and names.values.to_pylist() == ["low", "high"]


def test_ids_match_what_is_written_alike(caplog):
    whole, texts = Ids([7, 8]), Ids(["7", "07"])
    assert ids.positions(ids.as_ids(["8", "7"], "edges"), whole, "edges").tolist() == [1, 0]
    assert caplog.messages == ["edges: texts are compared with ids that are whole numbers"]
    assert ids.positions(ids.as_ids([7], "edges"), texts, "edges").tolist() == [0]
    for text in ("007", "+7", " 7", "7.0"):
        with pytest.raises(
            InputError, match="is no id of the type's 2, whose ids are whole numbers: it is another text than 7"
        ):
            ids.positions(ids.as_ids([text], "edges"), whole, "edges")
    assert ids.as_ids([1.0, 2.0], "ids").to_pylist() == [1, 2]
    for given in (
        [1.5],
        [float(2**53)],
        [None],
        [1, None],
        np.array([2**63], np.uint64),
        [True],
        [[1]],
        np.array(["2020"], "M8[D]"),
    ):
        with pytest.raises(InputError, match="ids"):
            ids.as_ids(given, "ids")


def test_splits_are_masks_or_ids_each_once():
    kept = Ids([3, 2, 1, 0])
    given = {"train": {3, 2}, "dev": (1,), "test": np.array([False, False, False, True])}
    found = splits.as_splits(given, 4, kept)
    assert {name: sorted(one.tolist()) for name, one in found.items()} == {
        "train": [0, 1],
        "validation": [2],
        "test": [3],
    }
    assert splits.as_splits({"train": [3.0]}, 4, None)["train"].tolist() == [3]
    for wrong in (
        {"train": [1, 1]},
        {"train": [9]},
        {"train": [None]},
        {"train": "abc"},
        {"training": [1], "train": [2]},
    ):
        with pytest.raises(InputError, match="split 'train'"):
            splits.as_splits(wrong, 4, kept)


def test_words_and_masks_of_splits():
    found = splits.from_words(as_column(["Train", None, " VAL", "dev", "test", "NA"], "split"), "split")
    assert {name: np.flatnonzero(mask).tolist() for name, mask in found.items()} == {
        "train": [0],
        "validation": [2, 3],
        "test": [4],
    }
    for wrong in ([0, 1], [True], ["train", "tset"]):
        with pytest.raises(InputError, match="split: .*should be .*train, val"):
            splits.from_words(as_column(wrong, "split"), "split")
    for given in ([True, None], [1, 0], [1.0, np.nan], ["True", "false"]):
        assert splits.as_mask(as_column(given, "mask"), "mask").tolist() == [True, False]
    with pytest.raises(InputError, match="mask: 2 of row 1"):
        splits.as_mask(as_column([1, 2], "mask"), "mask")


@pytest.mark.parametrize(
    "given,pairs",
    [
        ([(0, 1)], [(0, 1)]),
        ([(0, 1), (1, 2)], [(0, 1), (1, 2)]),
        ([(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (2, 0)]),
        ([[0, 1], [1, 2], [2, 0], [0, 0]], [(0, 1), (1, 2), (2, 0), (0, 0)]),
        (([0, 1], [1, 2]), [(0, 1), (1, 2)]),
        ((np.array([0, 1]), np.array([1, 2])), [(0, 1), (1, 2)]),
        ([np.array([0, 1]), np.array([1, 2])], [(0, 1), (1, 2)]),
        ([[0, 1, 2], [1, 2, 0]], [(0, 1), (1, 2), (2, 0)]),
        (np.array([[0, 1], [1, 2]]), [(0, 1), (1, 2)]),
        (np.array([[0, 1], [1, 2], [2, 0]]), [(0, 1), (1, 2), (2, 0)]),
        (zip([0, 1], [1, 2]), [(0, 1), (1, 2)]),
        (([], []), []),
        ([], []),
        (np.zeros((2, 0)), []),
        (np.zeros((0, 2)), []),
        ([(0, 1, 0.5), (1, 2, 0.25)], [(0, 1, 0.5), (1, 2, 0.25)]),
        ([0, 1], None),
        ([[0, 1], [1, 2]], None),
        (((0, 1), (1, 2)), None),
        ([[0, 1], [1, 2], [0.5, 1.0]], None),
        ([(0, 1, 2), (1, 2, 0)], None),
        ([(0, 1), (1, 2, 3)], None),
        (np.zeros((3, 3)), None),
        (([0, 1], [1]), None),
        (([0, None], [1, 1]), None),
        (([True], [1]), None),
        (([0], [1], ["a"]), None),
        ((np.ma.array([0, 1], mask=[0, 1]), [1, 1]), None),
        (np.ma.array([[0, 1, 2], [1, 2, 0]], mask=[[0, 1, 0], [0, 0, 0]]), None),
    ],
)
def test_forms_of_edges(given, pairs):
    if pairs is None:
        with pytest.raises(InputError, match="relation author -writes-> paper: "):
            edges.as_ends(given, WRITES)
        return
    found = [list(part) for part in edges.as_ends(given, WRITES) if part is not None]
    assert list(zip(*found)) == pairs


@pytest.mark.parametrize(
    "columns,chosen",
    [
        (["edge_id", "dst", "src", "time"], ("src", "dst", None)),
        (["Target", "w", "Source"], ("Source", "Target", "w")),
        (["paper_id", "author_id"], ("author_id", "paper_id", None)),
        (["who", "what"], ("who", "what", None)),
        (["who", "what", "weight"], ("who", "what", "weight")),
        (["who"], None),
        (["who", "what", "when"], None),
        (["src", "dst", "source", "target"], None),
        (["src", "dst", "w", "weight"], None),
        (["source", "dst", "x"], None),
    ],
)
def test_columns_of_edges_are_taken_by_name(columns, chosen, caplog):
    if chosen is None:
        with pytest.raises(InputError, match="edges: column"):
            roles.edge_columns(columns, WRITES, "edges")
        return
    assert roles.edge_columns(columns, WRITES, "edges") == chosen
    left = [name for name in columns if name not in chosen]
    assert bool(left) == any("left out: " + ", ".join(left) in line for line in caplog.messages)
    assert ("who" in columns) == any("by their order" in line for line in caplog.messages)


def test_reverses_are_added_where_they_are_missing():
    turned = WRITES.reverse
    assert reverses.missing_reverses([WRITES]) == {WRITES: turned}
    assert reverses.missing_reverses([WRITES, turned]) == {}
    assert reverses.missing_reverses([WRITES, Relation("paper", "cites", "paper"), turned]).keys() == {
        Relation("paper", "cites", "paper")
    }


def test_numbers_that_are_rounded_are_said(caplog):
    assert numbers.as_features(np.array([2**60 + 1, 0]), "x").dtype == np.float32
    assert caplog.messages == ["x: int64 cast to float32, rounded"]
    caplog.clear()
    numbers.as_features([[2**24 + 1]], "x")
    numbers.from_columns({"age": [2**24 + 1], "size": [0.5]}, "nodes", chosen=False)
    numbers.as_weights([2**24 + 1], "w")
    assert ["rounded" in line for line in caplog.messages] == [True] * 3 and "age" in caplog.messages[1]
    for wrong, said in (
        ([1.0, None], "column 'age': the value of node 1 is missing"),
        ([np.inf], "column 'age': node 0 has inf"),
    ):
        with pytest.raises(InputError, match=said):
            numbers.from_columns({"age": wrong}, "nodes", chosen=False)


def test_columns_that_are_features(caplog):
    given = {
        "born": np.array(["1970-01-02"], "M8[D]"),
        "vec": [[1, 2]],
        "price": [decimal.Decimal("1.5")],
        3: [True],
        "name": ["a"],
    }
    assert numbers.from_columns(given, "nodes", chosen=False).tolist() == [[1, 1, 2, 1.5, 1]]
    assert [line.split(": ", 1)[1] for line in caplog.messages] == [
        "column 'born': dates are read as days since 1970-01-01",
        "column 'price': decimal128(2, 1) is read as float64",
        "columns that are no numbers are left out: name",
    ]
    with pytest.raises(InputError, match="column 'name' is large_string, and features are numbers"):
        numbers.from_columns({"name": ["a"]}, "nodes", chosen=True)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kind", ["tuples in a tuple", "lists in a list", "arrays in a list"])
def test_as_many_edges_as_columns_that_may_be_either_are_refused(count, kind):
    pairs = [(0, 1), (1, 2), (2, 0)][:count]
    if kind == "arrays in a list" and count == 2:
        pytest.skip("two arrays are sources and targets")
    given = {
        "tuples in a tuple": tuple(pairs),
        "lists in a list": [list(pair) for pair in pairs],
        "arrays in a list": [np.array(pair) for pair in pairs],
    }[kind]
    with pytest.raises(InputError, match="may be"):
        edges.as_ends(given, Relation("n", "to", "n"))


def test_codes_of_categories_are_class_numbers():
    numbers, names = labels.as_labels(labels.Categories(np.array([1.0, np.nan, 0.0]), ["a", "b"]), "labels")
    assert numbers.tolist() == [1, -1, 0] and names is not None
    for codes in ([1.7, 0], [[0.6, 1]]):
        with pytest.raises(InputError, match="is no class"):
            labels.as_labels(labels.Categories(np.array(codes), ["a", "b"]), "labels")


def test_names_of_classes_that_are_one_number_have_one_order():
    assert labels.as_labels(["7", "007", "7"], "labels")[1].values.to_pylist() == ["007", "7"]
