"""Columns of labels that users name in objects of other libraries, and their way back."""

import numpy as np
import pandas as pd
import pytest

import hetjax
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError

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
