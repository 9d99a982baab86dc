"""Warm starts, and what new nodes get: held against loops over neighbours, and as commands."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import hetjax
from hetjax.graph import store
from hetjax.graph.carry import of_neighbours
from hetjax.graph.csc import CSC, edges_of
from hetjax.graph.label_inputs import with_labels
from hetjax.inference import warm
from hetjax.inference.restored import restore
from hetjax.options.config import Mesh
from hetjax.sharding.registry import make_engine
from hetjax.system.errors import InputError
from hetjax.train_graph import _config as config_of
from tests.support.commands import here
from tests.support.graphs import random_graph
from tests.support.people import OPTIONS, wrote


def by_loops(graph, node_type, unknown, table, where):
    """The mean over the neighbours of each new node, pair by pair."""

    def neighbours(of, node):
        found = set()
        for relation, csc in graph.relations.items():
            for source, target in zip(*map(np.asarray, edges_of(csc))):
                if (relation.target, target) == (of, node):
                    found.add((relation.source, int(source)))
                if (relation.source, source) == (of, node):
                    found.add((relation.target, int(target)))
        return found

    rows = {}
    for node in unknown:
        given = []
        for other, number in neighbours(node_type, node):
            known = [number] if other == node_type else [n for t, n in neighbours(other, number) if t == node_type]
            known = [where[n] for n in known if where[n] >= 0]
            given += [table[known].astype(float).mean(axis=0)] if known else []
        if given:
            rows[int(node)] = np.mean(given, axis=0)
    return rows


@pytest.mark.parametrize("node_type", ["author", "venue", "paper"])
def test_new_nodes_get_the_mean_of_their_neighbours(node_type):
    graph = random_graph(2)
    count, rng = graph.schema.nodes[node_type], np.random.default_rng(0)
    where = np.arange(count)
    where[[0, 3, count - 1]] = -1  # the last has no edges in the random graph
    table = rng.standard_normal((count, 4), np.float32)
    unknown = np.flatnonzero(where < 0)
    nodes, rows = of_neighbours(graph, node_type, unknown, where, table)
    expected = by_loops(graph, node_type, unknown, table, where)
    assert nodes.tolist() == sorted(expected) and len(nodes)
    np.testing.assert_allclose(rows, [expected[node] for node in nodes], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run on four authors, and a store with a fifth, in another order."""
    folder = tmp_path_factory.mktemp("warm")
    run = hetjax.train(wrote(list("abcd"), list("wxyz")), folder / "run", **OPTIONS)
    store.save(wrote(list("daebc"), list("zwxxy")), folder / "later")
    return run, folder / "later"


def warm_config(run, later, **options):
    given = [
        "--data.format=store",
        f"--data.path={later}",
        f"--train.init_from={run.path}",
        "--train.epochs=2",
        "--train.recipe=none",
    ]
    for key in ("hidden", "feature_width"):
        given.append(f"--model.{key}={OPTIONS[key]}")
    given += [
        "--sampling.mode=full",
        "--sampling.fanout=[2,2]",
        *(f"--{key}={value}" for key, value in options.items()),
    ]
    return config_of(given)


@pytest.mark.parametrize("mesh", [(1, 1), (2, 1), (1, 2, "vanilla"), (1, 2, "dependency"), (1, 1, "tensor", 2)])
def test_a_warm_start_has_the_weights_and_the_rows_by_ids(first, mesh):
    """However devices share the work."""
    run, later = first
    graph = store.open(later)
    config = dataclasses.replace(warm_config(run, later), mesh=Mesh(*mesh))
    engine = make_engine(config, graph)
    begun = warm.warm_start(config, engine.trainer)
    state = engine.gather(engine.shard(begun.state))
    before = restore(run.path)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, state.params), before.params)
    table, old = state.tables["author"], dict(zip("abcd", before.features["author"]))
    for name, row in zip("daebc", np.asarray(table.rows)):
        expected = old["b"] if name == "e" else old[name]  # e wrote x alone, which b wrote
        np.testing.assert_array_equal(row, expected)
    assert int(state.step) == 0 and not np.any(table.mu) and not np.any(table.count)
    assert (begun.kept, begun.new) == ({"author": 4}, {"author": 1})


def test_fresh_rows_are_those_of_a_run_without_a_warm_start(first):
    run, later = first
    config = warm_config(run, later, **{"train.init_new": "fresh"})
    engine = make_engine(config, store.open(later))
    begun, plain = warm.warm_start(config, engine.trainer).state, engine.init(0)
    np.testing.assert_array_equal(begun.tables["author"].rows[2], plain.tables["author"].rows[2])
    assert not np.array_equal(begun.tables["author"].rows[0], plain.tables["author"].rows[0])


def test_a_warm_run_resumes_and_says_what_it_kept(first, tmp_path):
    run, later = first
    options = ["--data.format", "store", "--data.path", later, "--sampling.mode", "full", "--sampling.fanout", "[2,2]"]
    options += ["--model.hidden", "8", "--model.feature_width", "8", "--init_from", run.path, "--train.recipe=none"]
    whole = here("hetjax.train", "--workdir", tmp_path / "whole", *options, "--train.epochs", "3")
    assert whole.returncode == 0, whole.stderr
    assert f"weights of {run.path}, as " in whole.stdout
    assert "learned features of author: 4 rows kept, 1 new: the mean of their neighbours" in whole.stdout
    for epochs in ("1", "3"):
        done = here("hetjax.train", "--workdir", tmp_path / "twice", *options, "--train.epochs", epochs)
        assert done.returncode == 0, done.stderr
    losses = [
        [json.loads(line).get("train_loss") for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "twice")
    ]
    assert [loss for loss in losses[0] if loss] == [loss for loss in losses[1] if loss] and len(losses[0]) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model.layers": 1, "sampling.fanout": "[2]"}, r"model.layers is 2 there != 1"),
        ({"model.name": "rgat"}, "model.name is 'rgcn' there != 'rgat'"),
        ({"train.init_from": "/nowhere"}, "/nowhere/config.yaml: no such file, and the folder of a run has one"),
    ],
)
def test_what_does_not_go_with_another_run_is_said(first, options, message):
    run, later = first
    config = warm_config(run, later, **options)
    engine = make_engine(config, store.open(later))
    with pytest.raises(InputError, match=message):
        warm.warm_start(config, engine.trainer)


def test_classes_that_are_called_otherwise_are_refused(first):
    run, later = first
    graph = store.open(later)
    config = warm_config(run, later)
    trainer = make_engine(config, graph).trainer
    turned = dataclasses.replace(
        graph, names=dataclasses.replace(graph.names, classes=hetjax.graph.names.Ids(["late", "early"]))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm, "load", lambda data, target: turned)
        with pytest.raises(InputError, match="class 0 is 'early' there != 'late'"):
            warm.warm_start(config, trainer)


def test_label_inputs_of_other_relations_are_refused():
    """A graph whose relations have other sizes has its columns in another order."""
    graph = random_graph(5)
    thin, (relation, csc) = dict(graph.relations), max(graph.relations.items(), key=lambda one: one[1].edges)
    thin[relation] = CSC(np.minimum(csc.indptr, 1), csc.indices[:1])
    one, other = with_labels(graph), with_labels(dataclasses.replace(graph, relations=thin))
    warm._check_ways("run", one, one)
    with pytest.raises(InputError, match="^run: labels as inputs came along "):
        warm._check_ways("run", other, one)
