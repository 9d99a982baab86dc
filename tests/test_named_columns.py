"""Columns of labels that users name in objects of other libraries, and their way back."""

import networkx
import numpy as np
import pandas as pd
import pytest

import hetjax
from hetjax.datasets import npz
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError
from tests.support.stand_ins import HeteroData

RATES = Relation("user", "rates", "item")


def graph() -> HetGraph:
    """Users with a kind and an age, items with a price, and pairs with stars and moods."""
    ends = np.array([0, 1, 2, 0]), np.array([0, 1, 1, 2])
    return hetjax.from_arrays(
        {RATES: ends},
        {"item": np.eye(3, dtype=np.float32)},
        {
            "user.kind": ["old", "new", None],
            "user.age": [30.5, np.nan, 60],
            "item.price": [1.0, 2.0, 3.5],
            "rates.stars": (*ends, [5, 1.5, np.nan, 2]),
            "rates.mood": ([2, 2], [0, 0], ["good", "bad"]),
        },
        {
            "user.kind": {"train": [0], "test": [1]},
            "user.age": {"train": [2], "val": [0]},
            "item.price": {"train": [0, 2]},
            "rates.stars": {"train": [0, 1], "test": [3]},
            "rates.mood": {"train": [1], "val": [0]},
        },
        numbers=["user.age", "item.price", "rates.stars"],
    )


NODES, PAIRS = ["user.kind", "user.age", "item.price"], ["user--rates--item.stars", "user--rates--item.mood"]
NUMBERS = ["user.age", "item.price", "rates.stars"]


def same(one: HetGraph, other: HetGraph) -> None:
    """Raise an AssertionError unless two graphs have the same columns of labels."""
    assert one.target == other.target and {*one.columns} == {*other.columns}
    for name in (one.target, *one.columns):
        mine, its = one.column(name), other.column(name)
        assert (mine.classes, mine.names, mine.relation) == (its.classes, its.names, its.relation), name
        for a, b in zip(mine.arrays, its.arrays, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_every_column_goes_through_frames_and_back():
    made = graph()
    nodes, edges = hetjax.to_pandas(made)
    assert {"kind", "split", "age", "age_split"} <= {*nodes["user"].columns} and PAIRS[0] in edges
    same(made, hetjax.from_pandas(nodes, edges, labels=NODES, numbers=NUMBERS))


def test_every_column_goes_through_networkx_and_back():
    made = graph()
    nx = hetjax.to_networkx(made)
    same(made, hetjax.from_networkx(nx, labels=NODES, numbers=NUMBERS))
    nx.graph["label_pairs"]["user--rates--item.mood"]["source"][0] = ("user", 99)
    with pytest.raises(InputError, match="label_pairs 'user--rates--item.mood': source.* 99"):
        hetjax.from_networkx(nx, labels=NODES, numbers=NUMBERS)


def test_attributes_of_edges_are_labels():
    nx = networkx.MultiDiGraph()
    nx.add_node("a", type="user", kind="old", kind_split="train")
    nx.add_node("x", type="item")
    nx.add_edge("a", "x", relation="rates", stars=4.5)
    nx.add_edge("a", "x", relation="rates")
    made = hetjax.from_networkx(nx, labels=["user.kind", "user-rates-item.stars"], numbers=["rates.stars"])
    assert made.target == "user.kind" and made.splits["train"].tolist() == [0]
    np.testing.assert_array_equal(made.column("rates").labels, np.float32([4.5, np.nan]))


PYG = {
    "user": {"num_nodes": 3, "y": np.array([0, 1, -1]), "age": np.array([1.5, 2, 3])},
    "item": {"x": np.eye(3), "price": np.array([1.0, 2, 3]), "price_train_mask": np.array([True, False, True])},
    RATES: {
        "edge_index": np.array([[0, 1], [1, 2]]),
        "edge_label": np.array([1, 0, 1]),
        "edge_label_index": np.array([[0, 1, 2], [0, 0, 0]]),
        "stars": np.array([2, 4]),
    },
}


def test_labels_of_edges_and_named_attributes_of_pyg_are_columns(caplog):
    made = hetjax.from_pyg(HeteroData(PYG))
    pairs = made.column("rates.edge_label")
    assert made.target == "user.label" and [*made.columns] == ["user--rates--item.edge_label"]
    np.testing.assert_array_equal(pairs.ends, PYG[RATES]["edge_label_index"])
    assert "relation user -rates-> item: left out: stars" in caplog.messages
    named = hetjax.from_pyg(HeteroData(PYG), labels=["user.age", "item.price", "rates.stars"], numbers=["item.price"])
    assert named.target == "user.age" and named.numeric and named.column("item").numeric
    assert named.column("item.price").splits["train"].tolist() == [0, 2]
    np.testing.assert_array_equal(named.column("rates.stars").ends, PYG[RATES]["edge_index"])
    with pytest.raises(InputError, match="labels 'user--rates--item.stars': 1 labels != 2 pairs"):
        hetjax.from_pyg(HeteroData(PYG | {RATES: PYG[RATES] | {"stars": np.array([2])}}), labels="rates.stars")


def test_floats_of_pyg_are_numbers_where_they_have_fractions(caplog):
    stores = {"item": {"x": np.eye(3), "y": np.array([[0.5], [1], [2]])}, ("item", "to", "item"): PYG[RATES]}
    assert hetjax.from_pyg(HeteroData(stores), labels=["item.y"]).numeric
    assert "labels 'item.y': floats with fractions are numbers to predict, not classes" in caplog.messages
    stores["item"]["y"] = np.array([0.0, 1, 2])
    assert not hetjax.from_pyg(HeteroData(stores)).numeric and hetjax.from_pyg(HeteroData(stores), numbers=True).numeric


def test_columns_of_frames_of_edges_are_labels():
    nodes = {"user": pd.DataFrame({"id": ["a", "b"]}), "item": pd.DataFrame({"id": ["x", "y"], "label": ["p", "q"]})}
    rated = pd.DataFrame(
        {"source": ["a", "b"], "target": ["x", "y"], "stars": [4, 2], "stars_split": ["test", "train"]}
    )
    made = hetjax.from_pandas(nodes, {RATES: rated}, labels=["rates.stars", "item"], numbers=["rates.stars"])
    assert made.target == "item.label" and made.column("rates").numeric
    assert made.column("rates").splits["train"].tolist() == [1] and made.relations[RATES].weights is None
    alone = hetjax.from_pandas({n: f[["id"]] for n, f in nodes.items()}, {RATES: rated}, labels="rates.stars")
    assert alone.column("rates.stars").classes == 5 and not alone.labelled(np.arange(2)).any()


@pytest.mark.parametrize(
    "labels, message",
    [
        (["user.kind", "user.kind"], "'user.kind' is there twice"),
        (["user.kin"], "nodes of type 'user': no 'kin', which labels name; the nearest known one is kind"),
        (["rates.mood"], "relation user -rates-> item: no 'mood', which labels name"),
        (["userr.kind"], "labels 'userr.kind': no node type and no relation; the nearest known one is user"),
    ],
)
def test_labels_that_are_not_there_are_refused(labels, message):
    nodes, edges = hetjax.to_pandas(graph())
    with pytest.raises(InputError, match=message):
        hetjax.from_pandas(
            {"user": nodes["user"][["kind"]], "item": nodes["item"][["x_0"]]}, {RATES: edges[RATES]}, labels=labels
        )


def test_texts_for_numbers_are_refused():
    nodes, edges = hetjax.to_pandas(graph())
    with pytest.raises(InputError, match=r"labels of type 'user'"):
        hetjax.from_pandas(nodes, {RATES: edges[RATES]}, labels=NODES, numbers=True)


def test_arrays_of_npz_are_further_columns(tmp_path):
    arrays = dict(
        edges=np.array([[0, 1], [1, 2]]), labels=np.array([0, 1, 0]), train_mask=np.array([True, True, False])
    )
    arrays |= dict(val_mask=np.array([False, False, True]), test_mask=np.zeros(3, bool))
    years, kinds = np.array([1.0, np.nan, 3.0]), np.array([1, 0, -1])
    np.savez(tmp_path / "g.npz", **arrays, **{"node.year": years, "node.kind": kinds})
    made = npz.read(tmp_path / "g.npz")
    assert made.column("node.year").numeric and made.column("node.kind").classes == 2
    assert [rows.tolist() for rows in made.column("node.year").splits.values()] == [[0], [2], []]
    np.savez(tmp_path / "g.npz", **arrays, **{"node.year": years[:2]})
    with pytest.raises(InputError, match=r"g.npz: node.year: float64 \(2,\), and should be numbers \(3\)"):
        npz.read(tmp_path / "g.npz")
