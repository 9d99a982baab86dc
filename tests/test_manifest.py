"""The manifest: written, read back whole, refused where it is damaged, and the partitions opened by it."""

import json
import shutil

import numpy as np
import pytest

from hetjax.graph import store
from hetjax.graph.schema import Relation
from hetjax.partition import Workload, edge_cut, open_part, partition, read, save
from hetjax.partition.metatree import Root
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph
from tests.support.partitions import CITES, REV_WRITES, WRITES, full, read_back


def test_manifest_round_trip(stored, tmp_path):
    plan = partition(stored, 4, metapaths=None, hops=3, exchange="every", workload=Workload(8, (3, -1)))
    save(plan, tmp_path / "plan")
    assert read(tmp_path / "plan") == plan
    assert {file.name for file in (tmp_path / "plan").iterdir()} == {
        "manifest.json",
        "report.json",
        "report.csv",
        "plan.png",
    }
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads((tmp_path / "plan" / "report.json").read_text())["parts"]
    assert (tmp_path / "plan" / "report.csv").read_text().splitlines()[0].split(",") == list(rows[0])
    paths = partition(full("ogbn-mag"), 2, metapaths=[[WRITES, REV_WRITES], [CITES]])
    assert read_back(paths) == paths
    with pytest.raises(InputError, match="exists already"):
        save(plan, tmp_path / "plan")


def cut(text):
    return text[: len(text) // 2]


def edit(*place, value):
    """The manifest with one value changed."""

    def change(text):
        manifest = json.loads(text)
        at = manifest
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
        return json.dumps(manifest)

    return change


@pytest.mark.parametrize(
    "change, words",
    [
        (cut, "manifest.json: "),
        (lambda text: text.ljust(2**26 + 1), r"^[^:]*: 67108865 bytes, and a manifest has at most 67108864$"),
        (lambda text: "[]", "format None"),
        (edit("version", value=2), "version 2, and this hetjax reads 'hetjax-partition' version 1"),
        (edit("graph", "nodes", 0, "count", value=41), "graph_digest"),
        (edit("graph", "relations", 0, "edges", value=-1), "-1 edges"),
        (edit("graph", value=None), "TypeError"),
        (edit("parts", 0, "owns", value=["paper"]), "should own each of these once"),
        (edit("parts", 1, "owns", value=[]), "should own each of these once"),
        (edit("parts", 0, "owns", value=[["a"]]), "TypeError"),
        (
            edit("parts", 0, "layers", 0, "inner", "relations", value=[]),
            r"parts\[0\].layers\[0\].inner.relations is \[\], and should be",
        ),
        (edit("parts", 0, "hosts", value=[7]), r"parts\[0\].hosts\[0\] is 7, and should be 0"),
        (edit("parts", 0, "reads_static", value=["paper", "ghost"]), r"parts\[0\].reads_static"),
        (edit("shared_learnable_types", value={}), "shared_learnable_types has the keys"),
        (edit("hops", value=0), "hops is 0, and should be a whole number in 1..64"),
        (edit("hops", value="2"), "hops is '2'"),
        (edit("hops", value=10**6), "hops is 1000000"),
        (edit("hops", value=True), "hops is True"),
        (edit("exchange", value="never"), "exchange is 'never'"),
        (edit("mesh", "data", value=2), "hosts|mesh"),
        (edit("mesh", "data", value=10**9), "mesh.data is 1000000000, and should be a whole number in 1..32768"),
        (edit("mesh", "data", value=True), "mesh.data is True"),
        (edit("mesh", "data", value=1.5), "mesh.data is 1.5"),
        (edit("parts", value="x"), "parts is 'x', and should be a list"),
        (edit("parts", value={}), "parts is {}, and should be a list"),
        (edit("store", value=5), "store is 5, and should be a path or null"),
        (edit("store", value=["store"]), r"store is \['store'\]"),
        (edit("workload", "batch_size", value=1.5), "batch_size is 1.5"),
        (edit("workload", "extra", value=1), "TypeError"),
        (edit("method", value=3), "method is 3, and should be exact or lpt"),
        (edit("self_term", value="yes"), "self_term is 'yes'"),
        (edit("surprise", value=3), "manifest has the keys .*surprise"),
    ],
)
def test_a_damaged_manifest_is_refused(stored, tmp_path, change, words):
    save(partition(stored, 2), tmp_path / "plan")
    damaged_is_refused(tmp_path / "plan", change, words)


@pytest.mark.parametrize(
    "change, words",
    [
        (edit("parts", value=0), "parts is 0, and should be a whole number in 1..64"),
        (edit("parts", value=10**9), "parts is 1000000000"),
        (edit("parts", value="x"), "parts is 'x'"),
        (edit("parts", value=True), "parts is True"),
        (edit("hops", value=10**6), "hops is 1000000, and should be a whole number in 1..64"),
        (edit("hops", value=1.5), "hops is 1.5"),
        (edit("store", value=5), "store is 5, and should be a path or null"),
        (edit("method", value="exact"), "parts is 3, and should be a list"),
    ],
)
def test_a_damaged_manifest_of_an_edge_cut_is_refused(graph, tmp_path, change, words):
    save(edge_cut(graph, 3, "random"), tmp_path / "plan", graph)
    damaged_is_refused(tmp_path / "plan", change, words)


def damaged_is_refused(folder, change, words):
    file = folder / "manifest.json"
    file.write_text(change(file.read_text()))
    with pytest.raises(InputError, match=words) as raised:
        read(folder)
    assert str(file) in str(raised.value) and "\n" not in str(raised.value)


def same_graph(one, other):
    assert one.schema == other.schema and one.features.keys() == other.features.keys()
    assert all(np.array_equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True))


@pytest.mark.parametrize("copied", [False, True])
def test_a_partition_opens_its_files_alone(tmp_path, copied):
    graph = random_graph()
    store.save(graph, tmp_path / "store")
    plan = partition(tmp_path / "store", 5, copied=copied)
    made = save(plan, tmp_path / "plan", graph)
    number = next(p.number for p in plan.parts if p.roots == (Root("paper", Relation("topic", "of", "paper")),))
    part = plan.parts[number]
    if copied:
        shutil.rmtree(tmp_path / "store")
        with pytest.raises(InputError, match="has the files of one partition alone, and relation .* is not among them"):
            store.open(tmp_path / "plan" / f"part_{number}")
        written = sum(f.stat().st_size - 128 for f in (tmp_path / "plan" / f"part_{number}").glob("relation_*.npy"))
        assert written == made.rows[number]["topology_bytes"]
    else:
        kept = {f"relation_{k}" for k, r in enumerate(graph.schema.relations) if r in part.local_model.relations}
        kept |= {f"features_{k}" for k, name in enumerate(graph.schema.nodes) if name in part.local_model.reads}
        for file in (tmp_path / "store").glob("[rf]*.npy"):
            if file.name.split(".")[0] not in kept:
                file.unlink()
    found, opened = open_part(tmp_path / "plan", number)
    assert found == plan
    same_graph(opened, plan.take(graph, part))
    assert (
        set(opened.relations)
        == part.local_model.relations
        == {Relation("topic", "of", "paper"), Relation("paper", "about", "topic")}
    )
    assert set(opened.features) == {"paper", "topic"} and opened.schema.nodes == graph.schema.nodes
    assert np.array_equal(opened.labels, graph.labels)


def test_a_partition_of_another_graph_is_refused(stored, tmp_path):
    save(partition(stored, 2), tmp_path / "plan")
    store.save(random_graph(papers=43), tmp_path / "other")
    with pytest.raises(
        InputError,
        match=r"other: is not the graph that was partitioned: schema.nodes\[0\].count is 43, and should be 40",
    ):
        open_part(tmp_path / "plan", 0, tmp_path / "other")
    with pytest.raises(InputError, match="not the graph that was partitioned"):
        partition(random_graph(), 2).take(random_graph(papers=43), partition(random_graph(), 2).parts[0])
    with pytest.raises(InputError, match="no partition 2 among 2"):
        open_part(tmp_path / "plan", 2)
    save(partition(random_graph(), 2), tmp_path / "storeless")
    with pytest.raises(InputError, match="names no store"):
        open_part(tmp_path / "storeless", 0)
    assert open_part(tmp_path / "storeless", 0, stored)[1].labels.shape == (40,)
