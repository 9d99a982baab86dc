"""Tensor parallelism in chunks: equal to one device whatever the chunks, within its bytes, every node sent once."""

import jax
import numpy as np
import pytest

from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding import mesh as meshes
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.sharding.tensor.chunks import costs, room
from hetjax.sharding.tensor.chunks.engine import ChunkedEngine
from hetjax.sharding.tensor.chunks.plan import Plan, cut, rows_between, sendings
from hetjax.sharding.tensor.strategy import Tensor
from hetjax.system.errors import InputError
from tests.support.equivalence import GRAPHS, MODELS, compare, few, setting
from tests.support.graphs import random_graph


def planned(setup, share: float) -> Plan:
    types = sorted({t for layer in setup.trainer.model.layers for t in layer.targets})
    return Plan(setup.graph, types, setup.config.mesh.feature, share)


class Few(Tensor):
    """Chunks of a third of the nodes and edges at most."""

    name, share = "few", 0.35

    def engine(self, setup, partitioning=None):
        return ChunkedEngine(setup, meshes.features(setup.config.mesh.feature), planned(setup, self.share))


class One(Few):
    """Chunks of one node."""

    name, share = "one", 0.0


class All(Few):
    """One chunk of every type."""

    name, share = "all", 1.0


@pytest.mark.parametrize(
    ("model", "graph", "parts", "chunks", "more"),
    [
        (
            "GCN, residual",
            GRAPHS["homogeneous, weights"](),
            2,
            "One",
            {"l2": 0.01, "gradient_clip": 0.05, "class_weights": "balanced"},
        ),
        ("GCN", GRAPHS["homogeneous"](), 2, "Few", {}),  # features of 32 bits that are dropped, and no more
        ("GAT", GRAPHS["homogeneous"](), 3, "Few", {}),  # 2 heads: by columns
        ("R-GCN, bases", few("cites", "writes"), 2, "All", {}),
        ("R-GCN, no self term", few("writes"), 2, "Few", {}),  # whose targets nobody reads
        ("HGT, dropout", few("cites"), 2, "Few", {}),
        ("GCN, decoupled", GRAPHS["homogeneous"](), 3, "Few", {}),
        ("GIN, decoupled", GRAPHS["homogeneous, weights"](), 2, "Few", {}),  # learned numbers in every round
        ("R-GCN, decoupled", few("cites", "writes"), 2, "Few", {}),
        ("GAT, decoupled", GRAPHS["homogeneous"](), 2, "Few", {}),  # 3 heads of logits
        ("R-GCN", few("cites", "writes"), 2, "Few", {"warmup_steps": 3, "schedule": "step"}),  # authors are learned
    ],
)
def test_equals_one_device_in_double_precision(model, graph, parts, chunks, more):
    mesh = 1, 1, f"tests.test_tensor_chunks:{chunks}", parts
    errors = compare(graph, mesh, "full", MODELS[model], steps=3, wide=True, **more)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9


@pytest.mark.parametrize(
    ("model", "graph", "parts", "chunks"),
    [
        ("GCN", GRAPHS["homogeneous"](), 3, Few),
        ("R-GCN", few("cites", "writes"), 2, Few),
        ("HGT, dropout", few("cites"), 2, All),
        ("GCN, decoupled", GRAPHS["homogeneous"](), 2, Few),
        ("GAT, decoupled", GRAPHS["homogeneous"](), 2, Few),
    ],
)
def test_bytes_are_those_of_the_formula(model, graph, parts, chunks):
    """And what waits in pinned memory gives the same bits; features that folds read as they are travel once."""
    options = MODELS[model] | {"input_projection": False, "input_dropout": 0.0, "head": model != "GCN"}
    given = setup(setting(graph, "full", (1, 1, "tensor", parts), options, {}), graph)
    plan, losses = planned(given, chunks.share), []
    for pinned in (False, True):
        engine = ChunkedEngine(given, meshes.features(parts), plan, pinned=pinned)
        (drawn,) = engine.batches.epoch(0)
        state, loss = engine.step(engine.init(0), drawn.batch)
        losses.append((float(loss), float(engine.step(state, drawn.batch)[1])))
    about = engine.trainer, given.graph, parts, [run.sendings for run in engine.runs], [run.most for run in engine.runs]
    both = [costs.sent(*about, plan.sizes, again) for again in (False, True)]
    found = {one.kind: one.bytes for one in engine.traffic() if one.kind != "gradients"}
    assert found == {kind: (both[0][kind] + both[1].get(kind, 0)) / 2 for kind in both[0]}
    assert both[0] != both[1] or model != "GCN"
    assert losses[0] == losses[1] and len(engine.edges.waiting) == sum(map(len, engine.chunks.values()))


def setting_of(device_bytes: int):
    return setting(
        GRAPHS["homogeneous"](),
        "full",
        (1, 1, "tensor", 2),
        {"name": "gcn"},
        {"options": {"device_bytes": device_bytes}},
    )


def test_pipelining_changes_no_bit_and_programs_are_as_many_as_types():
    graph = GRAPHS["homogeneous"]()
    engine = make_engine(setting_of(7000), graph)
    assert isinstance(engine, ChunkedEngine) and len(engine.chunks["node"]) > 4
    held, moving = room.needed(engine)
    assert held + moving <= 7000
    (drawn,) = engine.batches.epoch(0)
    found = []
    for pipelined in (True, False):
        engine.prepare(state := engine.init(0))
        for run in engine.runs:
            run.pipelined = pipelined
        for _ in range(2):
            state, loss = engine.step(state, drawn.batch)
        found.append((loss, engine.gather(state).params))
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_array_equal(one, other)
    assert room.peak(engine) <= max(moving, room.of_rows(engine)) <= 7000 - held, (
        "what was compiled when the chunks were chosen is what ran"
    )
    for programs in engine.programs:
        assert all(len(program.compiled) <= 1 for program in programs.all)


def test_too_few_bytes_for_a_node_are_refused():
    with pytest.raises(InputError, match="tensor.device_bytes is 100, and weights, .* alone need [0-9]+ bytes"):
        make_engine(setting_of(100), GRAPHS["homogeneous"]())


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_every_node_is_sent_once_before_it_is_read(share):
    """Chunks are ranges that cover all targets, with all their in-edges; of any chunk every device has as much."""
    graph, parts = random_graph(3), 3
    plan = Plan(graph, ["author", "paper"], parts, share)
    chunks = [chunk for t in plan.into for chunk in plan.chunks(t)]
    for relation in (r for t in plan.into for r in plan.into[t]):
        csc, found = graph.relations[relation], []
        for chunk in (one for one in chunks if one.node_type == relation.target):
            edges, sources = chunk.adjacency[relation.key], chunk.sources[relation.source]
            for row, target in enumerate(chunk.ids):
                found += [(target, sources[i]) for i in edges.indices[edges.indptr[row] : edges.indptr[row + 1]]]
        expected = [(v, u) for v in range(len(csc.indptr) - 1) for u in csc.indices[csc.indptr[v] : csc.indptr[v + 1]]]
        assert sorted(found) == sorted(expected)
    sent, (order, most) = (
        {t: set() for t in graph.schema.nodes},
        sendings(graph.schema.nodes, parts, chunks, {"author": True, "paper": False}),
    )
    for chunk, portions in zip(chunks, order, strict=True):
        for portion in portions:
            assert max(map(len, portion.ids)) <= most[portion.node_type]
            for device, ids in enumerate(portion.ids):
                assert all(ids % parts == device) and not sent[portion.node_type] & set(ids.tolist())
                sent[portion.node_type] |= set(ids.tolist())
        for t, ids in chunk.sources.items():
            assert sent[t] >= set(ids[ids != NO_NODE].tolist())
        counts = [rows_between(parts, device, chunk.begin, chunk.end) for device in range(parts)]
        assert len({at.stop - at.start for at in counts}) <= 2


def test_chunks_are_bounded_by_targets_and_by_edges():
    edges = np.array([0, 5, 6, 7, 27, 28, 28, 28, 28])
    assert cut(edges, 3, 7) == [(0, 3), (3, 4), (4, 7), (7, 8)]
