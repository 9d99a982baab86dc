"""Prediction of graphs that are new: with no label, some labels, classes in another order, fewer classes, and others."""

from dataclasses import replace

import networkx
import numpy as np
import pytest

import hetjax
from hetjax.graph.names import Ids
from hetjax.system.errors import InputError

KINDS = ["cook", "reader", "walker"]


def customers(seed: int, known: float = 1.0, kinds: list[str] = KINDS, names: list[str] = KINDS):
    """Customers buy products of their own kind mostly; features say a little of it.

    Args:
      known: the share of the customers whose label is known.
      kinds: of the customers.
      names: of the classes, in the order of their numbers.
    """
    rng = np.random.default_rng(seed)
    kind, product = rng.integers(0, len(kinds), 600), np.arange(90) % 3
    numbers = np.array([KINDS.index(name) for name in kinds])[kind]
    bought = [rng.choice(np.flatnonzero(product == n) if rng.random() < 0.8 else 90) for n in numbers for _ in range(5)]
    features = np.eye(3)[numbers] + 1.5 * rng.standard_normal((600, 3))
    labels = [kinds[k] if rng.random() < known else None for k in kind]
    edges = {("product", "bought_by", "customer"): (bought, np.repeat(np.arange(600), 5))}
    graph = hetjax.from_arrays(
        edges,
        {"customer": features.astype(np.float32), "product": np.ones((90, 1), np.float32)},
        {"customer": labels},
        reverse=True,
    )
    return in_order(graph, names) if set(names) == set(graph.names.classes.values.to_pylist()) else graph, [
        KINDS[n] for n in numbers
    ]


def in_order(graph, names: list[str]):
    """The same graph, whose classes have other numbers."""
    before = graph.names.class_names(graph.schema.classes)
    number = np.array([names.index(name) for name in before] + [-1])
    labels = number[graph.labels].astype(graph.labels.dtype)
    return replace(graph, labels=labels, names=replace(graph.names, classes=Ids(names)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    options = {"recipe": "none", "model": "rgcn", "mode": "full", "hidden": 8, "epochs": 15, "stacking": True}
    return hetjax.train(customers(0)[0], tmp_path_factory.mktemp("new") / "run", **options)


def right(run, graph, truth) -> float:
    return float(np.mean([a == b for a, b in zip(run.predict(graph).table()["class"].to_pylist(), truth)]))


def without(graph):
    """The same graph without any label."""
    none = {name: ids[:0] for name, ids in graph.splits.items()}
    return replace(graph, labels=np.full_like(graph.labels, -1), splits=none)


def test_a_stack_walks_in_training(run):
    assert run.summary["stacking"]["weights"]["label propagation"] > 0.1


@pytest.mark.parametrize("known", [0.01, 0.03, 0.1, 0.5, 1.0])
def test_some_known_labels_never_make_it_worse(run, known):
    graph, truth = customers(1, known)
    assert right(run, graph, truth) >= right(run, without(graph), truth) - 0.005


def test_classes_are_found_by_their_names(run):
    graph, truth = customers(2, 0.5)
    plain = run.predict(graph)
    for names in (["walker", "reader", "cook"], ["reader", "walker", "cook"]):
        turned = run.predict(in_order(graph, names))
        np.testing.assert_array_equal(turned.logits, plain.logits)
        assert turned.class_names == KINDS
    assert right(run, graph, truth) > 0.6


def test_classes_may_be_missing(run):
    graph, truth = customers(3, 0.5, ["walker", "reader"])
    assert graph.names.class_names(2) == ["reader", "walker"]
    assert right(run, graph, truth) > 0.6


def test_classes_that_training_did_not_have_are_one_line(run):
    graph, _ = customers(4)
    for other in (["cook", "reader", "swimmer"], ["cook", "Reader", "walker"]):
        strange = replace(graph, names=replace(graph.names, classes=Ids(other)))
        with pytest.raises(
            InputError, match=f"graph: class '{(set(other) - set(KINDS)).pop()}' of customer is none of"
        ):
            run.predict(strange)
    numbered = replace(graph, names=replace(graph.names, classes=None))
    with pytest.raises(
        InputError, match="class '0' of customer is none of the graph that was trained on, which has cook"
    ):
        run.predict(numbered)


def test_several_labels_a_node_are_refused_where_training_had_one(run):
    graph, _ = customers(4)
    with pytest.raises(InputError, match="several labels a node, unlike the graph that was trained on"):
        run.predict(replace(graph, labels=np.eye(3, dtype=np.int8)[graph.labels]))


FEATURES = np.random.default_rng(0).standard_normal((12, 2)).astype(np.float32)
KNOWS = np.random.default_rng(1).integers(0, 12, (2, 40))


def by_arrays(labels, **more):
    edges = {("person", "knows", "person"): (KNOWS[0], KNOWS[1])}
    given = {} if labels is None else {"person": labels}
    return hetjax.from_arrays(edges, {"person": FEATURES}, given, **more)


def by_frames(labels, **more):
    nodes = {"id": list(range(12)), "a": FEATURES[:, 0], "b": FEATURES[:, 1]}
    nodes |= {} if labels is None else {"label": labels}
    edges = {("person", "knows", "person"): {"source": KNOWS[0], "target": KNOWS[1]}}
    return hetjax.from_pandas({"person": nodes}, edges, **more)


def by_networkx(labels, **more):
    graph = networkx.MultiDiGraph()
    for n, row in enumerate(FEATURES):
        graph.add_node(n, type="person", x=row.tolist(), **({} if labels is None else {"y": labels[n]}))
    graph.add_edges_from((int(a), int(b), {"relation": "knows"}) for a, b in KNOWS.T)
    return hetjax.from_networkx(graph, **more)


@pytest.mark.parametrize("door", [by_arrays, by_frames, by_networkx])
def test_rows_without_labels_are_predicted_from_every_door(door, tmp_path):
    labels = ["red", "blue"] * 6
    run = hetjax.train(door(labels), recipe="none", model="rgcn", mode="full", hidden=4, epochs=2)
    expected = run.predict().logits
    for given in (None, [None] * 12, ["red"] + [None] * 11):
        new = door(given, target="person")
        found = run.predict(new)
        np.testing.assert_allclose(found.logits, expected, rtol=1e-5, atol=1e-6)
        assert set(found.class_names) == {"blue", "red"}
    bare = door(None, target="person")
    with pytest.raises(InputError, match="0 training nodes among the 12 of type 'person'"):
        hetjax.train(bare, tmp_path / "run", recipe="none", epochs=1)
    with pytest.raises(InputError, match="target"):
        door(None)
    with pytest.raises(InputError, match="persn"):
        door(None, target="persn")
