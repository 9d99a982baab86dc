"""Weights of edges: grouped with their edges, checked, stored, divided and turned round with them."""

import json
import zlib

import numpy as np
import pytest

from hetjax import convert, partition
from hetjax.datasets.load import load, load_abstract
from hetjax.graph import checksums, csc, store
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import build, check
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import abstract_graph, from_json, sizes
from hetjax.options.command_line import run_command
from hetjax.options.config import Data
from hetjax.partition import manifest
from hetjax.processes import digests
from hetjax.system.errors import InputError

RATES, KNOWS = Relation("user", "rates", "item"), Relation("user", "knows", "user")
SCHEMA = Schema({"user": 4, "item": 3}, (RATES, KNOWS), "item", 2)
SOURCE, TARGET, STARS = np.array([3, 0, 1, 3]), np.array([2, 0, 2, 0]), np.array([5, 1.5, -2, 0.25])
KNOWN = np.array([0, 1]), np.array([1, 2])


def rated(weights=STARS, **changes):
    about = {"schema": SCHEMA, "edges": {RATES: (SOURCE, TARGET, weights), KNOWS: KNOWN}, "features": {}}
    about |= {"labels": np.array([0, 1, 1]), "splits": {"train": np.array([0, 2])}}
    return build(**(about | changes))


def test_edges_keep_their_weights():
    graph = rated()
    found = graph.relations[RATES]
    assert found.weights.dtype == np.float32 and not found.weights.flags.writeable
    assert found.indices.tolist() == [0, 3, 3, 1] and found.weights.tolist() == [1.5, 0.25, 5, -2]
    assert graph.relations[KNOWS].weights is None
    turned = csc.reverse(found, 4)
    assert turned.indptr.tolist() == [0, 1, 2, 2, 4]
    assert turned.indices.tolist() == [0, 2, 0, 2] and turned.weights.tolist() == [1.5, -2, 0.25, 5]
    assert csc.reverse(graph.relations[KNOWS], 4).weights is None
    check(graph)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", ">f4", "uint64"])
def test_weights_of_any_number_are_float32(dtype):
    weights = rated(np.array([1, 2, 3, 4], dtype)).relations[RATES].weights
    assert weights.dtype == np.float32 and weights.tolist() == [2, 4, 1, 3]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"weights are float64 \(3,\), and should be numbers \(4,\)"),
        (np.ones((4, 1)), r"weights are float64 \(4, 1\), and should be numbers \(4,\)"),
        (np.array([1, np.nan, 2, 2]), "weight of edge 1 is nan, not a finite number"),
        (np.array([1, 2, 1e39, 2]), "weight of edge 2 is inf, not a finite number"),
        (np.array(["a"] * 4), r"weights are <U1 \(4,\)"),
        (np.ones(4, bool), r"weights are bool \(4,\)"),
        (np.array([None] * 4), r"weights are object \(4,\)"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(InputError, match=f"^graph: relation user -rates-> item: {message}"):
        rated(weights)


def test_checking_names_wrong_weights():
    graph, (indptr, indices, weights, *_) = rated(), rated().relations[RATES]
    for wrong, message in (
        (weights[:3], r"weights are float32 \(3,\) != float32 \(4,\) of the edges"),
        (weights.astype(np.float64), r"weights are float64 \(4,\) != float32 \(4,\)"),
        (np.where(weights == 5, np.inf, weights), "weight of edge 2 is inf"),
    ):
        with pytest.raises(InputError, match=message):
            check(type(graph)(SCHEMA, {RATES: CSC(indptr, indices, wrong)}, {}, graph.labels, graph.splits))


def test_round_trip(tmp_path, capsys):
    graph = rated()
    store.save(graph, tmp_path / "store")
    files = {file.name for file in (tmp_path / "store").iterdir()}
    assert "relation_0.weights.npy" in files and "relation_1.weights.npy" not in files
    said = json.loads((tmp_path / "store" / "schema.json").read_text())
    assert said["relations"][0]["weights"] is True and "weights" not in said["relations"][1]
    assert said["version"] == 1
    assert said["contents"]["relation_0.weights"] == zlib.crc32(graph.relations[RATES].weights)
    opened = store.open(tmp_path / "store")
    for one, other in zip(graph.arrays(), opened.arrays(), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    assert sizes(opened) == sizes(graph) == store.describe(tmp_path / "store")
    assert isinstance(opened.relations[RATES].weights, np.memmap)
    assert checksums.verify(tmp_path / "store")
    run_command(convert.main, ["--check", str(tmp_path / "store")])
    again = ["--data.format=store", f"--data.path={tmp_path / 'store'}", f"--out={tmp_path / 'again'}"]
    run_command(convert.main, again)
    assert (tmp_path / "again" / "schema.json").read_text() == (tmp_path / "store" / "schema.json").read_text()
    assert "all as they were written" in capsys.readouterr().out


def test_a_store_without_weights_is_described_as_before(tmp_path):
    graph = rated(edges={RATES: (SOURCE, TARGET), KNOWS: KNOWN})
    store.save(graph, tmp_path / "store")
    assert "weights" not in (tmp_path / "store" / "schema.json").read_text()
    assert sizes(graph).digest != sizes(rated()).digest


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(4), r"weights: float64 \(4,\) != float32 \(4,\) of the schema"),
        (np.ones(5, np.float32), r"weights: float32 \(5,\) != float32 \(4,\)"),
        (np.ones((4, 1), np.float32), r"weights: float32 \(4, 1\) != float32 \(4,\)"),
        (np.array([1, 2, np.nan, 3], np.float32), "weight of edge 2 is nan"),
        (np.array([1, 2, 3, 4], np.float32), r"relation_0.weights.npy: checksum .* != "),
        (np.array([None]), "pickled objects"),
        (None, "relation_0.weights.npy: No such file"),
    ],
)
def test_wrong_files_are_named(tmp_path, array, message):
    store.save(rated(), tmp_path / "store")
    (tmp_path / "store" / "relation_0.weights.npy").unlink()
    if array is not None:
        np.save(tmp_path / "store" / "relation_0.weights.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        load(Data(format="store", path=str(tmp_path / "store")))


@pytest.mark.parametrize("said", [1, "yes", None, []])
def test_a_description_says_yes_or_no(said):
    about = sizes(rated()).json()
    about["relations"][0]["weights"] = said
    with pytest.raises(InputError, match="x: relation user -rates-> item has weights .* and should have true or false"):
        from_json(about, "x")
    about["relations"][0]["weights"] = False
    assert not from_json(about, "x").weighted


def test_shapes_alone(tmp_path):
    graph = rated()
    store.save(graph, tmp_path / "store")
    data = Data(format="store", path=str(tmp_path / "store"))
    abstract = load_abstract(data)
    assert abstract.relations[RATES].weights.shape == (4,) and abstract.relations[KNOWS].weights is None
    assert sizes(abstract_graph(sizes(graph), graph.labels, graph.splits)) == sizes(graph)
    other = digests.of_graph(Data(), rated(STARS + 1))
    assert digests.of_graph(Data(), graph) == digests.of_graph(Data(), rated()) != other
    assert digests.of_graph(data, abstract) == digests.of_graph(data, graph)


@pytest.mark.parametrize("copied", [False, True])
def test_a_partition_opens_the_weights_of_its_relations(tmp_path, copied):
    graph = rated()
    store.save(graph, tmp_path / "store")
    plan = partition.partition(tmp_path / "store", 1, copied=copied)
    made = manifest.save(plan, tmp_path / "plan", graph)
    assert manifest.read(tmp_path / "plan") == plan
    opened = manifest.open_part(tmp_path / "plan", 0)[1]
    assert np.array_equal(opened.relations[RATES].weights, graph.relations[RATES].weights)
    assert sizes(opened) == plan.local_sizes(plan.parts[0]) == sizes(plan.take(graph, plan.parts[0]))
    folder = tmp_path / "plan" / "part_0" if copied else tmp_path / "store"
    written = sum(file.stat().st_size - 128 for file in folder.glob("relation_*.npy"))
    assert made.rows[0]["topology_bytes"] == written
    if copied:
        assert checksums.verify(folder, *checksums.held(folder))
    store.save(rated(edges={RATES: (SOURCE, TARGET), KNOWS: KNOWN}), tmp_path / "other")
    with pytest.raises(InputError, match="other: is not the graph that was partitioned: schema.relations"):
        manifest.open_part(tmp_path / "plan", 0, tmp_path / "other")
