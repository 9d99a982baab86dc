"""The doctor: each thing that it finds, made wrong and made right."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from hetjax.doctor import graph as graphs
from hetjax.doctor import leakage, system
from hetjax.doctor.__main__ import Options, main, of_machine
from hetjax.graph import store
from hetjax.graph.csc import CSC, from_edges
from hetjax.graph.hetgraph import build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.options.config import Processes
from hetjax.system.errors import InputError
from hetjax.tasks.ranking import roc_auc
from tests.support.commands import ROOT, here
from tests.support.graphs import random_graph
from tests.support.many import free_port

MEMBER, KNOWS = Relation("group", "has", "person"), Relation("person", "knows", "person")


def clubs(mirrors: bool, seed: int = 0):
    """People, each of a group; the label is the group's number, or has nothing to do with it."""
    rng, people, groups = np.random.default_rng(seed), 90, 9
    member = np.arange(people) % groups
    labels = member % 3 if mirrors else rng.integers(0, 3, people)
    edges = {MEMBER: (member, np.arange(people)), KNOWS: tuple(rng.integers(0, people, (2, 200)))}
    features = {"person": rng.standard_normal((people, 4), np.float32)}
    schema = Schema({"person": people, "group": groups}, (MEMBER, KNOWS), "person", 3)
    return build(schema, edges, features, labels, {"train": np.arange(60), "validation": np.arange(60, 75)})


def words(findings, kind=None) -> str:
    return "\n".join(str(finding) for finding in findings if kind in (None, finding.kind))


def with_relation(graph, relation, csc):
    return dataclasses.replace(graph, relations={**graph.relations, relation: csc})


def test_a_sound_graph_has_nothing_wrong():
    graph = clubs(False)
    found = [*graphs.broken(graph), *graphs.odd(graph, 2), *leakage.leakage(graph)]
    assert "wrong" not in {finding.kind for finding in found}
    assert "group is only a source: no relation leads to it" in words(found, "note")
    assert "split test is empty" in words(found, "note")
    text = repr(graph)
    assert (
        "person: 90 nodes, features float32 4 wide, the target: 3 classes" in text and "60 train, 15 validation" in text
    )


def test_orphan_ids_are_counted():
    graph = clubs(False)
    csc = graph.relations[KNOWS]
    indices = csc.indices.copy()
    indices[[3, 8]] = 90, 200
    found = words(graphs.broken(with_relation(graph, KNOWS, CSC(csc.indptr, indices))))
    assert "2 of 200 edges come from ids beyond the 90 nodes of type 'person'" in found
    pointers = csc.indptr.copy()
    pointers[5] = pointers[9] + 1
    assert "pointers fall after target" in words(graphs.broken(with_relation(graph, KNOWS, CSC(pointers, csc.indices))))


def test_values_that_are_no_numbers_are_counted_by_column():
    graph = clubs(False)
    matrix = graph.features["person"].copy()
    matrix[[2, 5, 7], 3], matrix[4, 1] = (np.nan, np.inf, np.nan), np.nan
    found = words(graphs.broken(dataclasses.replace(graph, features={"person": matrix})))
    assert "4 values of person's features are NaN or infinite, in 2 of 4 columns, the most in column 3" in found


@pytest.mark.parametrize("seed", range(3))
def test_duplicates_are_counted_over_pieces(seed, monkeypatch):
    monkeypatch.setattr(graphs, "EDGES", 7)
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 6, (2, 60))
    csc = from_edges(source, target, 6, 8)
    assert graphs.duplicates(csc, 6) == 60 - len(set(zip(source.tolist(), target.tolist())))
    assert graphs.duplicates(from_edges(source[:0], target[:0], 6, 8), 6) == 0


def test_oddities_are_named():
    graph = random_graph()
    found = words(graphs.odd(graph, 1))
    for expected in (
        "ghost has no nodes",
        "ghost -haunts-> author has no edges",
        "venue is only a source",
        "nodes of paper have no edge, the first is node",
        "edges are there before, from the same node to the same node; each counts",
    ):
        assert expected in found, expected
    few = graph.only([relation for relation in graph.relations if relation.name in ("cites", "of", "knows")])
    assert "author is not within 2 hops of paper, so a model of 2 layers does not read it" in words(graphs.odd(few, 2))
    assert "topic is not within" not in words(graphs.odd(few, 1))
    hub = from_edges(np.zeros(5000, int), np.arange(5000) % 90, 90, 90)
    assert "5,000 edges lead out of person node 0, 5000.0 on average" in words(
        graphs.odd(with_relation(clubs(False), KNOWS, hub), 2)
    )
    named = dataclasses.replace(clubs(False), names=Names({"group": Ids([f"g{n}" for n in range(9)])}))
    assert "group node 0 ('g0')" in words(graphs.odd(named, 2))


def told_by_loops(labels, nodes, others):
    """Edge by edge."""
    told, asked, right = set(), 0, 0
    for node, other in zip(nodes, others):
        rest = [labels[n] for n, o in zip(nodes, others) if o == other and labels[n] >= 0]
        if labels[node] >= 0 and len(rest) > 1:
            rest.remove(labels[node])
            counts = np.bincount(rest, minlength=9)
            told.add(node)
            asked += 1
            right += counts[labels[node]] == counts.max() and np.sum(counts == counts.max()) == 1
    return len(told), asked, right


@pytest.mark.parametrize("seed", range(6))
def test_what_neighbours_tell_equals_loops(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, 20).astype(np.int32)
    pairs = np.unique(rng.integers(0, (20, 6), (40, 2)), axis=0)
    found = leakage.by_neighbours(labels, pairs[:, 0], pairs[:, 1], 3)
    assert found == told_by_loops(labels, pairs[:, 0], pairs[:, 1])


def test_a_relation_that_mirrors_the_label_is_wrong():
    found = words(leakage.leakage(clubs(True)), "wrong")
    assert (
        "group -has-> person mirrors the label: 90 of 90 labelled nodes" in found and "of 100.0% of the edges" in found
    )
    assert not words(leakage.leakage(clubs(False)))


def test_many_edges_that_each_tell_a_little_are_no_mirror():
    """Whom people bought from says what they like, as two of three purchases are of that kind."""
    rng, graph = np.random.default_rng(0), clubs(False)
    labels = rng.integers(0, 3, 90)
    kinds = np.where(rng.random((90, 40)) < 0.7, labels[:, None], rng.integers(0, 3, (90, 40)))
    shops = kinds + 3 * rng.integers(0, 3, kinds.shape)
    edges = {MEMBER: (shops.ravel(), np.repeat(np.arange(90), 40)), KNOWS: (np.empty(0, int), np.empty(0, int))}
    made = build(graph.schema, edges, graph.features, labels, graph.splits)
    votes = np.array([np.bincount(of, minlength=3).argmax() for of in kinds])
    assert (votes == labels).mean() > leakage.RIGHT and not words(leakage.leakage(made))


@pytest.mark.parametrize("kind", ["one-hot", "numbers", "labels"])
def test_a_column_that_mirrors_the_label_is_wrong(kind):
    graph = clubs(False, 3)
    matrix = graph.features["person"].copy()
    matrix[:, 2] = graph.labels == 1 if kind == "one-hot" else graph.labels + 0.001 * np.arange(90)
    given = {"features": {"person": matrix}}
    if kind == "labels":
        given["labels"] = np.eye(3, dtype=np.int8)[graph.labels]
        given["schema"] = graph.schema
    found = words(leakage.leakage(dataclasses.replace(graph, **given)), "wrong")
    assert "column 2 of person's features separates the class" in found and found.count("column") == 2


def test_areas_of_a_column_equal_those_of_metrics():
    rng = np.random.default_rng(0)
    values, labels = rng.integers(0, 9, 70).astype(float), rng.integers(0, 3, 70)
    marks = labels[:, None] == np.arange(3)
    expected = [roc_auc(values, marks[:, one]) for one in range(3)]
    np.testing.assert_allclose(leakage.areas_of(values, marks), expected, rtol=1e-12)


def test_the_command_looks_at_a_store(tmp_path):
    store.save(clubs(False), tmp_path / "sound")
    picture = tmp_path / "m.png"
    done = here("hetjax.doctor.__main__", "--graph", tmp_path / "sound", "--picture", picture)
    assert done.returncode == 0 and "every array is as it was written" in done.stdout, done.stderr
    assert picture.read_bytes()[:4] == b"\x89PNG"
    store.save(clubs(True), tmp_path / "leaks")
    done = here("hetjax.doctor.__main__", "--graph", tmp_path / "leaks", "--picture", "")
    assert done.returncode == 1 and "mirrors the label" in done.stdout
    with open(tmp_path / "sound" / "labels.npy", "r+b") as stream:
        stream.seek(-4, 2)
        stream.write(b"\x07\0\0\0")
    done = here("hetjax.doctor.__main__", "--graph", tmp_path / "sound", "--picture", "")
    assert done.returncode == 1 and "is outside 0..2" in done.stdout
    with open(tmp_path / "leaks" / "features_0.npy", "r+b") as stream:
        stream.seek(-4, 2)
        stream.write(b"\0\0\0\x01")
    done = here("hetjax.doctor.__main__", "--graph", tmp_path / "leaks", "--picture", "")
    assert done.returncode == 1 and "it is not what was written" in done.stdout and "tells" not in done.stdout
    done = here("hetjax.doctor.__main__", "--graph", tmp_path / "none")
    assert done.returncode == 1 and "no such file or folder" in done.stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--layers", "0"), "layers is 0, and must be in 1..64"),
        (("--layers", "65"), "layers is 65, and must be in 1..64"),
        (
            ("--graph", "one", "--data.format", "hgb", "--data.path", "two"),
            "graph is one, and data.path two: give one of them",
        ),
    ],
)
def test_options_that_cannot_be_are_one_line(given, words):
    with pytest.raises(InputError, match=words):
        main(given)


def test_a_sound_machine_has_nothing_wrong():
    found = list(of_machine(Options()))
    assert "wrong" not in {finding.kind for finding in found}, words(found, "wrong")
    assert "hetjax 0." in words(found) and "device cpu 0" in words(found) and "GiB of memory" in words(found)


def test_what_is_wrong_with_a_machine_has_a_remedy(monkeypatch, tmp_path):
    requires = ["jax>=99", "no-such-package-of-hetjax>=1", 'numpy>=99; extra == "x"', "numpy>=1"]
    monkeypatch.setattr(system.metadata, "requires", lambda _: requires)
    found = words(system.versions(), "wrong")
    assert "hetjax needs >=99\n       -> pip install 'jax>=99'" in found and "no-such-package-of-hetjax is not" in found
    assert found.count("->") == 2
    monkeypatch.setenv("HETJAX_DATA", str(tmp_path / "none"))
    assert "none, which is no folder" in words(system.memory(), "wrong")
    (tmp_path / "max").write_text("1073741824\n")
    monkeypatch.setattr(system, "LIMITS", (tmp_path / "absent", tmp_path / "max"))
    assert "may have 1.0 GiB of memory" in words(system.memory(), "note")
    (tmp_path / "cards" / "0").mkdir(parents=True)
    monkeypatch.setattr(system, "NVIDIA", tmp_path / "cards")
    assert "the NVIDIA driver has 1 graphics card" in words(system.devices(), "wrong")
    monkeypatch.setattr(system.socket, "gethostbyname", lambda _: "203.0.113.9")  # of nobody
    assert "leads to no address of its own" in words(system.processes(Processes()), "note")


def test_processes_meet_or_one_line_says_why():
    address = f"127.0.0.1:{free_port()}"
    given = [sys.executable, "-m", "hetjax.doctor", "--coordinator", address, "--num_processes", "2", "--process_id"]
    both = [subprocess.Popen([*given, str(n)], stdout=subprocess.PIPE, text=True, cwd=ROOT) for n in range(2)]
    said = [one.communicate(timeout=280)[0] for one in both]
    assert all("fine   2 processes meet, with 2 devices, and give each other numbers" in text for text in said), said
