"""Columns of labelled pairs of a relation: given by the user, checked, stored, and named in several ways."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hetjax
from hetjax.graph import checksums, store
from hetjax.graph.columns import Column
from hetjax.graph.hetgraph import build, check
from hetjax.graph.relation_names import find_relation
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import sizes
from hetjax.system.errors import InputError

RATES, VIEWS = Relation("user", "rates", "item"), Relation("user", "views", "item")
USERS, ITEMS, PAIRS = 6, 5, 12
STARS = "user--rates--item.stars"


def graph(**changes):
    """A graph of users and items, some of whose pairs have stars or a kind."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, USERS, PAIRS), rng.integers(0, ITEMS, PAIRS)
    stars = np.where(np.arange(PAIRS) == 3, np.nan, rng.integers(1, 6, PAIRS))
    kinds = np.array(["good", "bad", None], object)[np.arange(PAIRS) % 3]
    given = {
        "edges": {RATES: ends, VIEWS: rng.integers(0, ITEMS, (2, 20))},
        "nodes": {"user": USERS, "item": ITEMS},
        "labels": {
            "user": np.arange(USERS) % 2,
            "user-rates-item.stars": {"source": ends[0], "target": ends[1], "stars": stars},
            "rates.kind": (*ends, kinds),
            "user,views,item": {"source": [0, 0, 1], "target": [1, 1, 2]},
        },
        "splits": {
            "user": {"train": [0, 1], "val": [2], "test": [3]},
            "rates.stars": {"train": np.arange(3), "val": [4], "test": [5]},
            VIEWS: {"train": [0, 1], "test": [2]},
        },
        "numbers": ["user--rates--item.stars"],
        "reverse": True,
    }
    return hetjax.from_arrays(**given | changes)


def test_pairs_have_labels_splits_and_ends_of_their_own():
    made = graph()
    assert [*made.columns] == [STARS, "user--rates--item.kind", "user--views--item.label"]
    stars, kinds, views = made.columns.values()
    assert stars.relation == kinds.relation == RATES and stars.numeric and np.isnan(stars.labels[3])
    assert kinds.names is not None and [*kinds.names.values.to_pylist()] == ["bad", "good"]
    assert kinds.classes == 2 and kinds.labels[2] == -1 and sum(map(len, kinds.splits.values())) == 8
    assert views.classes == 1 and not views.labels.any() and views.ends[0].dtype == np.int32
    np.testing.assert_array_equal(views.ends, [[0, 0, 1], [1, 1, 2]])  # one pair is there twice
    np.testing.assert_array_equal(views.splits["train"], [0, 1])
    assert f"{STARS}: 12 pairs of user -rates-> item: a number of each pair; 3 train, 1 validation, 1 test" in repr(
        made
    )
    assert not any(array.flags.writeable for array in made.arrays())


@pytest.mark.parametrize(
    "name", [STARS, "user-rates-item.stars", "user,rates,item.stars", "user___rates___item.stars", "rates.stars"]
)
def test_a_column_is_found_by_any_spelling_of_its_relation(name):
    made = graph()
    assert made.column(name) is made.columns[STARS]
    assert made.column("views") is made.columns["user--views--item.label"] and made.column("user").classes == 2


@pytest.mark.parametrize(
    "name, message",
    [
        ("rates", "the column is 'rates', whose columns of labels are user--rates--item.stars, user--rates--item.kind"),
        ("rates.star", "the column is 'rates.star', and no column of labels"),
        ("user--rates--item.star", "and no column of labels; the nearest known one is user--rates--item.stars"),
        ("views.stars", "the column is 'views.stars', and no column of labels"),
        ("", "the column is '', and no column"),
    ],
)
def test_a_column_that_is_not_there_is_an_error(name, message):
    with pytest.raises(InputError, match=message):
        graph().column(name)


def test_pairs_are_labels_of_a_graph_and_go_back_among_its_columns():
    one = graph()
    other = one.with_target("rates.stars")
    assert other.target == "user--rates--item.stars" and other.target_types == ("user", "item")
    column = one.column("rates.stars")
    assert other.labels is column.labels and other.ends is column.ends and other.own_column == column
    assert other.with_target(one.target).own_column == one.own_column
    rows = np.arange(2)
    assert {t: ids.tolist() for t, ids in other.nodes_of(rows).items()} == {
        t: np.unique(ids[rows]).tolist() for t, ids in zip(other.target_types, column.ends)
    }


def test_a_relation_is_named_without_doubt():
    alike = Relation("a-b", "c", "d"), Relation("a", "b-c", "d"), Relation("x", "c", "y")
    assert find_relation("x-c-y", alike, "place") == alike[2] and find_relation("a--b-c--d", alike, "place") == alike[1]
    assert find_relation("e", alike, "place") is None
    with pytest.raises(InputError, match="place: 'a-b-c-d' may be a-b--c--d or a--b-c--d: name one so"):
        find_relation("a-b-c-d", alike, "place")
    with pytest.raises(InputError, match="'c' may be a-b--c--d or x--c--y"):
        find_relation("c", alike, "place")


def test_a_graph_may_have_labels_of_relations_alone():
    pairs = pd.DataFrame({"source": ["a", "b", "new"], "target": ["x", "y", "x"], "split": ["train", "val", None]})
    made = hetjax.from_arrays({RATES: (["a", "b"], ["x", "y"])}, labels={RATES: pairs})
    assert made.target == "item.label" and not made.labelled(np.arange(2)).any()
    column = made.column("rates")
    assert [len(rows) for rows in column.splits.values()] == [1, 1, 0]
    assert made.names.nodes["user"].values.to_pylist() == ["a", "b", "new"]
    assert "target" not in repr(made) and "splits of" not in repr(made)
    shares = hetjax.from_arrays({RATES: ([0, 1], [0, 1])}, labels={RATES: ([0, 1], [1, 0])}, splits=(0.5, 0.5, 0.0))
    assert [len(rows) for rows in shares.column("rates").splits.values()] == [1, 1, 0]


def test_pairs_are_stored_with_checksums_and_opened(tmp_path):
    made = graph()
    store.save(made, tmp_path / "s")
    opened = store.open(tmp_path / "s")
    check(opened)
    assert checksums.verify(tmp_path / "s") and store.contents(tmp_path / "s") == store.checksums_of(opened)
    assert [*opened.columns] == [*made.columns]
    for name, column in made.columns.items():
        other = opened.columns[name]
        assert (column.relation, column.classes, column.names) == (other.relation, other.classes, other.names)
        for mine, its in zip(column.arrays, other.arrays, strict=True):
            np.testing.assert_array_equal(mine, its)
    some = store.open(tmp_path / "s", [VIEWS], [])
    check(some)
    assert some.column("rates.stars").relation == RATES
    with pytest.raises(InputError, match="no relation user -rates-> item of the graph"):
        store.save(some, tmp_path / "t")


def test_a_store_without_pairs_is_described_as_before():
    made = graph()
    plain = replace(made, columns={})
    assert sizes(plain).digest == sizes(made).digest
    assert "columns" not in sizes(plain).json()
    of_nodes = replace(made, columns={"item.year": Column(np.zeros(ITEMS, np.int32), {}, 1)})
    assert sizes(of_nodes).json()["columns"] == [{"name": "item.year", "labels": "one", "classes": 1, "named": False}]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"name": "user--buys--item.stars"}, "and should be RELATION.NAME of a relation among"),
        ({"name": "user--rates--item."}, "and should be RELATION.NAME of a relation among"),
        ({"pairs": 2**40}, "has 1099511627776 pairs, outside 0"),
        ({"pairs": -1}, "has -1 pairs"),
        ({"pairs": True}, "has True pairs"),
        ({"pairs": 11}, r"column_0\.labels\.npy"),
        ({"pairs": None}, "should be TYPE.NAME"),
        ({"name": "user--rates--item.kind"}, "two columns of labels have one name"),
    ],
)
def test_a_store_whose_description_of_pairs_is_wrong_is_refused(tmp_path, change, message):
    store.save(graph(), tmp_path / "s")
    file = tmp_path / "s" / "schema.json"
    description = json.loads(file.read_text())
    description["columns"][0] |= change
    file.write_text(json.dumps(description))
    with pytest.raises(InputError, match=message):
        store.open(tmp_path / "s")


@pytest.mark.parametrize(
    "file, values, message",
    [
        ("source", np.full(PAIRS, USERS, np.int32), "source of pair 0 is node 6, but type 'user' has 6 nodes"),
        ("target", np.full(PAIRS, -1, np.int32), "target of pair 0 is node -1"),
        ("train", np.array([PAIRS], np.int32), "split 'train': entry 0 is row 12, but there are 12 labelled pairs of"),
        ("train", np.array([0, 4], np.int32), r"pair 4 \('user' node \d to 'item' node \d\) is in both split 'train'"),
        ("train", np.array([3], np.int32), "split 'train' has pair 3 .* which has no label"),
    ],
)
def test_a_store_of_wrong_pairs_is_refused(tmp_path, file, values, message):
    store.save(graph(), tmp_path / "s")
    np.save(tmp_path / "s" / f"column_0.{file}.npy", values)
    with pytest.raises(InputError, match=message):
        check(store.open(tmp_path / "s"))


ENDS = {"source": [0, 1], "target": [1, 0]}


@pytest.mark.parametrize(
    "given, message",
    [
        ({"rates.stars": ENDS | {"stars": [1, 2, 3]}}, "labels 'user--rates--item.stars': 3 labels != 2 pairs"),
        (
            {"rates.stars": {"source": [0, 1], "target": [1]}},
            "labels 'user--rates--item.stars'.*2 sources != 1 targets",
        ),
        ({"rates.stars": {"source": [0, 9], "target": [1, 1]}}, "source of pair 1 is node 9, but type 'user' has 6"),
        (
            {"rates.stars": ENDS | {"stars": [1, 2], "label": [1, 2]}},
            "columns 'stars' and 'label' may both be the labels",
        ),
        ({"rates.stars": ENDS, "user-rates-item.stars": ENDS}, "two of them are one column"),
        ({"rated.stars": ENDS}, "labels of 'rated.stars': no relation has nodes of this type"),
        ({"rates.stars": [(0, 1, 2.5), (1, 1, 2.5), (2, 1, 1.0), (2, 2, 1.0)]}, "pairs with a third value"),
    ],
)
def test_pairs_that_are_wrong_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        graph(labels={"user": np.arange(USERS) % 2} | given, splits=(0.6, 0.2, 0.2), numbers=False)


def test_texts_for_numbers_are_refused():
    with pytest.raises(InputError, match="labels 'user--rates--item.stars'"):
        graph(
            labels={"rates.stars": ENDS | {"stars": ["good", "bad"]}}, splits=(1.0, 0.0, 0.0), numbers=["rates.stars"]
        )


def test_pairs_of_unknown_ids_are_refused():
    edges = {RATES: (["a", "b"], ["x", "y"])}
    ids = {"user": ["a", "b"], "item": ["x", "y"]}
    with pytest.raises(InputError, match="labels 'user--rates--item.label': source.*'c'"):
        hetjax.from_arrays(edges, labels={RATES: (["a", "c"], ["x", "y"])}, ids=ids)


@pytest.mark.parametrize(
    "column, message",
    [
        (Column(np.zeros(2, int), {}, 1, ends=(np.arange(2), np.arange(3))), "2 source ids != 3 target ids"),
        (
            Column(np.zeros(3, int), {}, 1, ends=(np.arange(2), np.arange(2))),
            "labels of shape .3,. != 2 labelled pairs",
        ),
        (Column(np.zeros(2, int), {"train": [2]}, 1, ends=(np.arange(2), np.arange(2))), "entry 0 is row 2, but there"),
        (Column(np.zeros(2, int), {}, 1, ends=(np.arange(2.0), np.arange(2))), "source ids: float64, and there should"),
    ],
)
def test_build_refuses_pairs_that_are_wrong(column, message):
    made = graph()
    with pytest.raises(InputError, match=message):
        build(made.schema, dict(made.relations), {}, made.labels, made.splits, columns={"rates.x": column})


def test_several_labels_of_a_pair_are_stored(tmp_path):
    made, labels = graph(), np.array([[1, 0], [1, 1], [-1, -1]])
    column = Column(labels, {"train": [1]}, 2, ends=(np.arange(3), np.arange(3)))
    built = build(made.schema, dict(made.relations), {}, made.labels, made.splits, columns={"rates.tags": column})
    store.save(built, tmp_path / "s")
    opened = store.open(tmp_path / "s").column("rates.tags")
    assert opened.labels.dtype == np.int8 and "of which a pair may have several" in opened.words()
    np.testing.assert_array_equal(opened.labels, labels)
