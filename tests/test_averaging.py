"""Model averaging: equal to a plain loop over the partitions, to one device where there is one partition; turns, resuming, errors."""

import itertools
import json
import shutil
from dataclasses import replace
from unittest import mock

import jax
import numpy as np
import pytest

from hetjax.graph import store
from hetjax.graph.columns import UNLABELLED
from hetjax.kernels import grouping, orders, sparse
from hetjax.options.config import Config
from hetjax.partition import edge_cut
from hetjax.partition.divided import Divided
from hetjax.partition.neighbourhood import subgraphs
from hetjax.partition.stream import command
from hetjax.sharding.averaging.examples import LocalTask
from hetjax.sharding.averaging.turns import Turns
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from hetjax.tasks import registry as tasks
from tests.support.commands import SMALL, train
from tests.support.equivalence import GRAPHS, MODELS, few, homogeneous, initial, setting
from tests.support.graphs import random_graph
from tests.support.many import free_port, run
from tests.support.models import in_chunks
from tests.support.runs import losses


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The random graph with some of its relations, as a store."""
    path = tmp_path_factory.mktemp("stored") / "store"
    store.save(few("cites", "writes", "written_by", "publishes"), path)
    return path


SAGE = {"name": "sage"}


def engine_of(graph, devices: int, mode: str, model: dict, task: str = "node_classification", **options):
    """With an even division, whatever the graph."""
    given = {"task": task, "options": {"partitioning": "contiguous"} | options}
    return make_engine(setting(graph, mode, (1, devices, "averaging"), model, given), graph)


def trained(engine, steps: int, wide: bool = False):
    state, found = engine.shard(initial(engine.trainer, wide)), []
    for batch in itertools.islice(all_batches(engine), steps):
        state, loss = engine.step(state, batch)
        found.append(float(loss))
    return state, found


def all_batches(engine):
    return (drawn.batch for epoch in itertools.count() for drawn in engine.batches.epoch(epoch))


class Local(LocalTask):
    """That of a member, with all that a trainer is made from."""

    def __getattr__(self, name):
        return getattr(self.task, name)


def plainly(graph, engine, config: Config, epochs: int, every: int, moments: bool):
    """Every partition by the step of one device on its subgraph, and averages in numpy: the weights, and the tables of each partition."""
    cut, whole = engine.cut, jax.tree.map(np.asarray, initial(engine.trainer, True))
    task, train = engine.setup.task, engine.setup.task.examples("train")
    trained = [train[task.node_values(train, cut.nodes) == part] for part in range(cut.parts)]
    subs = subgraphs(graph, cut.owned, range(cut.parts), 1, seeds=[task.seeds(own).nodes for own in trained])
    single = replace(config, mesh=replace(config.mesh, data=1, strategy="single"), strategies={})
    engines = []
    for sub, own in zip(subs.values(), trained):
        with mock.patch.object(tasks, "make", return_value=Local(task, own, sub.nodes)):
            engines.append(make_engine(single, sub.graph))
    states = []
    for sub, one in zip(subs.values(), engines):
        rows = {t: type(table)(*(leaf[sub.nodes[t]] for leaf in table)) for t, table in whole.tables.items()}
        states.append(one.shard(whole._replace(tables=rows)))
    shares = np.array(list(map(len, trained)), float)
    shares /= shares.sum()
    begun = [{t: np.array(table.count) for t, table in state.tables.items()} for state in states]
    for epoch in range(epochs):
        for number, one in enumerate(engines):
            for drawn in one.batches.epoch(epoch):
                states[number], _ = one.step(states[number], drawn.batch)
        if (epoch + 1) % every == 0:
            states = numpy_average(graph, subs, jax.tree.map(np.array, states), shares, begun, moments)
            begun = [{t: table.count.copy() for t, table in state.tables.items()} for state in states]
            states = [one.shard(state) for one, state in zip(engines, states)]
    return subs, jax.tree.map(np.asarray, states)


def numpy_average(graph, subs, states, shares, begun, moments):
    def mean(*leaves):
        return sum(share * leaf for share, leaf in zip(shares, leaves))

    params = jax.tree.map(mean, *(state.params for state in states))
    optimizers = [state.optimizer for state in states]
    if moments:
        average = jax.tree.map(mean, *optimizers)
        optimizers = [jax.tree.map(lambda own, of: of if own.ndim else own, own, average) for own in optimizers]
    tables = [dict(state.tables) for state in states]
    for t in states[0].tables:
        for node in range(graph.schema.nodes[t]):
            have = [
                (k, int(np.searchsorted(sub.nodes[t], node)))
                for k, sub in enumerate(subs.values())
                if node in sub.nodes[t]
            ]
            updates = np.array([states[k].tables[t].count[row] - begun[k][t][row] for k, row in have], float)
            if len(have) == 1 or not updates.any():
                continue
            weights = updates / updates.sum()
            for name in ("rows", "mu", "nu") if moments else ("rows",):
                value = sum(w * getattr(states[k].tables[t], name)[row].copy() for w, (k, row) in zip(weights, have))
                for k, row in have:
                    getattr(tables[k][t], name)[row] = value
            if moments:
                for k, row in have:
                    tables[k][t].count[row] = begun[k][t][row] + round(float((weights * updates).sum()))
    return [state._replace(params=params, optimizer=o, tables=of) for state, o, of in zip(states, optimizers, tables)]


CASES = [
    (lambda: few("cites", "writes", "written_by"), "minibatch", "R-GCN", 2, 3, True, "node_classification"),
    (lambda: few("cites", "writes"), "full", "HGT, joint", 2, 2, False, "node_classification"),
    (homogeneous, "full", "SAGE", 3, 3, True, "node_classification"),
    (lambda: few("writes", "written_by"), "minibatch", "R-GCN", 2, 2, True, "tests.support.pairs:Pairs"),
]


@pytest.mark.parametrize(("graph", "mode", "model", "devices", "parts", "moments", "task"), CASES)
def test_equals_a_plain_loop(graph, mode, model, devices, parts, moments, task):
    """Weights, moments, learnable rows and counts, after two averages and an epoch more, in float64."""
    graph, options = graph(), {"every": 2, "partitions": parts, "moments": moments}
    with jax.enable_x64(True):
        engine = engine_of(graph, devices, mode, MODELS[model], task, **options)
        subs, expected = plainly(graph, engine, engine.setup.config, 5, 2, moments)
        state, _ = trained(engine, 5 * engine.batches.steps(), wide=True)
        for part in subs:
            found = jax.tree.map(np.asarray, state.parts[part].state)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), found, expected[part])


def test_relations_that_partitions_fold_together_are_averaged_each_with_itself(monkeypatch):
    """Partitions have them in different orders, by how many edges each has of them; in float64."""
    graph, found = random_graph(), []
    with jax.enable_x64(True):
        for fewest in (1, 1000):
            monkeypatch.setattr(grouping, "FEWEST", fewest)
            engine = engine_of(graph, 2, "full", MODELS["R-GCN"], every=1, partitions=2)
            state, losses = trained(engine, 4, wide=True)
            found.append((losses, engine.gather(state).params, engine.outputs(state, graph.splits["validation"])))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), *found)


@pytest.mark.parametrize(("graph", "mode"), [("homogeneous", "full"), ("few relations", "minibatch")])
def test_one_partition_averaged_every_step_is_ordinary_training(graph, mode, monkeypatch):
    """To the last bit: losses, weights, moments, learnable rows, and logits of chunks if products and folds come in the same order."""
    model = MODELS["GCN" if graph == "homogeneous" else "R-GCN, dropout"]
    graph = GRAPHS[graph]()
    one = make_engine(setting(graph, mode, (1, 1, "single"), model, {}), graph)
    other = engine_of(graph, 1, mode, model)
    assert type(other).__name__ == "AveragingEngine"
    (state, expected), (averaged, found) = ((trained(engine, 5)) for engine in (one, other))
    assert found == expected
    ids = graph.splits["validation"]
    monkeypatch.setattr(
        orders, "multiplies_first", lambda work: False
    )  # as each evaluation chooses by the rows it has room for
    monkeypatch.setattr("hetjax.sampling.whole.MOST", 0)  # all nodes, as partitions embed all of their own
    chunked = in_chunks(one, state, ids)
    np.testing.assert_array_equal(other.outputs(averaged, ids), chunked)
    np.testing.assert_allclose(one.outputs(state, ids), chunked, rtol=1e-5, atol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, tuple(other.gather(averaged))[:4], tuple(one.gather(state)))


@pytest.mark.parametrize("devices", [2])
def test_partitions_that_take_turns_train_as_on_devices_of_their_own(devices):
    """And a device has the static features of one of them at a time."""
    graph = random_graph(3)
    with jax.enable_x64(True):
        some, many = (engine_of(graph, n, "minibatch", MODELS["R-GCN"], partitions=3) for n in (devices, 3))
        (one, _), (other, _) = (trained(engine, 4 * engine.batches.steps(), wide=True) for engine in (some, many))
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)  # noqa: E731
        jax.tree.map(close, tuple(some.gather(one))[1:4], tuple(many.gather(other))[1:4])
        ids = graph.splits["test"]
        np.testing.assert_allclose(some.outputs(one, ids), many.outputs(other, ids), rtol=1e-4, atol=1e-5)
    held = {part: bool(member.engine.static) for part, member in some.members.items()}
    assert sum(held.values()) == devices and sum(bool(m.engine.static) for m in many.members.values()) == 3
    some.shard(some.gather(one))  # as a run does before it reads the test nodes
    assert not any(member.engine.static for member in some.members.values())


def test_features_without_zeros_are_made_once_and_take_turns(monkeypatch):
    """Those of every partition when it is made; what comes back to the device is the same."""
    given, calls = homogeneous(60), []
    graph = replace(given, features={"node": np.where(given.features["node"] > 1.5, given.features["node"], 0)})
    monkeypatch.setattr(
        "hetjax.cache.features.compact", lambda matrix: calls.append(len(matrix)) or sparse.compact(matrix)
    )
    some, many = (engine_of(graph, devices, "full", MODELS["GCN"], partitions=3) for devices in (1, 3))
    assert len(calls) == 6
    (one, found), (other, expected) = (trained(engine, 2 * engine.batches.steps()) for engine in (some, many))
    assert len(calls) == 6 and all(isinstance(m.static["node"], sparse.SparseRows) for m in some.members.values())
    jax.tree.map(np.testing.assert_array_equal, tuple(some.gather(one))[1:4], tuple(many.gather(other))[1:4])


def test_turns():
    turns = Turns((3, 1, 2, 4, 1), 2)
    assert [list(turns.of(device)) for device in range(2)] == [[0, 2, 4], [1, 3]] and turns.epoch == 6
    assert [turns.done(4, step) for step in (0, 5, 6, 11, 12)] == [0, 0, 1, 1, 2]
    assert [turns.done(3, step) for step in (0, 1, 2, 5, 6, 8)] == [0, 0, 1, 4, 4, 5]


def test_a_subgraph_has_all_neighbours():
    """With as many hops as layers a partition computes of its nodes what the whole graph's model computes."""
    graph, model = few("cites", "writes", "written_by"), MODELS["R-GCN, residual"]
    engine = engine_of(graph, 2, "full", model, hops=2)
    state = engine.init(0)
    one = make_engine(setting(graph, "full", (1, 1, "single"), model, {}), graph)
    expected = one.outputs(one.init(0), np.arange(40))
    for part, member in engine.members.items():
        own = member.sub.own["paper"]
        found = member.engine.outputs(state.parts[part].state, own)
        np.testing.assert_allclose(found, expected[member.sub.nodes["paper"][own]], rtol=1e-4, atol=1e-5)


def test_edges_of_a_subgraph():
    """Those with an end that is trained there, by a loop over all; loops that a model added stay."""
    graph = setup(setting(homogeneous(), "full", (1, 1), {"name": "gcn"}, {}), homogeneous()).graph
    (csc,), cut = graph.relations.values(), edge_cut(graph, 3, "random")
    for part, sub in subgraphs(graph, cut.owned, range(3), 1).items():
        own, nodes = cut.nodes["node"] == part, sub.nodes["node"]
        (found,) = sub.graph.relations.values()
        expected = []
        for v in range(40):
            into = csc.indices[csc.indptr[v] : csc.indptr[v + 1]]
            expected += [(u, v) for u in into if own[u] or own[v] or (u == v and v in nodes)]
        ends = zip(nodes[found.indices], np.repeat(nodes, np.diff(found.indptr)))
        assert list(ends) == expected and found.loops
        near = {u for u, v in expected if own[v]} | {v for u, v in expected if own[u]} | set(np.flatnonzero(own))
        assert set(nodes) == near
        assert not any(map(len, sub.graph.splits.values())) and np.all(sub.graph.labels == UNLABELLED)


@pytest.mark.parametrize("hops", [1, 2])
def test_what_a_stream_was_divided_into_is_trained(stored, tmp_path, hops):
    """Nodes and features are those of the folder; and they are what a partition would seek in the graph."""
    out = tmp_path / "out"
    command.run(command.Options(parts=3, method="hdrf", hops=hops), {"stream": str(stored), "out": str(out)})
    graph = store.open(stored)
    engine = engine_of(graph, 2, "minibatch", {}, partitioning="auto", folder=str(out), hops=hops)
    assert engine.cut.method == "hdrf" and len(engine.members) == 3
    divided, sought = Divided(out, graph), subgraphs(engine.setup.graph, engine.cut.owned, range(3), hops)
    for part, member in engine.members.items():
        found, expected = member.sub, sought[part]
        leaves = [
            jax.tree.leaves([dict(of) for of in (one.nodes, one.own, one.graph.features, one.graph.splits)])
            for one in (found, expected)
        ]
        np.testing.assert_array_equal(found.graph.labels, expected.graph.labels)
        for one, other in zip(*leaves, strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(found.graph.relations.values(), expected.graph.relations.values(), strict=True):
            np.testing.assert_array_equal(one.indices, other.indices)
            np.testing.assert_array_equal(one.indptr, other.indptr)
        own = divided.content(part).features
        assert own and all(member.sub.graph.features[t].base is not None for t in own)
    with pytest.raises(InputError, match=f"divided with hops {hops} != 3 of averaging.hops"):
        engine_of(graph, 2, "minibatch", {}, partitioning="auto", folder=str(out), hops=3)
    with pytest.raises(InputError, match="3 partitions, fewer than the 4 devices"):
        engine_of(graph, 4, "minibatch", {}, partitioning="auto", folder=str(out), hops=hops)
    with pytest.raises(InputError, match="nodes were divided != "):
        Divided(out, homogeneous())


def test_what_an_average_sends():
    """The closed formula of docs/strategies/averaging.md."""
    graph = few("cites", "writes", "written_by")
    engine = engine_of(graph, 2, "full", MODELS["R-GCN"])
    trained(engine, 3)
    weights = sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(engine.trainer.weights, 0).params))
    counts = sum(np.isin(np.arange(25), member.sub.nodes["author"]) for member in engine.members.values())
    shared = int((counts > 1).sum())
    assert shared and sum(one.bytes for one in engine.traffic()) == 2 * 4 * (3 * weights + shared * (3 * 6 + 2))


def options_of(graph_store, *more):
    given = ["--data.format", "store", "--data.path", graph_store, *SMALL, "--mesh.strategy", "averaging"]
    return [*given, "--mesh.data", "2", "--averaging.every", "3", "--train.checkpoint_steps", "1", *more]


@pytest.fixture(scope="module")
def divided_run(stored, tmp_path_factory):
    """A run in one process, of three partitions on two devices, and its options."""
    workdir = tmp_path_factory.mktemp("runs") / "run"
    options = options_of(stored, "--averaging.partitions", "3", "--averaging.moments", "false")
    done = train(workdir, *options)
    assert done.returncode == 0, done.stderr
    return workdir, options


def test_a_run_that_is_killed_between_two_averages_goes_on_to_the_same_bits(divided_run, tmp_path):
    whole, options = divided_run
    shutil.copytree(whole, tmp_path / "again")
    (tmp_path / "again" / "summary.json").unlink()
    shutil.rmtree(max((tmp_path / "again" / "checkpoints").iterdir()))
    newest = max((tmp_path / "again" / "checkpoints").iterdir())
    assert any((newest / "own").iterdir())
    done = train(tmp_path / "again", *options)
    assert done.returncode == 0 and "continuing from" in done.stdout, done.stderr
    assert losses(tmp_path / "again") == losses(whole)
    summary = json.loads((whole / "summary.json").read_text())["details"]
    assert len(summary["partitions"]) == 3 and 1 < summary["replication_factor"] <= 3


def test_two_processes_train_as_one_and_go_on_where_they_were(divided_run, tmp_path):
    """With two partitions in one and one in the other, and a checkpoint in the middle of an epoch and between two averages."""
    whole, options = divided_run
    about = ["-m", "hetjax.train", "--workdir", tmp_path / "two", *options, "--start_seconds", 60, "--num_processes", 2]

    def together() -> list[float]:
        port = ["--coordinator", f"localhost:{free_port()}"]
        done = run(tmp_path, [[*about, *port, "--process_id", number] for number in range(2)])
        assert [status for status, _ in done] == [0, 0]
        return losses(tmp_path / "two")

    found = together()
    assert not (tmp_path / "two" / "tables").exists()
    np.testing.assert_allclose(found, losses(whole), rtol=1e-4)
    (tmp_path / "two" / "summary.json").unlink()
    shutil.rmtree(max((tmp_path / "two" / "checkpoints").iterdir()))
    assert together() == found


def test_a_checkpoint_between_averages_moves_to_one_device(stored, tmp_path):
    """It has the average, which another way of training goes on from."""
    done = train(tmp_path / "run", *options_of(stored, "--sampling.mode", "full"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "run" / "summary.json").unlink()
    shutil.rmtree(max((tmp_path / "run" / "checkpoints").iterdir()))
    assert any((max((tmp_path / "run" / "checkpoints").iterdir()) / "own").iterdir())
    plain = ["--data.format", "store", "--data.path", stored, *SMALL, "--sampling.mode", "full"]
    done = train(tmp_path / "run", *plain, "--train.checkpoint_steps", "1")
    assert done.returncode == 0 and "continuing from" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--averaging.partitions", "1"), "averaging.partitions is 1, fewer than the 2 devices of mesh.data"),
        (("--averaging.every", "0"), "averaging.every is 0, and must be at least 1"),
        (("--averaging.hops", "0"), "averaging.hops is 0, and must be at least 1"),
        (("--averaging.partitions", "60"), "of the 13 training examples: give fewer averaging.partitions"),
        (("--averaging.partitions", "65"), "averaging.partitions is 65, and must be at most 64"),
        (("--averaging.folder", "x", "--averaging.partitions", "3"), "must be left alone"),
        (("--averaging.folder", "nowhere"), "nowhere/manifest.json"),
        (("--cache.bytes_per_device", "100"), "keeps all features on the devices"),
    ],
)
def test_errors(stored, tmp_path, more, words):
    done = train(tmp_path / "run", *options_of(stored, *more))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and words in line, done.stderr
    assert not (tmp_path / "run").exists()
