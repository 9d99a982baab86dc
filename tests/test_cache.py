"""Where features live changes nothing: the same bits whatever the places, the cache, its budget and its policy."""

import errno
import itertools
import os
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hetjax
from hetjax.cache import penalty
from hetjax.cache.host import HostMatrix, HostTable, pack, send
from hetjax.checkpoints.checkpoint import Checkpoints
from hetjax.graph import store
from hetjax.kernels.native import platforms
from hetjax.kernels.tables import Table
from hetjax.options.config import Cache, Config, Mesh, Sampling
from hetjax.sampling.blocks import NO_NODE, round_up
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf.kinds import ROWS
from hetjax.sharding.registry import check, make_engine
from hetjax.system import mapped, runtime
from hetjax.system.errors import InputError
from tests.support import hosting
from tests.support.equivalence import few
from tests.support.graphs import random_graph
from tests.support.hosting import COMMUNICATE, VANILLA, config_of, prepared, same, trained

EVERYTHING = 10**9
GRAPH = few("cites", "writes", "written_by", "publishes", "of", "haunts")  # four relations into papers, and every type
TABLES = "author=host", "venue=host", "ghost=host"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """By model, what training with tables on the device gives."""
    made = {}

    def of(graph, model: str, mesh: tuple[int, int], places: tuple[str, ...]):
        about = model, mesh, places
        if about not in made:
            config = config_of(model, mesh=mesh, placement=places)
            made[about] = trained(graph, config, tmp_path_factory.mktemp("plain"))
        return made[about]

    return of


BY_ROWS = "paper=host", "topic=host"  # static features that are not read in place, where sums take another order
CASES = [
    {"placement": TABLES},
    {"placement": TABLES, "prefetch": False},
    {"placement": ("author=disk", "venue=disk")},
    {"bytes_per_device": 0},
    {"bytes_per_device": 0, "host_bytes": 3000},
    *({"bytes_per_device": size, "policy": policy} for size in (76, 400) for policy in ("miss_penalty", "optimal")),
    {"bytes_per_device": 2000, "policy": "hotness", "prefetch": False},
    {"bytes_per_device": 2000, "policy": "none"},
    {"bytes_per_device": 3000, "policy": "optimal"},
    {"bytes_per_device": EVERYTHING},
]


ON_MESHES = [*CASES[1:5], CASES[6], CASES[9], CASES[10]]


@pytest.mark.optimised
def test_the_same_bits_wherever_features_live_without_kernels(tmp_path, monkeypatch):
    """As on other platforms: what XLA fuses must not depend on where rows are either."""
    monkeypatch.setattr(platforms, "ffi_version", lambda: None)
    monkeypatch.setattr(hosting, "ENGINES", {})
    graph, found = random_graph(papers=400), []
    for name, cache in (("device", {}), ("host", {"bytes_per_device": 0})):
        (tmp_path / name).mkdir()
        found.append(trained(graph, config_of("rgcn", **cache), tmp_path / name))
        hosting.ENGINES.clear()  # where rows live is part of the programs here
    assert same(*found)


@pytest.mark.parametrize(
    ("model", "mesh", "cache"),
    [
        *(("rgcn", (1, 1), case) for case in CASES),
        *((model, (1, 1), CASES[5]) for model in ("rgat", "hgt")),
        *(("rgcn", (4, 1), case) for case in ON_MESHES),  # where partitions share authors, and others venues
        *(("rgcn", mesh, CASES[6]) for mesh in ((1, 2), (2, 2))),
        *((model, (1, 2), CASES[6]) for model in ("rgat", "hgt")),
        *(("rgcn", COMMUNICATE, case) for case in (CASES[1], CASES[2], CASES[4], CASES[6], {"bytes_per_device": 500})),
        *((model, VANILLA, CASES[6]) for model in ("rgcn", "rgat")),
    ],
    ids=str,
)
def test_the_same_bits_wherever_features_live(tmp_path, plain, model, mesh, cache):
    graph = GRAPH
    found = trained(graph, config_of(model, mesh=mesh, **cache), tmp_path)
    bounded = 0 <= cache.get("bytes_per_device", -1) < EVERYTHING
    assert same(found, plain(graph, model, mesh, BY_ROWS if bounded and mesh[2:] == () else ()))
    report = found.features.report()
    assert bool(report) == (cache.get("bytes_per_device") != EVERYTHING)
    for one in report:
        reads = one["hits"] + one["misses"]
        if one["kept"] == one["rows"]:
            assert one["misses"] == one["sent_bytes"] == one["returned_bytes"] == 0
        elif reads:
            assert one["sent_bytes"] >= one["misses"] * one["row_bytes"]
        assert one["hits"] > 0 or not one["kept"] or not reads
    used, all_rows = {}, {}
    for one in found.features.hosted.values():
        used[one.device] = used.get(one.device, 0) + len(one.cached) * one.row_bytes
        all_rows[one.device] = all_rows.get(one.device, 0) + one.nodes * one.row_bytes
    for device, size in used.items():
        if not bounded or cache.get("policy") == "none":
            assert size == 0
        else:  # all but what is less than the largest row
            bound = min(cache["bytes_per_device"], all_rows[device])
            assert bound - 76 < size <= bound


def test_what_types_on_the_device_leave_of_the_bound_is_the_cache(tmp_path):
    graph, found = GRAPH, {}
    for bound in (1_900, 2_000):
        config = config_of("rgcn", bytes_per_device=bound, placement=("author=host",))
        found[bound] = trained(graph, config, tmp_path).features.report()
    taken = 6 * 76 + 11 * 10 + 40 * 28  # venue, topic and paper, which stay on the device
    assert [one["kept"] for one in found[1_900]] == [(1_900 - taken) // 76]
    assert [one["kept"] for one in found[2_000]] == [(2_000 - taken) // 76]


def hosted() -> HostMatrix:
    return HostMatrix(np.arange(27, dtype=np.float32).reshape(9, 3), jax.devices()[0])


@pytest.mark.parametrize("kept", [[], [1, 4]])
def test_a_row_that_a_step_is_about_to_change_is_not_read_too_early(kept):
    rows = jnp.arange(27, dtype=jnp.float32).reshape(9, 3)
    one, end = HostTable(np.array(pack(Table(rows, -rows, rows + 0.5, jnp.arange(9)))), jax.devices()[0]), NO_NODE
    one.keep(np.array(kept, np.int32))
    now = one.begin(np.array([4, 2, 7, end], np.int32))
    rows = one.end(now)
    one.change(now, True)
    following = one.begin(np.array([7, 1, 4, 0, end, 5], np.int32))
    assert set(following.missed[following.stale]) == {4, 7} - set(kept)
    one.store(now, Table(rows.rows + 100, *rows[1:]))
    one.change(now, False)
    expected = np.arange(27, dtype=np.float32).reshape(9, 3)
    expected[[4, 2, 7]] += 100
    found = one.end(following)
    np.testing.assert_array_equal(found.rows, np.stack([*expected[[7, 1, 4, 0]], np.zeros(3), expected[5]]))
    np.testing.assert_array_equal(found.count, [7, 1, 4, 0, 0, 5])
    np.testing.assert_array_equal(one.rows(np.array([4, 8])), expected[[4, 8]])
    np.testing.assert_array_equal(one.table().rows, expected)
    np.testing.assert_array_equal(one.table().nu, np.arange(27).reshape(9, 3) + 0.5)
    assert one.moved.hits == sum(2 * (node == 4) + (node == 1) for node in kept)


def test_a_row_is_sent_once_however_early_the_others_are_read():
    one = HostTable(np.zeros((1000, 7), np.int32), jax.devices()[0])
    now = one.begin(np.arange(800, dtype=np.int32))
    one.change(now, True)
    following = one.begin(np.arange(400, 1000, dtype=np.int32))
    one.store(now, one.end(now))
    one.change(now, False)
    assert len(one.end(following).count) == 600
    assert one.moved.sent == (800 + round_up(200) + round_up(400)) * one.row_bytes


@pytest.mark.parametrize(("mesh", "program"), [((1, 1), "compiled"), ((4, 1), "gradients"), (COMMUNICATE, "updated")])
def test_rows_for_the_next_step_are_read_while_one_computes_and_before_it_stores(tmp_path, monkeypatch, mesh, program):
    """Though reading goes on until somebody waits for it."""
    engine, _, batches = prepared(GRAPH, config_of("rgcn", mesh=mesh, placement=TABLES), tmp_path)
    first, second = (one.batch for one in itertools.islice(batches.epoch(0), 2))
    state, order, waited_for = engine.init(3), [], threading.Event()
    compute, wait, read, store = getattr(engine, program), engine.ahead.wait, HostTable.begin, HostTable.store

    def computed(*given):
        order.append("computes")
        return compute(*given)

    def waits():
        waited_for.set()
        wait()

    def begun(table, ids):
        if threading.current_thread() is threading.main_thread():
            return read(table, ids)
        assert waited_for.wait(10)
        rows = read(table, ids)
        order.append("read")
        return rows

    def stored(*given):
        order.append("stores")
        return store(*given)

    monkeypatch.setattr(engine, program, computed)
    monkeypatch.setattr(engine.ahead, "wait", waits)
    monkeypatch.setattr(HostTable, "begin", begun)
    monkeypatch.setattr(HostTable, "store", stored)
    engine.step(state, first, second)
    count = order.count("read")
    assert count and order == ["computes"] + count * ["read"] + count * ["stores"]


@pytest.mark.parametrize("mesh", [(1, 1), (4, 1), COMMUNICATE])
def test_a_state_that_is_restored_is_not_trained_with_rows_read_before(tmp_path, mesh):
    engine, _, batches = prepared(GRAPH, config_of("rgcn", mesh=mesh, placement=TABLES), tmp_path)
    first, second = (one.batch for one in itertools.islice(batches.epoch(0), 2))
    expected = float(engine.step(engine.init(7), second)[1])
    engine.step(engine.init(3), first, second)
    assert float(engine.step(engine.init(7), second)[1]) == expected


@pytest.mark.parametrize(
    ("plain", "cache"),
    [({}, {"placement": TABLES}), ({"placement": BY_ROWS}, {"bytes_per_device": 400, "host_bytes": 900})],
    ids=str,
)
def test_a_checkpoint_and_evaluation_are_the_same_wherever_features_live(tmp_path, plain, cache):
    graph, found = GRAPH, []
    for number, given in enumerate((plain, cache)):
        config = config_of("rgcn", mesh=(4, 1), **given)
        engine, _, batches = prepared(graph, config, tmp_path / str(number))
        engine.fill_cache(tmp_path / "penalties.json")
        checkpoints = Checkpoints(tmp_path / str(number))
        state, _ = engine.step(engine.init(3), next(batches.epoch(0)).batch)
        checkpoints.save(1, engine.gather(state), {"best": None})
        restored = checkpoints.at(1).state(jax.eval_shape(engine.trainer.init, 0))
        sent = engine.traffic()
        logits = engine.outputs(engine.shard(restored), graph.splits["test"])
        assert engine.traffic() == sent and any(one.kind == ROWS for one in sent)
        found.append([logits, *(np.array(leaf) for leaf in jax.tree.leaves(restored))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_devices_of_one_process_have_a_mesh_of_their_own_whatever_their_rows(monkeypatch):
    mesh, mine = meshes.make(2, 2), set()
    first, second, third, _ = mesh.devices.flat
    monkeypatch.setattr(meshes, "_is_here", lambda device: device in mine)
    for found, shape in (({first, second}, (1, 2)), ({second, third}, (2, 1)), ({first, second, third}, (3, 1))):
        mine |= found
        assert meshes.here(mesh).devices.shape == shape and set(meshes.here(mesh).devices.flat) == found
        mine.clear()


def test_rows_come_by_way_of_pinned_memory():
    device, rows = jax.devices()[0], np.arange(6, dtype=np.float32).reshape(2, 3)
    for pinned in (False, True):
        sent = send(rows, device, pinned)
        np.testing.assert_array_equal(sent, rows)
        assert sent.sharding.memory_kind == "device"


def test_mapped_rows_are_gathered_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "AT_ONCE", 3)
    matrix = mapped.mapped(tmp_path / "it", (20, 2), np.int32)
    matrix[:] = np.arange(40).reshape(20, 2)
    ids = np.random.default_rng(0).permutation(20)[:11]
    np.testing.assert_array_equal(mapped.gather(matrix, ids, 13), np.concatenate([matrix[ids], np.zeros((2, 2), int)]))


def test_features_are_fetched_wherever_they_live(tmp_path):
    graph = GRAPH
    config = config_of("rgcn", placement=("paper=host", "author=host", "venue=disk"))
    engine = make_engine(config, graph, folder=tmp_path)
    features = engine.features
    state, ids = engine.init(3), np.array([2, 0, 5], np.int32)
    store.save(graph, tmp_path / "graph")
    for node_type, expected in (
        ("paper", graph.features["paper"]),
        ("topic", graph.features["topic"]),
        ("author", state.tables["author"].table().rows),
        ("venue", state.tables["venue"].table().rows),
    ):
        places = [features, graph, str(tmp_path / "graph")] if node_type in graph.features else [state.tables]
        for place in places:
            np.testing.assert_array_equal(hetjax.fetch_features(place, node_type, ids), expected[ids])
    Checkpoints(tmp_path / "run" / "checkpoints").save(1, engine.gather(state), {"best": None})
    found = hetjax.fetch_features(tmp_path / "run", "author", ids)
    np.testing.assert_array_equal(found, state.tables["author"].table().rows[ids])
    assert hetjax.fetch_features(tmp_path / "run", "author", []).shape == (0, 6)
    with pytest.raises(InputError, match=r"ids of 'paper' are float64 \(1,\), and must be a list of integers"):
        hetjax.fetch_features(graph, "paper", [0.5])
    assert np.shares_memory(hetjax.fetch_features(graph, "paper", slice(3, 7)), graph.features["paper"])
    with pytest.raises(InputError, match="no features of 'author'; there are those of"):
        hetjax.fetch_features(graph, "author", ids)
    for place, node_type in ((features, "paper"), (graph, "paper"), (state.tables, "author")):
        with pytest.raises(InputError, match="ids 1 to 99 of '.*', which has .* nodes"):
            hetjax.fetch_features(place, node_type, np.array([1, 99]))


def test_penalties_are_measured_once_for_one_purpose(tmp_path, monkeypatch):
    file, one = tmp_path / "penalties.json", {"a": hosted()}
    found = penalty.read_or_measure(file, {"batch_size": 8}, one, {})
    assert found["a"] > 0
    monkeypatch.setattr(penalty, "measure", lambda *_: {"a": -1.0})
    assert penalty.read_or_measure(file, {"batch_size": 8}, one, {}) == found
    assert penalty.read_or_measure(file, {"batch_size": 9}, one, {}) == {"a": -1.0}
    file.unlink()
    monkeypatch.undo()
    one["a"].matrix = mapped.mapped(tmp_path / "a", (9, 3), np.float32)
    on_disk = penalty.read_or_measure(file, {"batch_size": 8}, one, {})
    monkeypatch.setattr(penalty, "measure", lambda *_: {"a": -1.0})
    assert penalty.read_or_measure(file, {"batch_size": 8}, one, {}) == on_disk
    assert penalty.read_or_measure(file, {"batch_size": 8}, {"a": hosted()}, {}) == {"a": -1.0}
    file.write_text("{")
    assert penalty.read_or_measure(file, {"batch_size": 9}, one, {}) == {"a": -1.0}


def test_what_cannot_be_is_one_line(tmp_path, monkeypatch):
    graph = GRAPH

    def features(**cache):
        config = config_of("rgcn", **cache)
        return make_engine(config, graph, folder=tmp_path).features

    with pytest.raises(
        InputError, match=r"cache.bytes_per_device is 1,000,000,000,000,000, and the device has [\d,]+ bytes"
    ):
        features(bytes_per_device=10**15)
    with pytest.raises(InputError, match="names a type twice"):
        Cache(placement=("author=host", "author=device"))
    with pytest.raises(InputError, match="cache.placement: 'nobody' is no type"):
        features(placement=("nobody=host",))
    with pytest.raises(InputError, match=re.escape("['author=floor'], and must be made of TYPE=device|host|disk")):
        Cache(placement=("author=floor",))
    with pytest.raises(
        InputError, match="cache.bytes_per_device is 0, and mesh.strategy replicated keeps all features"
    ):
        check(Config(cache=Cache(bytes_per_device=0), mesh=Mesh(data=2, strategy="examples.replicated:Replicated")))
    with pytest.raises(InputError, match="cache.bytes_per_device is 0, and is for mini-batches"):
        Config(cache=Cache(bytes_per_device=0), sampling=Sampling(mode="full"))
    with pytest.raises(InputError, match="cache.host_bytes is 5, and is for what leaves the device"):
        Cache(host_bytes=5)
    with pytest.raises(InputError, match="the features of 'paper' are on disk only in a store"):
        features(placement=("paper=disk",))
    monkeypatch.setattr(runtime, "memory", lambda: 99)
    with pytest.raises(
        InputError, match=r"learnable features on the host take [\d,]+ bytes, and it has 99; cache.host_bytes"
    ):
        features(placement=("author=host",))
    monkeypatch.undo()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"tables/0: No space left on device; [\d,]+ bytes are needed"):
        features(placement=("author=disk",)).init(jax.random.key(0))


@pytest.mark.parametrize("kept", [0, 3, 8])
def test_where_no_row_is_read_the_rows_are_on_their_device_all_the_same(kept):
    """Devices join what each has, and one whose step reads no row of a type has an array of none."""
    device = jax.local_devices()[-1]
    assert device != jax.local_devices()[0]
    nothing = np.zeros(0, np.int32)
    matrix, table = HostMatrix(np.ones((8, 3), np.float32), device), HostTable(np.ones((8, 7), np.int32), device)
    for one in (matrix, table):
        one.keep(np.arange(kept))
    fetched = table.begin(nothing)
    rows = table.end(fetched)
    table.store(fetched, rows)
    for array in (matrix.end(matrix.begin(nothing)), *rows, table.cache):
        assert array.devices() == {device}
