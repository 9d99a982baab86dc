"""Classes and numbers of labelled pairs: trained, predicted, served, and equal to one device on every strategy."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import hetjax
from hetjax.graph import hidden, store
from hetjax.system.errors import InputError
from tests.support import equivalence

USERS, ITEMS, PAIRS = 30, 20, 160
KEY = "user--rates--item"
QUICK = {"model.layers": 2, "model.hidden": 8, "train.epochs": 6, "train.patience": 0, "sampling.mode": "full"}


def shop(weights: bool = False, alike: bool = False):
    """Users who rate items: the number is a product of hidden features of both, the class its sign."""
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((USERS, 3)), rng.standard_normal((ITEMS, 3))
    source, target = rng.integers(0, USERS, PAIRS), rng.integers(0, ITEMS, PAIRS)
    stars = (left[source] * right[target]).sum(1).astype(np.float32)
    edge = (source[:120], target[:120], *([1 + np.abs(stars[:120])] if weights else []))
    pairs = {"source": source, "target": target}
    splits = dict(zip(("train", "validation", "test"), np.split(rng.permutation(PAIRS), (90, 125))))
    return hetjax.from_arrays(
        {("user", "rates", "item"): edge, ("item", "rev_rates", "user"): (edge[1], edge[0], *edge[2:])},
        features={"user": left.astype(np.float32), "item": right.astype(np.float32)},
        labels={
            "user-rates-item.stars": pairs | {"labels": stars},
            "user-rates-item.likes": pairs | {"labels": np.where(stars > 0, "yes", "no")},
        },
        splits={"user-rates-item.stars": splits, "user-rates-item.likes": splits},
        numbers=["user-rates-item.stars"],
    )


def options(name: str, **more):
    column = {"edge_classification": "likes", "edge_regression": "stars"}[name]
    return QUICK | {"task.name": name, "task.target": f"user-rates-item.{column}"} | more


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: hetjax.train(shop(), workdir=folder / name, **options(name))
        for name in ("edge_classification", "edge_regression")
    }


def test_runs_say_what_they_reached_and_what_baselines_do(runs):
    classes, numbers = (runs[name].summary for name in ("edge_classification", "edge_regression"))
    assert 0 <= classes["test_accuracy"] <= 1 and classes["baselines"]["larger class"]["accuracy"] > 0
    assert numbers["test_rmse"] > 0
    assert {"mean", "median", "ridge regression"} <= numbers["baselines"].keys()


@pytest.mark.parametrize("name", ["edge_classification", "edge_regression"])
def test_predictions_name_both_ends_and_are_those_that_are_served(runs, name, tmp_path):
    graph, run = shop(), runs[name]
    predicted = run.predict()
    table = predicted.table().to_pandas()
    ends = graph.column(options(name)["task.target"]).ends
    assert list(table.columns[:2]) == ["source", "target"] and len(table) == PAIRS
    np.testing.assert_array_equal(table[["source", "target"]], np.stack(ends, 1))
    assert set(table["split"]) == {"train", "validation", "test"}
    answers = hetjax.load(run.path).predict(list(zip(*ends)))
    if name == "edge_regression":
        np.testing.assert_allclose(answers, table["prediction"], rtol=1e-5)
    else:
        np.testing.assert_array_equal(answers, table["class"])
    for suffix in ("csv", "parquet"):
        assert "160 rows of source, target" in predicted.write(tmp_path / f"out.{suffix}")


def test_a_pair_without_a_label_is_served(runs):
    model = hetjax.load(runs["edge_regression"].path)
    assert model.target == KEY and model.predict((3, 4)).shape == (1,)
    assert model.predict([]).shape == (0,)
    with pytest.raises(InputError, match=r"pairs of user -rates-> item are predicted: give \(source, target\) each"):
        model.predict([3])
    with pytest.raises(InputError, match="type 'item' has no node 99"):
        model.predict([(3, 99)])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"task.name": "node_classification"}, "has labels of pairs of relation user -rates-> item, which --task.name edge_regression predicts"),
        ({"task.name": "edge_classification"}, "the labels are numbers, not classes"),
        ({"model.head": False}, "model.head is false, and task.name edge_regression needs a head"),
        ({"task.target": "user-rates-item.star"}, "the nearest known one is user--rates--item.stars"),
        ({"edge_regression.bases": 0}, "edge_regression.bases is 0, and must be at least 1"),
    ],
)  # fmt: skip
def test_errors(tmp_path, more, message):
    with pytest.raises(InputError, match=message):
        hetjax.train(shop(), workdir=tmp_path / "run", **options("edge_regression") | more)


def test_a_task_of_pairs_on_labels_of_nodes_is_an_error(tmp_path):
    graph = equivalence.GRAPHS["few relations"]()
    with pytest.raises(
        InputError, match=r"'paper.label' has labels of nodes, which --task.name node_classification predicts"
    ):
        hetjax.train(graph, workdir=tmp_path / "run", **QUICK | {"task.name": "edge_regression"})


@pytest.mark.parametrize("how", ["auto", "all", "evaluated", "none"])
@pytest.mark.parametrize("weights", [False, True])
def test_edges_of_labelled_pairs_are_left_out_both_ways(how, weights):
    graph = shop(weights).with_target(f"{KEY}.stars")
    found = hidden.hidden(graph, how)
    splits = {"all": ("train", "validation", "test"), "evaluated": ("validation", "test")}.get(how, ())
    splits = ("train", "validation", "test") if how == "auto" and weights else splits
    rows = np.concatenate([graph.splits[name] for name in splits]) if splits else np.zeros(0, int)
    gone = {(int(u), int(v)) for u, v in zip(*(ids[rows] for ids in graph.ends))}
    for relation, turned in ((graph.schema.relations[0], False), (graph.schema.relations[1], True)):
        before, after = (_edges(one.relations[relation], turned) for one in (graph, found))
        assert after == [pair for pair in before if pair not in gone]
        assert (found.relations[relation].weights is not None) == weights


def _edges(csc, turned):
    targets = np.repeat(np.arange(len(csc.indptr) - 1), np.diff(csc.indptr))
    pairs = zip(targets, csc.indices) if turned else zip(csc.indices, targets)
    return [(int(u), int(v)) for u, v in pairs]


def test_weights_of_hidden_edges_change_no_prediction(tmp_path):
    """Poisoned weights of the edges of labelled pairs, which tell the labels: the run is the same to the bit."""
    graph = shop(weights=True)
    poisoned = replace(
        graph, relations={r: csc._replace(weights=csc.weights * 1e3) for r, csc in graph.relations.items()}
    )
    made = [
        hetjax.train(one, workdir=tmp_path / str(n), **options("edge_regression", **{"train.epochs": 2}))
        .predict()
        .outputs
        for n, one in enumerate((graph, poisoned))
    ]
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("hide", ["none", "all"])
def test_a_store_is_trained_on_partitions_of_the_relations_as_on_one_device(tmp_path, hide, caplog):
    store.save(shop(), tmp_path / "store")
    given = options("edge_regression", **{"task.hide_targets": hide, "train.epochs": 2, "model.name": "rgcn"})
    with caplog.at_level(logging.INFO):
        runs = [
            hetjax.train(tmp_path / "store", workdir=tmp_path / str(n), **given | {"mesh.relation": n}) for n in (1, 2)
        ]
    alone, divided = ([record["train_loss"] for record in run.records[:-1]] for run in runs)
    np.testing.assert_allclose(divided, alone, rtol=1e-5)
    assert ("edges of labelled pairs are left out of message passing" in caplog.text) == (hide == "all")


@pytest.mark.parametrize(
    ("task", "mesh", "mode", "model", "more"),
    [
        ("edge_classification", (2, 1), "minibatch", "R-GCN", {"decoder": "bilinear"}),
        ("edge_regression", (2, 2), "full", "R-GCN", {"decoder": "mlp", "loss": "huber"}),
        ("edge_classification", (1, 2, "vanilla"), "minibatch", "R-GAT", {"decoder": "mlp"}),
        ("edge_regression", (1, 2, "dependency"), "full", "R-GCN", {"decoder": "product"}),
        ("edge_classification", (1, 1, "tensor", 2), "full", "R-GCN", {"decoder": "product"}),
        ("edge_regression", (1, 1, "tensor", 2), "minibatch", "R-GCN", {"decoder": "bilinear"}),
    ],
)
def test_every_strategy_equals_one_device(task, mesh, mode, model, more):
    graph = shop().with_target(options(task)["task.target"])
    with equivalence.damped():
        errors = equivalence.compare(
            graph, mesh, mode, equivalence.MODELS[model], steps=4, wide=True, task=task, **more
        )
    assert max(errors) < 1e-9, errors


def test_pairs_of_another_graph_are_predicted(runs):
    graph, run = shop(), runs["edge_regression"]
    stars = graph.column(f"{KEY}.stars")
    fewer = replace(stars, ends=tuple(ids[::2] for ids in stars.ends), labels=np.full(PAIRS // 2, np.nan, np.float32))
    fewer = replace(fewer, splits=dict.fromkeys(stars.splits, np.empty(0, np.int32)))
    other = replace(graph, columns={f"{KEY}.stars": fewer})
    np.testing.assert_allclose(run.predict(other).values, run.predict().values[::2], rtol=1e-5)
