"""Predicting all nodes: by processes and devices that share them, in files where memory is short, and of another graph."""

import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest

import hetjax
from hetjax.datasets import rdf
from hetjax.graph import store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.inference import predicting
from hetjax.inference.predicting import Room, computed
from hetjax.inference.restored import Restored
from hetjax.kernels import orders
from hetjax.kernels.cost_model import CostModel, Costs, current
from hetjax.options import owners
from hetjax.options.config import Config, Sampling
from hetjax.processes.group import ProcessGroup
from hetjax.sharding.strategy import setup
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from hetjax.tasks.predictions import Predictions
from hetjax.train import main
from tests.support.commands import here, rdf_data, source, train
from tests.support.graphs import random_graph
from tests.support.people import OPTIONS, people
from tests.support.reader_files import TRIPLES


class Together(ProcessGroup):
    """One of several processes, here a thread."""

    def __init__(self, number: int, meeting: threading.Barrier):
        self.number, self.count, self.first, self.meeting = number, meeting.parties, number == 0, meeting

    def barrier(self, tag: str) -> None:
        self.meeting.wait(280)


def fresh(graph, edges: int, **model) -> Restored:
    """A model as it starts, with a graph, so many edges at a time."""
    shape = owners.made_model(**{"hidden": 8, "feature_width": 6} | model)
    config = Config(model=shape, sampling=Sampling(fanout=(2,) * shape.layers, evaluation_edges=edges))
    given = setup(config, graph)
    state = eagerly(given.trainer.init, np.int32(0))
    features = dict(graph.features) | {t: np.asarray(table.rows) for t, table in state.tables.items()}
    return Restored(config, given.task, given.trainer.model, state.params, given.graph, features, [], "", {})


def shared(restored: Restored, folder: Path, count: int) -> list[Predictions | None]:
    """What so many processes find together."""
    meeting, found = threading.Barrier(count), [None] * count
    folder.mkdir()

    def work(number):
        found[number] = computed(restored, True, Room(folder, 0, Together(number, meeting)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_orders_are_counted_as_in_training(monkeypatch):
    restored, before, odd, counted = fresh(random_graph(4), 500), current(), CostModel(Costs(multiply=1.0)), []
    choose = orders.multiplies_first
    monkeypatch.setattr(orders, "multiplies_first", lambda work: counted.append(current()) or choose(work))
    computed(restored._replace(model=restored.model.clone(costs=odd)), False)
    assert set(counted) == {odd} and current() == before


@pytest.mark.parametrize("model", ["rgcn", "hgt"])
def test_processes_and_devices_that_share_the_nodes_find_the_same(tmp_path, model):
    """To the last bit what one finds in files; and what it finds in memory but for rounding, as shapes differ."""
    restored = fresh(random_graph(4), 30, name=model)
    (tmp_path / "alone").mkdir()
    alone = computed(restored, True, Room(tmp_path / "alone", 0))
    first, *others = shared(restored, tmp_path / "three", 3)
    assert others == [None, None]
    devices = computed(restored, True, Room(devices=jax.local_devices()[:3]))
    plain = computed(restored, True)
    for name in "logits", "embeddings":
        np.testing.assert_array_equal(getattr(first, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(devices, name), getattr(alone, name))
        np.testing.assert_allclose(getattr(alone, name), getattr(plain, name), rtol=1e-4, atol=1e-6)
        assert isinstance(getattr(alone, name), np.memmap) and not isinstance(getattr(plain, name), np.memmap)


def peak_of_predicting(nodes: int, folder: Path, memory: int) -> int:
    """The most bytes that Python and numpy hold at a time while nodes of three layers 128 wide are predicted and written."""
    knows, rng = Relation("node", "to", "node"), np.random.default_rng(0)
    schema = Schema({"node": nodes}, (knows,), "node", 3)
    features = {"node": rng.standard_normal((nodes, 3), np.float32)}
    edges = {knows: tuple(rng.integers(0, nodes, (2, nodes)))}
    graph = build(schema, edges, features, rng.integers(0, 3, nodes), {})
    restored = fresh(graph, 1_000, hidden=128, layers=3)
    folder.mkdir()
    tracemalloc.start()
    found = computed(restored, True, Room(folder, memory))
    found.write(folder / "p.parquet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_nodes_times_the_width(tmp_path):
    """Of a graph whose embeddings take 10 MB a layer less than one is held at a time; with room for them, two."""
    layer = 4 * 20_000 * 128
    peak_of_predicting(
        2_000, tmp_path / "few", 0
    )  # what is imported and traced for the first time takes more than all else
    files = peak_of_predicting(20_000, tmp_path / "files", layer)
    memory = peak_of_predicting(20_000, tmp_path / "memory", 10 * layer)
    assert files < 0.8 * layer and memory > 2 * layer, (files, memory)


def test_the_command_leaves_nothing_but_its_file(tmp_path):
    run = hetjax.train(people(), tmp_path / "run", **OPTIONS)
    expected = run.predict(embeddings=True)
    for name, *options in (("files", "--memory", "0"), ("devices", "--devices", "2")):
        out = tmp_path / f"{name}.parquet"
        done = here("hetjax.predict", "--workdir", run.path, "--out", out, "--embeddings", "--logits", *options)
        assert done.returncode == 0, done.stderr
        table = pq.read_table(out)
        assert table["node"].to_pylist() == expected.ids.to_pylist()
        logits = np.stack([table[f"logit_{name}"] for name in expected.class_names], axis=1)
        np.testing.assert_allclose(logits, expected.logits, rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["devices.parquet", "files.parquet", "run"]
    for option, words in (("--devices", "devices is 99, and there are"), ("--memory", "memory is 99, and")):
        done = here(
            "hetjax.predict",
            "--workdir",
            run.path,
            "--out",
            tmp_path / "x.csv",
            option,
            "99" if option == "--devices" else "-2",
        )
        assert done.returncode == 2 and (words in done.stderr or "memory is -2, and must be in -1" in done.stderr)


def test_rdf_is_predicted_by_iris_and_a_resource_that_came_later_is_scored(tmp_path):
    """Nothing was learned of it: it gets the mean of its neighbours, which a line says."""
    data = rdf_data(tmp_path / "now")
    small = ["--model.hidden", "4", "--model.feature_width", "4", "--sampling.mode", "full", "--train.epochs", "1"]
    done = train(tmp_path / "run", *source("rdf", data), "--rdf.validation_fraction", "0", *small)
    assert done.returncode == 0, done.stderr
    later = rdf_data(tmp_path / "then", **{"g.nt": TRIPLES + "<http://x/new> <http://p#knows> <http://x/b> .\n"})
    store.save(rdf.read(later, validation_fraction=0), tmp_path / "later")
    out = ["--workdir", tmp_path / "run", "--graph", tmp_path / "later", "--out"]
    done = here("hetjax.predict", *out, tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr
    assert "1 new node of resource: features are the mean of their neighbours" in done.stdout
    rows = dict(line.split(",")[:2] for line in (tmp_path / "p.csv").read_text().splitlines()[1:])
    assert {"http://x/a", "http://x/b", "_:c", "http://x/new"} <= set(rows) and set(rows.values()) <= {"red", "blue"}
    done = here("hetjax.predict", *out, tmp_path / "q.csv", "--new_nodes", "refuse")
    assert done.returncode == 2 and "('http://x/new') is not of the graph that was trained on" in done.stderr
    served = hetjax.load(tmp_path / "run", tmp_path / "later")
    assert served.predict("http://x/new") == [rows["http://x/new"]] and served.new == {"resource": 1}


def test_features_that_training_normalised_are_of_the_same_types_and_widths(tmp_path):
    graph = random_graph()
    store.save(graph, tmp_path / "store")
    read = ["--data.format=store", f"--data.path={tmp_path / 'store'}", "--data.normalize_features=auto"]
    main([*read, "--train.recipe=none", "--model.hidden=4", "--train.epochs=1", f"--workdir={tmp_path / 'run'}"])
    (name, matrix), *_ = graph.features.items()
    bare = next(t for t in graph.schema.nodes if t not in graph.features)
    more = graph.features | {bare: np.ones((graph.schema.nodes[bare], 2), np.float32)}
    fewer = {t: one for t, one in graph.features.items() if t != name}
    for features, words in (
        (more, f"type {bare!r} has features, and in training they were not given"),
        (fewer, f"type {name!r} has no features, and in training they were given"),
        (graph.features | {name: matrix[:, 1:]}, f"{matrix.shape[1] - 1} wide != {matrix.shape[1]}"),
    ):
        with pytest.raises(InputError, match=words):
            predicting.predict(tmp_path / "run", replace(graph, features=features))
