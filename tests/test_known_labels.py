"""Labels that are known of a graph which a trained model predicts: propagated where there are enough of every class."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import hetjax
from hetjax.datasets.load import load
from hetjax.graph import store
from hetjax.graph.names import Ids
from hetjax.inference import restored
from hetjax.tasks.known_labels import forgotten, too_few
from tests.support.communities import communities, shop
from tests.support.stacking import METAPATHS, run, two_labels

NAMES = ["art", "law", "tax"]


def named(graph):
    """The same graph with names of classes."""
    return replace(graph, names=replace(graph.names, classes=Ids(NAMES)))


def knowing(graph, ids):
    """The same graph, of which the labels of some nodes alone are known, all of them training nodes."""
    labels = np.full_like(graph.labels, -1)
    labels[ids] = graph.labels[ids]
    splits = {"train": np.sort(ids), "validation": ids[:0], "test": ids[:0]}
    return replace(graph, labels=labels, splits=splits)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run whose stack weighs label propagation, and its graph."""
    folder, graph = tmp_path_factory.mktemp("known"), named(communities(True, "nothing"))
    summary = run(graph, folder / "run")
    assert summary["stacking"]["weights"]["label propagation"] > 0.1
    return hetjax.Trained(folder / "run"), graph


def test_few_known_labels_are_no_worse_than_none(trained, caplog):
    run, graph = trained
    train = graph.splits["train"]
    none = run.predict(knowing(graph, train[:0])).logits
    for few in (train[:1], train[:6], train[graph.labels[train] != 2]):  # the last: many, but of two classes
        with caplog.at_level(logging.INFO, "hetjax"):
            np.testing.assert_array_equal(run.predict(knowing(graph, few)).logits, none)
        assert "not stacked, as too few labels are known" in caplog.text
        caplog.clear()
    np.testing.assert_array_equal(run.predict(knowing(graph, train)).logits, run.predict().logits)
    served = hetjax.load(run.path, knowing(graph, train[:6]))
    np.testing.assert_allclose(served.logits([0, 1]), none[:2], rtol=1e-4, atol=1e-4)


def test_labels_of_some_classes_alone_do_not_rule_out_the_others(trained):
    run, graph = trained
    known = graph.splits["train"]
    two = knowing(graph, known[graph.labels[known] != 1])  # encoded as 0 and 1, as `from_arrays` does
    two = replace(
        two,
        labels=np.where(two.labels == 2, 1, two.labels).astype(np.int32),
        schema=replace(two.schema, classes=2),
        names=replace(two.names, classes=Ids(["art", "tax"])),
    )
    np.testing.assert_array_equal(run.predict(two).logits, run.predict(knowing(graph, known[:0])).logits)


def test_of_several_labels_each_is_known_of_enough_nodes():
    graph = two_labels(shop("all"))
    assert not too_few(graph, graph) and "no training nodes" in too_few(forgotten(graph), graph)
    train = graph.splits["train"]
    assert "of class '0' 0 of 600 nodes" in too_few(knowing(graph, train[graph.labels[train, 0] == 0]), graph)


READS_LABELS = {
    "label inputs": ("--data.label_inputs=true",),
    "metapaths": (*METAPATHS, "--data.metapath_label_hops=1"),
}


@pytest.mark.parametrize("way", READS_LABELS)
def test_predictions_say_the_split_where_no_label_is_an_input_and_graphs_are_read_once(way, tmp_path, monkeypatch):
    graph = named(communities(True, "nothing"))
    run(graph, tmp_path / "run", *READS_LABELS[way])
    train = graph.splits["train"][:3]
    store.save(knowing(graph, train), tmp_path / "other")
    read = []
    monkeypatch.setattr(restored, "load", lambda data: read.append(data) or load(data))
    found = hetjax.predict(tmp_path / "run", tmp_path / "other")
    assert np.flatnonzero(found.split == 0).tolist() == train.tolist() and (found.split[found.split != 0] == -1).all()
    paths = [data.path for data in read]
    assert paths.count(str(tmp_path / "other")) == 1 and len(paths) == 3  # and the trained graph, as made and as read
