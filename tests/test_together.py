"""Relations that are folded together are what they are one by one."""

import jax
import numpy as np
import pytest

from hetjax.kernels import grouping
from hetjax.kernels.grouping import Group
from hetjax.models.packed import Packed
from hetjax.sampling.whole import whole_graph
from hetjax.sharding.registry import make_engine
from tests.support.equivalence import MODELS, alone, apart, floats, initial, setting
from tests.support.graphs import smaller_graph
from tests.support.models import in_chunks

TOGETHER = ("R-GAT", "HGT, joint", "HGT, relation", "R-GCN", "R-GCN, bases")


@pytest.fixture
def graph():
    return smaller_graph()


def engine_of(graph, name: str, monkeypatch, fewest: int):
    monkeypatch.setattr(grouping, "FEWEST", fewest)
    return make_engine(setting(graph, "full", (1, 1), MODELS[name], {}), graph)


def at_once(engine, state, ids):
    return engine.outputs(state, ids)


@pytest.mark.parametrize("mode", ["full", "minibatch"])
@pytest.mark.parametrize("name", TOGETHER)
def test_loss_gradients_and_state_are_the_same(graph, name, mode, monkeypatch):
    """In float64, five steps; the graph has an empty relation, parallel edges, and nodes without edges. On the whole graph one relation of papers stays alone."""
    with jax.enable_x64(True):
        plain = alone(graph, mode, MODELS[name], 5, wide=True)
        monkeypatch.setattr(grouping, "FEWEST", 1)
        if mode == "full":
            monkeypatch.setattr(grouping, "LARGE", 37)
        errors = apart(alone(graph, mode, MODELS[name], 5, wide=True), plain)
    assert max(errors) < 1e-9


@pytest.mark.parametrize("name", TOGETHER)
def test_weights_are_drawn_alike_and_evaluation_is_the_same(graph, name, monkeypatch):
    ids, found = graph.splits["test"], []
    for fewest in (1, 1000):
        engine = engine_of(graph, name, monkeypatch, fewest)
        state = engine.init(3)
        found += [(jax.tree.map(np.array, state.params), way(engine, state, ids)) for way in (at_once, in_chunks)]
        state, _ = engine.step(state, next(engine.batches.epoch(0)).batch)
        moved = engine.shard(jax.tree.map(np.array, engine.gather(state)))
        np.testing.assert_array_equal(engine.outputs(state, ids), engine.outputs(moved, ids))
        assert engine.whole.computed._cache_size() == 1
    for params, logits in found[:3]:
        jax.tree.map(np.testing.assert_array_equal, params, found[3][0])
        np.testing.assert_allclose(logits, found[3][1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", TOGETHER)
def test_evaluation_is_given_weights_that_lie_side_by_side(graph, name, monkeypatch):
    engine = engine_of(graph, name, monkeypatch, 1)
    state, groups = engine.init(3), 0
    embed = engine.evaluator.embedded

    def seen(given, block, rows, **about):
        nonlocal groups
        layer = engine.trainer.model.layers[about["depth"]]
        for group in block.together:
            groups += 1
            for place, relation in enumerate(group.relations):
                for path, stack in zip(layer.traits.grouped.weights(layer, relation), group.weights, strict=True):
                    leaf = state.params["params"][f"layers_{about['depth']}"]
                    for key in path:
                        leaf = leaf[key]
                    np.testing.assert_array_equal(stack[place], leaf)
        return embed(given, block, rows, **about)

    engine.evaluator.embedded = seen
    in_chunks(engine, state, graph.splits["test"])
    assert groups


@pytest.mark.parametrize("name", ["R-GCN", "HGT, joint"])
def test_batches_that_outgrow_their_room_and_a_state_that_moves_change_nothing(graph, name, monkeypatch):
    """In float64, in batches of three, from capacities of nothing."""
    found = []
    with floats(wide=True):
        for fewest in (1, 1000):
            monkeypatch.setattr(grouping, "FEWEST", fewest)
            engine = make_engine(setting(graph, "minibatch", (1, 1), MODELS[name], {"batch_size": 3}), graph)
            engine.batches.prepare({"train/nothing": 1})
            state, losses, room = engine.shard(initial(engine.trainer, True)), [], set()
            for epoch in range(2):
                for drawn in engine.batches.epoch(epoch):
                    assert any(block.together for block in drawn.batch.blocks) is (fewest == 1)
                    room.add(tuple(size for key, size in drawn.capacities.items() if "together" in key))
                    state, loss = engine.step(state, drawn.batch)
                    losses.append(float(loss))
                state = engine.shard(jax.tree.map(np.array, engine.gather(state)))
            assert len(room) > 1 or fewest > 1
            found.append((losses, jax.tree.map(np.array, engine.gather(state))))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9), *found)


def test_packed_weights_come_back_as_they_were(graph, monkeypatch):
    engine = engine_of(graph, "R-GAT", monkeypatch, 1)
    state = engine.init(0)
    batch = next(iter(engine.batches.epoch(0))).batch
    before = jax.tree.map(np.array, (state.params, state.optimizer))
    state = engine._packed(state, batch)
    assert isinstance(state.params, Packed)
    (leaf, *_), vectors = jax.tree.leaves(engine.init(0).params), jax.tree.leaves((state.params, state.optimizer))
    assert all(isinstance(x, jax.Array) and x.sharding == leaf.sharding and x.committed for x in vectors)
    assert state.params.vector.dtype == leaf.dtype
    after = engine.gather(state)
    jax.tree.map(np.testing.assert_array_equal, (after.params, after.optimizer), before)


def test_a_run_that_goes_on_from_its_checkpoint_is_the_same_to_the_last_bit(graph, monkeypatch):
    engine = engine_of(graph, "R-GAT", monkeypatch, 1)
    batch, found = next(iter(engine.batches.epoch(0))).batch, []
    for stops in (False, True):
        state = engine.init(0)
        for _ in range(3):
            state, _ = engine.step(state, batch)
            if stops:
                state = engine.shard(jax.tree.map(np.array, engine.gather(state)))
        found.append(jax.tree.map(np.array, engine.gather(state)))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_rows_are_pairs_that_have_an_edge(graph):
    (block, _) = whole_graph(graph, [graph.schema.target], 2)
    relations = [relation for relation in graph.schema.relations if relation.key in block.adjacency]
    made = Group((tuple(relations),))
    found = grouping.find_pairs(relations, block.adjacency)
    group = grouping.as_one(made, found, made.sizes(found), len(found.places), graph.schema.nodes, graph.schema.nodes)
    pairs = sum(int((np.diff(block.adjacency[r.key].indptr) > 0).sum()) for r in relations)
    assert group.targets.indptr[-1] == pairs == len(found.targets)
    assert len(group.edges.indices) == sum(len(block.adjacency[r.key].indices) for r in relations)
    assert len(group.targets.indptr) - 1 == sum(b.relations * b.targets for b in group.buckets)


def test_joint_edges_go_to_the_targets_themselves(graph):
    """Every target's edges of all relations, from the pairs of their sources."""
    (block, _) = whole_graph(graph, [graph.schema.target], 2)
    nodes, relations = graph.schema.nodes, [r for r in graph.schema.relations if r.key in block.adjacency]
    made = Group((tuple(relations),), joint=True)
    found = grouping.find_pairs(relations, block.adjacency)
    group = grouping.as_one(made, found, made.sizes(found), len(found.places), nodes, nodes)
    assert group.joint and group.edges.targets == sum(count for _, count in group.rows)
    owner = np.repeat(np.arange(len(relations)), group.buckets[0].sources)
    first, starts = (
        dict(zip(types, np.cumsum([0, *(nodes[t] for t in types)])))
        for types in (group.source_types, [t for t, _ in group.rows])
    )
    wanted = []
    for number, relation in enumerate(relations):
        edges = block.adjacency[relation.key]
        into = np.repeat(np.arange(edges.targets), np.diff(edges.indptr)) + starts[relation.target]
        wanted += list(zip(into, edges.indices[: len(into)] + first[relation.source], [number] * len(into)))
    into = np.repeat(np.arange(group.edges.targets), np.diff(group.edges.indptr))
    of = np.asarray(group.edges.indices)[: len(into)]
    source = np.asarray(group.sources.indices)[np.asarray(group.sources.indptr)[of]]
    assert sorted(zip(into, source, owner[of])) == sorted(wanted)
