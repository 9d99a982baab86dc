"""Vanilla execution: rows come from their owners and gradients go back; it equals one device; the command line."""

import json
import sys
from dataclasses import replace
from typing import get_args, get_type_hints

import jax
import numpy as np
import pytest

from hetjax.graph import store
from hetjax.options.command_line import run_command
from hetjax.partition import EdgeCut, edge_cut, save
from hetjax.processes.group import ProcessGroup
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.sharding.vanilla.declared import Options
from hetjax.sharding.vanilla.strategy import Vanilla
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from hetjax.train import main
from tests.support.commands import SMALL, train_anew
from tests.support.edge_cuts import lopsided
from tests.support.equivalence import MODELS, compare, few, setting, several_labels
from tests.support.graphs import random_graph
from tests.support.runs import continued, losses

VANILLA = ("--mesh.strategy", "vanilla", "--mesh.data", "2")


class Second(ProcessGroup):
    """A process that is not the first, which hands out what is given here."""

    first = False

    def __init__(self, given):
        self.given = given

    def broadcast(self, tag, arrays):
        return self.given


def test_process_0_says_who_owns_what_and_a_continued_run_keeps_to_it(tmp_path):
    graph = random_graph()
    config = setting(graph, "minibatch", (1, 2, "vanilla"), {}, {})
    other = edge_cut(graph, 2, "random", seed=5)
    given, strategy = setup(config, graph), Vanilla()
    assert not np.array_equal(strategy.partition(given).nodes["paper"], other.nodes["paper"])
    save(other, tmp_path / "cut", graph)
    second = setup(config, graph, Second(other.nodes))
    for found in (strategy.partition(second), strategy.partition(given, tmp_path / "cut")):
        for name, of in other.nodes.items():
            np.testing.assert_array_equal(found.nodes[name], of)
    with pytest.raises(InputError, match="cut"):
        strategy.partition(setup(config, random_graph(papers=50)), tmp_path / "cut")


def test_a_run_takes_every_method():
    assert EdgeCut.methods == get_args(get_type_hints(Options)["partitioning"])
    graph, strategy = random_graph(), Vanilla()
    plain = setting(graph, "minibatch", (1, 2, "vanilla"), {}, {})
    for method in EdgeCut.methods:
        config = replace(plain, strategies={"vanilla": Options(method)})
        made, expected = strategy.partition(setup(config, graph)), edge_cut(graph, 2, method)
        assert made.method == method and strategy.partition_name(config) == f"partition_vanilla_{method}_2"
        assert all(np.array_equal(made.nodes[name], of) for name, of in expected.nodes.items())


def test_rows_are_kept_and_found():
    owned = edge_cut(random_graph(), 3, "random").owned
    for name, of in owned.owner.items():
        matrix = np.random.default_rng(0).standard_normal((len(of), 2))
        taken = np.concatenate([owned.take(name, matrix, part) for part in range(3)])
        assert len(taken) == 3 * owned.rows[name]
        np.testing.assert_array_equal(owned.whole(name, taken), matrix)


def test_equals_one_device():
    """In float32, as it is trained."""
    errors = compare(random_graph(3), (1, 4, "vanilla"), "minibatch", MODELS["R-GCN, one-hot"])
    assert errors.loss < 1e-5 and errors.gradient < 1e-5 and errors.state < 1e-4


@pytest.mark.parametrize(
    ("parts", "mode", "model"),
    [
        (2, "minibatch", "HGT, relation"),
        (4, "minibatch", "HGNN, mean"),
        (2, "minibatch", "R-GAT, dropout"),
    ],
)
def test_equals_one_device_in_double_precision(parts, mode, model):
    """All differences then are rounding. `dependency.mode cache`, which this is, has other models in tests/test_dependency.py and in `experiments/dependency_equivalence.py`."""
    errors = compare(few("cites", "writes"), (1, parts, "vanilla"), mode, MODELS[model], wide=True)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9, errors


@pytest.mark.parametrize(("mode", "model"), [("minibatch", "R-GCN, residual"), ("full", "R-GCN, bases")])
def test_a_lopsided_cut_with_penalty_clipping_and_decay(mode, model):
    """All seeds in one partition, another that owns nothing of a type: every row is counted once, wherever it is read."""
    graph = several_labels(few("cites", "writes", "written_by", "of"))
    more = {
        "l2": 0.01,
        "gradient_clip": 0.05,
        "weight_decay": 0.1,
        "label_smoothing": 0.1,
        "schedule": "cosine",
        "class_weights": "balanced",
    }
    errors = compare(graph, (1, 4, "vanilla"), mode, MODELS[model], plan=lopsided(graph, 4), **more)
    assert errors.loss < 1e-5 and errors.gradient < 1e-5 and errors.state < 1e-4


def test_a_state_moves_between_one_device_vanilla_and_raf():
    """A checkpoint has one form: what is placed and taken back is the same to the last bit."""
    graph = random_graph(3)
    config = setting(graph, "minibatch", (1, 1), {}, {})
    state = learned = eagerly(setup(config, graph).trainer.init, np.int32(0))
    for shape in ((1, 4, "vanilla"), (2, 1), (1, 2, "vanilla")):
        config = setting(graph, "minibatch", shape, {}, {})
        engine = make_engine(config, graph)
        learned = engine.gather(engine.shard(learned))
        assert jax.tree.structure(learned) == jax.tree.structure(state)
        jax.tree.map(np.testing.assert_array_equal, learned, state)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run on two partitions, and the options that it was given."""
    folder = tmp_path_factory.mktemp("vanilla")
    store.save(few("cites", "writes"), folder / "graph")
    options = ["--data.format", "store", "--data.path", folder / "graph", *SMALL]
    done = train_anew(folder / "run", *options, *VANILLA, "--verbose")
    assert done.returncode == 0, done.stderr
    assert "sent in a step" in done.stdout
    return folder / "run", list(map(str, options))


def test_a_run_says_how_nodes_are_divided_and_what_it_sent(finished):
    run, _ = finished
    summary = json.loads((run / "summary.json").read_text())
    mesh = {"relation": 1, "data": 2, "feature": 1, "strategy": "vanilla", "vanilla": {"partitioning": "random"}}
    assert summary["mesh"] == mesh
    assert json.loads((run / "partition_vanilla_random_2" / "manifest.json").read_text())["method"] == "random"
    kinds = {one["kind"] for one in summary["sent_per_step"]}
    assert kinds == {"remote_features", "remote_learnable_rows", "gradients"}
    weights = summary["weights"]
    assert {"kind": "gradients", "collective": "all-reduce", "axis": "data", "bytes": 2 * 4 * (weights + 1)} in summary[
        "sent_per_step"
    ]


def test_a_resumed_run_equals_an_undisturbed_one_and_continues_with_raf(finished, tmp_path):
    assert continued(finished, tmp_path / "same", *VANILLA, start=train_anew) == losses(finished[0])
    np.testing.assert_allclose(
        continued(finished, tmp_path / "raf", "--mesh.data", "2"), losses(finished[0]), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--mesh.relation", "2", "--mesh.strategy", "vanilla"],
            "mesh.relation is 2, and must be 1 with mesh.strategy vanilla",
        ),
        (["--vanilla.partitioning", "metis"], "vanilla.partitioning is metis, and is for mesh.strategy vanilla"),
        (
            ["--mesh.data", "5", "--mesh.strategy", "vanilla"],
            "mesh.relation 1 x mesh.data 5 needs 5 devices != 4 (cpu) that there are",
        ),
    ],
)
def test_what_cannot_be_is_one_line(stored, tmp_path, capsys, options, words):
    with pytest.raises(SystemExit) as stopped:
        run_command(
            main,
            [
                "--workdir",
                str(tmp_path / "run"),
                "--data.format",
                "store",
                "--data.path",
                str(stored),
                *SMALL,
                *options,
            ],
        )
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and words in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_metis_that_is_not_installed_is_named(stored, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    options = [
        "--data.format",
        "store",
        "--data.path",
        str(stored),
        *SMALL,
        *VANILLA,
        "--vanilla.partitioning",
        "metis",
    ]
    with pytest.raises(SystemExit):
        run_command(main, ["--workdir", str(tmp_path / "run"), *options])
    assert "metis needs pymetis: pip install 'hetjax[metis]'" in capsys.readouterr().err


@pytest.mark.parametrize(("strategy", "model"), [("vanilla", "R-GCN"), ("dependency", "GIN, no head")])
def test_the_only_learned_type_may_have_no_nodes(strategy, model):
    graph = few("cites", "haunts", "written_by", "writes")
    authors = np.random.default_rng(0).standard_normal((25, 3), np.float32)
    graph = replace(graph, features={"paper": graph.features["paper"], "author": authors})
    errors = compare(graph, (1, 2, strategy), "full", MODELS[model], steps=2, wide=True)
    assert max(errors) < 1e-9
