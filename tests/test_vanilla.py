"""Vanilla execution: rows come from their owners and gradients go back; it equals one device; the command line."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.partition import EdgeCut, edge_cut
from hetjax.partition.plan import PART
from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding import mesh as meshes
from hetjax.sharding.exchange import Room, fetch, give_back, want
from hetjax.sharding.vanilla_feed import spread
from tests.conftest import random_graph
from tests.equivalence import GRAPHS, MODELS, compare


@pytest.fixture(autouse=True)
def quick_compilation():
    """The same mathematics in programs that compile in half the time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def lopsided(graph, parts: int) -> EdgeCut:
    """All training papers in the last partition, all topics in the first, authors anywhere; others in the first two."""
    about, rng = edge_cut(graph, parts, "random"), np.random.default_rng(0)
    nodes = {name: (of % 2).astype(PART) for name, of in about.nodes.items()}
    nodes["topic"][:] = 0
    nodes["paper"][graph.splits["train"]] = parts - 1
    nodes["author"] = rng.integers(0, parts, len(nodes["author"]), PART)
    return EdgeCut(about.sizes, nodes, parts, "random")


def test_rows_are_kept_and_found():
    owned = edge_cut(random_graph(), 3, "random").owned
    for name, of in owned.owner.items():
        matrix = np.random.default_rng(0).standard_normal((len(of), 2))
        taken = np.concatenate([owned.take(name, matrix, part) for part in range(3)])
        assert len(taken) == 3 * owned.rows[name]
        np.testing.assert_array_equal(owned.whole(name, taken), matrix)


def test_rows_come_from_their_owners_and_gradients_go_back():
    """Against plain indexing; every partition wants rows of its own, of some others, and some want none."""
    graph, parts, rng = random_graph(), 4, np.random.default_rng(1)
    owned = lopsided(graph, parts).owned
    mesh = meshes.row(meshes.make(1, parts), 0)
    ids = {"author": [25, 6, 0, 11], "topic": [3, 0, 11, 5], "ghost": [0] * 4}
    ids = {t: [rng.permutation(graph.schema.nodes[t])[:n].astype(np.int32) for n in sizes] for t, sizes in ids.items()}
    room = {t: Room(27, 13, 14) if graph.schema.nodes[t] else Room(0, 0, 0) for t in ids}
    matrices = {t: rng.standard_normal((graph.schema.nodes[t], 3)).astype(np.float32) for t in ids}
    gradient = {t: rng.standard_normal((room[t].rows * parts, 3)).astype(np.float32) for t in ids}
    wanted = {p: {t: want(owned, t, ids[t][p], p, room[t], True) for t in ids} for p in range(parts)}
    rows = {p: {t: owned.take(t, matrices[t], p) for t in ids} for p in range(parts)}

    def both(rows, wanted, gradient):
        fetched, asked = fetch(rows, wanted, "data")
        return fetched, {t: give_back(gradient[t], wanted[t], asked[t], owned.rows[t], "data") for t in rows}

    mapped = jax.shard_map(both, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
    fetched, back = jax.jit(mapped)(spread(mesh, rows), spread(mesh, wanted), gradient)
    for t, of in ids.items():
        expected = np.zeros_like(matrices[t])
        for p, (came, gave) in enumerate(zip(np.split(np.asarray(fetched[t]), parts), np.split(gradient[t], parts))):
            np.testing.assert_array_equal(came[: len(of[p])], matrices[t][of[p]])
            assert not came[len(of[p]) :].any()
            np.add.at(expected, of[p], gave[: len(of[p])])
        for p, (numbers, sums) in enumerate(zip(*(np.split(np.asarray(leaf), parts) for leaf in back[t]))):
            real = numbers != NO_NODE
            own = owned.ids[t][p][numbers[real]]
            assert sorted(own) == sorted(n for n in set(np.concatenate(of)) if owned.owner[t][n] == p)
            np.testing.assert_allclose(sums[real], expected[own], rtol=1e-6)


@pytest.mark.parametrize(
    ("graph", "parts", "mode", "model"),
    [
        ("random", 4, "minibatch", "R-GCN"),
        ("random", 2, "full", "R-GCN, bases"),
        ("labels", 2, "minibatch", "R-GCN, residual"),
    ],
)
def test_equals_one_device(graph, parts, mode, model):
    """In float32, as it is trained."""
    errors = compare(GRAPHS[graph](), (1, parts, "vanilla"), mode, MODELS[model])
    assert errors.loss < 1e-5 and errors.gradient < 1e-5 and errors.state < 1e-4


@pytest.mark.parametrize(
    ("graph", "parts", "mode", "model"),
    [
        ("ogbn-mag", 2, "minibatch", "HGT, joint"),
        ("ogbn-mag", 4, "minibatch", "HGT, relation"),
        ("random", 2, "full", "R-GAT"),
        ("random", 2, "minibatch", "HGNN, max"),
    ],
)
def test_equals_one_device_in_double_precision(graph, parts, mode, model):
    """All differences then are rounding."""
    errors = compare(GRAPHS[graph](), (1, parts, "vanilla"), mode, MODELS[model], wide=True)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


@pytest.mark.parametrize("mode", ["minibatch", "full"])
def test_a_lopsided_cut_with_penalty_clipping_and_decay(mode):
    """All seeds in one partition, another that owns nothing of a type: every row is counted once, wherever it is read."""
    graph, more = random_graph(3), {"l2": 0.01, "gradient_clip": 0.05, "weight_decay": 0.1, "label_smoothing": 0.1}
    errors = compare(graph, (1, 4, "vanilla"), mode, MODELS["R-GCN"], plan=lopsided(graph, 4), **more)
    assert errors.loss < 1e-5 and errors.gradient < 1e-5 and errors.state < 1e-4
