"""Features on the host and on disk where nodes are divided: a partition holds its own rows, and results are the same bits."""

import itertools

import jax
import numpy as np

from hetjax.cache.allocate import place_types
from hetjax.cache.host import HostMatrix
from hetjax.checkpoints.checkpoint import Checkpoints
from hetjax.graph import store
from hetjax.partition import edge_cut
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency.features import row_counts
from hetjax.sharding.dependency.strategy import Dependency
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from tests.support.edge_cuts import lopsided
from tests.support.graphs import random_graph
from tests.support.hosting import COMMUNICATE, config_of, prepared

EVERYWHERE = {"placement": ("author=disk", "venue=host", "ghost=host", "paper=host", "topic=host")}
HALF = (1, 4, "dependency", ("mode", "hybrid"), ("cached", 0.5))
PLENTY = (("l2", 0.01), ("gradient_clip", 0.05), ("weight_decay", 0.1))


def test_a_partition_holds_its_own_rows_and_no_more(tmp_path):
    """Of tables as many as it owns; static rows stay in the graph's arrays. One partition owns nothing of a type."""
    graph = random_graph(3)
    config = config_of("rgcn", mesh=COMMUNICATE, **EVERYWHERE)
    engine, features, batches = prepared(graph, config, tmp_path)
    state, owned = engine.init(3), features.owned
    whole = make_engine(config_of("rgcn"), graph).init(3).tables
    for name, table in state.tables.items():
        for part, owner in table.owners.items():
            ids = owned.ids[name][part]
            assert owner.matrix.shape == (len(ids), 3 * 6 + 1)
            assert isinstance(owner.matrix, np.memmap) == (name == "author" and len(ids) > 0)
            np.testing.assert_array_equal(owner.table().rows, np.asarray(whole[name].rows)[ids])
    for (name, part), matrix in features.away.items():
        assert np.shares_memory(matrix.matrix, graph.features[name])
        assert matrix.nodes == len(matrix.slots) == len(owned.ids[name][part])
    drawn = next(batches.epoch(0)).batch
    assert not drawn.program.local.inputs and drawn.program.local.rows.keys() == {"paper", "topic"}
    engine.close()
    assert not (tmp_path / "tables").exists()


def test_a_matrix_of_some_rows_is_read_by_their_places():
    matrix, own = np.arange(30, dtype=np.float32).reshape(10, 3), np.array([1, 4, 5, 9], np.int32)
    one = HostMatrix(matrix, jax.devices()[0], own)
    for kept in ([], [1, 3]):
        one.keep(np.array(kept, np.int32))
        ids = np.array([3, 0, 2**31 - 1, 1], np.int32)
        np.testing.assert_array_equal(one.end(one.begin(ids)), [*matrix[[9, 1]], [0, 0, 0], matrix[4]])
        np.testing.assert_array_equal(one.rows(np.array([2, 3])), matrix[[5, 9]])


def test_penalty_clipping_and_decay_of_a_lopsided_cut(tmp_path):
    """Of a hybrid; a partition owns nothing of a type, and another owns all of it."""
    graph, found = random_graph(3), []
    for cache in ({}, EVERYWHERE, {"bytes_per_device": 300, "policy": "miss_penalty", "prefetch": False}):
        config = config_of("rgcn", mesh=HALF, train=PLENTY, **cache)
        engine = Dependency().engine(setup(config, graph, folder=tmp_path), lopsided(graph, 4))
        engine.fill_cache(tmp_path / "penalties.json")
        state, losses = engine.init(3), []
        for drawn, upcoming in itertools.pairwise([*engine.batches.epoch(0), None]):
            state, loss = engine.step(state, drawn.batch, upcoming and upcoming.batch)
            losses.append(float(loss))
        found.append([np.array(losses), *map(np.array, jax.tree.leaves(engine.gather(state)))])
    for one in found[1:]:
        assert all(leaf.tobytes() == other.tobytes() for leaf, other in zip(one, found[0], strict=True))
    kept = {key: len(matrix.cached) for key, matrix in engine.features.hosted.items()}
    assert kept["topic", 0] > 0 == kept["topic", 1]
    assert engine.features.kinds["topic", 0].penalty > 0


def test_a_checkpoint_moves_between_places_and_strategies(tmp_path):
    """To the last bit; and evaluation by rows on the host is that by rows on the devices."""
    graph = random_graph(3)
    store.save(graph, tmp_path / "graph")
    graph, ids = store.open(tmp_path / "graph"), graph.splits["test"]
    engines = [
        prepared(graph, config_of("rgcn", mesh=COMMUNICATE, **cache), tmp_path / str(number))[0]
        for number, cache in enumerate(({}, EVERYWHERE, {"bytes_per_device": 400, "host_bytes": 900}))
    ]
    plain, *others = engines
    plain_state, _ = plain.step(plain.init(3), next(plain.batches.epoch(0)).batch)
    checkpoints, expected = Checkpoints(tmp_path / "checkpoints"), plain.outputs(plain_state, ids)
    checkpoints.save(1, plain.gather(plain_state), {"best": None})
    like = jax.eval_shape(plain.trainer.init, 0)
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(checkpoints.at(1).state(like))]
    others.append(make_engine(config_of("rgcn", placement=("author=host", "venue=disk")), graph, folder=tmp_path / "3"))
    others.append(make_engine(config_of("rgcn", mesh=(2, 1), placement=("author=host",)), graph, folder=tmp_path / "4"))
    for step, engine in enumerate(others, 1):  # each continues from what the one before it saved
        state = engine.shard(checkpoints.at(step).state(like))
        if step < 3:
            engine.fill_cache(tmp_path / "penalties.json")
            np.testing.assert_array_equal(engine.outputs(state, ids), expected)
        whole = engine.gather(state)
        assert all(map(np.array_equal, jax.tree.leaves(whole), leaves))
        checkpoints.save(step + 1, whole, {"best": None})


def test_bounds_are_of_what_a_device_and_a_process_have(tmp_path):
    """A half of the tables fits where all of them do not; what a host holds is its partitions' rows."""
    graph = random_graph(3)
    owned, mesh = edge_cut(graph, 2, "contiguous").owned, meshes.row(meshes.make(1, 2), 0)
    rows = row_counts(owned, mesh)
    assert rows.device == owned.rows and rows.process == graph.schema.nodes
    row = {"author": 76, "venue": 76, "ghost": 76, "paper": 28, "topic": 10}
    needed = sum(owned.rows[name] * size for name, size in row.items())
    assert needed < sum(graph.schema.nodes[name] * size for name, size in row.items())
    for bound, place in ((needed, "device"), (needed - 1, "host")):
        config = config_of("rgcn", mesh=(1, 2, "dependency", ("mode", "communicate")), bytes_per_device=bound)
        features = make_engine(config, graph, folder=tmp_path).features
        assert set(features.placement.values()) == {place}
        assert features.resident(mesh.devices.flat[0], ()) == (needed if place == "device" else 0)
    sizes, host = {"one": 30, "other": 20}, {"one": 45, "other": 60}
    assert place_types(sizes, sizes, {}, 0, 50, host_sizes=host) == {"one": "host", "other": "disk"}
    assert place_types(sizes, sizes, {}, 0, 30) == {"one": "disk", "other": "host"}


def test_prefetched_rows_are_the_next_steps(tmp_path):
    """Read during the step before; what that step changes waits for it."""
    graph = random_graph(3)
    engine, features, batches = prepared(graph, config_of("rgcn", mesh=COMMUNICATE, **EVERYWHERE), tmp_path)
    first, second = (one.batch for one in itertools.islice(batches.epoch(0), 2))
    state, _ = engine.step(engine.init(3), first, second)
    request, reading = engine.ahead.read["author"]
    assert request is second.requests["author"]
    fetched = reading.result()
    waiting = [one.stale.sum() for one in fetched.values()]
    shared = [np.intersect1d(first.requests["author"][part], request[part]) for part in fetched]
    assert waiting == [np.count_nonzero(ids < 2**31 - 1) for ids in shared] and sum(waiting) > 0
    engine.step(state, second)
    assert "author" not in engine.ahead.read
    assert not any(matrix.changing.any() for matrix in features.hosted.values())
