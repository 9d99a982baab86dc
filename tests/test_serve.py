"""A model served from Python: a few nodes from their full neighbourhoods, against the whole graph and against `predict`."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hetjax
from hetjax.graph.names import Names
from hetjax.inference.restored import Restored
from hetjax.inference.serve import Served
from hetjax.options.config import Config
from hetjax.sampling.ladder import STEP, Ladder
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from hetjax.tasks.metrics import quality
from tests.support.graphs import random_graph
from tests.support.people import OPTIONS, people
from tests.support.single import MODELS, setting, whole_graph


@pytest.mark.parametrize("options", [MODELS[number] for number in (1, 3, 5, 6, 8, 9)])
def test_any_nodes_equal_the_whole_graph(options):
    """In float64, layer by layer, of every type that a layer makes embeddings of, one node and several."""
    graph = random_graph(3)
    with jax.enable_x64(True):
        config, trainer, static = setting(graph, **options)
        state = eagerly(trainer.init, np.int32(0))
        wide = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype == jnp.float32 else leaf, state)
        features = static | {name: table.rows for name, table in wide.tables.items()}
        blocks = whole_graph(graph, 2).batch.blocks
        expected = jax.jit(lambda params, x: trainer.model.apply(params, 0, blocks[0], x, method="embed"))
        below = expected(wide.params, features)
        logits = np.asarray(jax.jit(trainer.model.apply)(wide.params, blocks, features))
        x = {name: np.asarray(matrix) for name, matrix in features.items()}
        model = Served(Restored(config, trainer.task, trainer.model, wide.params, graph, x, [], "", {}))
        for ids in ([5], [39, 0, 5, 5, 17], range(40), []):
            np.testing.assert_allclose(model.logits(ids), logits[list(ids)], rtol=1e-9, atol=1e-12)
        for name in below.keys() - {"paper"}:
            if len(below[name]) > 3:
                np.testing.assert_allclose(model.embeddings(name, [3, 1]), below[name][np.array([3, 1])], rtol=1e-9)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return hetjax.train(people(), tmp_path_factory.mktemp("served") / "run", **OPTIONS)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_run_is_loaded_and_asked_by_the_users_ids(run, ahead):
    model, every = hetjax.load(run.path, ahead=ahead), run.predict(embeddings=True)
    asked = ["p7", "p0", "p7"]
    numbers = [7, 0, 7]
    np.testing.assert_allclose(model.proba(asked), every.probabilities[numbers], rtol=1e-5)
    assert model.predict(asked).tolist() == [every.class_names[every.classes[number]] for number in numbers]
    np.testing.assert_allclose(model.embeddings("person", asked), every.embeddings[numbers], rtol=1e-5, atol=1e-6)
    assert model.embeddings("person", "p3").shape == (1, 8) and model.predict("p3").shape == (1,)
    assert model.embeddings("city", [2, 0]).shape == (2, 8) and model.class_names == every.class_names
    assert model.predict([]).shape == (0,) and model.target == "person"


def test_a_threshold_that_validation_chose_is_that_of_test_predictions_and_answers(tmp_path):
    graph = people()
    labels = np.stack([np.arange(12) % 2, np.arange(12) % 5 == 0, np.zeros(12)], axis=1).astype(np.int8)
    graph = replace(graph, labels=labels, schema=replace(graph.schema, classes=3), names=Names(graph.names.nodes))
    run = hetjax.train(graph, tmp_path / "run", **OPTIONS, threshold="validation")
    found, test, summary = run.predict(), graph.splits["test"], run.summary
    assert found.threshold == summary["threshold"] == run.records[summary["epoch"] - 1]["validation_threshold"] != 0.5
    np.testing.assert_array_equal(found.classes, found.probabilities > found.threshold)
    assert summary["test_micro_f1"] == quality(found.logits[test], labels[test], threshold=found.threshold)["micro_f1"]
    np.testing.assert_array_equal(hetjax.load(run.path).predict(["p7", "p0"]), found.classes[[7, 0]])


def test_what_cannot_be_asked_is_said(run):
    model = hetjax.load(run.path)
    for ask, message in (
        (lambda: model.predict(["p3", "p99"]), "type 'person' has no node 'p99'"),
        (lambda: model.predict([3]), "type 'person' has no node 3"),
        (lambda: model.embeddings("town", [0]), r"node type 'town' is not among \['city', 'person'\]"),
        (lambda: model.embeddings("city", [3]), "type 'city' has no node 3"),
        (lambda: model.embeddings("city", [0.5]), "type 'city' has no ids of yours: give whole numbers"),
        (lambda: hetjax.load(run.path / "none"), "config.yaml: no such file"),
    ):
        with pytest.raises(InputError, match=message):
            ask()


def test_few_programs_serve_all_nodes():
    """Every node of a graph alone, and some together: as many programs as rungs, of which the highest has all."""
    graph = random_graph(5, papers=200, degree=6)
    _, trainer, _ = setting(graph)
    state = eagerly(trainer.init, np.int32(0))
    features = dict(graph.features) | {name: np.asarray(table.rows) for name, table in state.tables.items()}
    model = Served(Restored(Config(), trainer.task, trainer.model, state.params, graph, features, [], "", {}))
    for node in range(200):
        model.logits(node)
    model.logits(range(50))
    assert model.programs <= 4


def test_a_rung_has_room_for_all():
    ladder = Ladder([{"a": (10, 1000), "b": (100, 300)}, {"a": (20, 1000), "b": (100, 300)}])
    assert ladder.lowest == {"a": 16, "b": 104}
    assert ladder.fitting({"a": (16, 1000), "b": (3, 300)}) == {"a": 16, "b": 104}
    assert ladder.fitting({"a": (17, 1000), "b": (3, 300)}) == {"a": 16 * STEP, "b": 300}
    assert ladder.fitting({"a": (1000, 1000), "b": (0, 300)})["a"] == 1000
