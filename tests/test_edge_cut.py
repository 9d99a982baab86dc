"""Edge-cuts: random and METIS, what they cut, and what a step then fetches."""

from functools import partial

import numpy as np
import pytest

from hetjax.graph import store
from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import build
from hetjax.graph.homogeneous import homogeneous
from hetjax.graph.schema import Relation, Schema
from hetjax.partition import EdgeCut, Workload, edge_cut, open_part, partition, read, save
from hetjax.partition.measure import measure, remote_rows
from hetjax.partition.reports import report
from hetjax.system.errors import InputError
from tests.support.edge_cuts import block_graph, homogeneous_by_sets
from tests.support.graphs import random_graph


def test_homogeneous_graph():
    graph = random_graph()
    indptr, neighbours = homogeneous(graph)
    for v, expected in enumerate(homogeneous_by_sets(graph)):
        assert neighbours[indptr[v] : indptr[v + 1]].tolist() == sorted(expected)


@pytest.mark.parametrize(
    "method, parts", [("random", 3), ("metis", 4), ("metis-vol", 2), ("contiguous", 5), ("fennel", 64)]
)
def test_edge_cut_counts_equal_brute_force(method, parts):
    graph = random_graph(3, papers=60)
    made = edge_cut(graph, parts, method, workload=Workload(8, (2, -1)))
    counts, part_of = measure(graph, made), made.nodes
    halo, boundary = [set() for _ in range(parts)], [set() for _ in range(parts)]
    for relation, csc in graph.relations.items():
        edges, draws = np.zeros((parts, parts)), np.zeros((2, parts, parts))
        degree = np.diff(csc.indptr)
        for u, v in zip(*edges_of(csc)):
            p, q = part_of[relation.target][v], part_of[relation.source][u]
            edges[p, q] += 1
            draws[:, p, q] += min(2, degree[v]) / degree[v], 1
            if p != q:
                halo[p].add((relation.source, u))
                boundary[p].add((relation.target, v))
                boundary[q].add((relation.source, u))
        np.testing.assert_array_equal(counts.edges[relation], edges)
        np.testing.assert_allclose(counts.draws[relation], draws)
    assert [sum(int(count[p]) for count in counts.halo.values()) for p in range(parts)] == list(map(len, halo))
    rows = report(made, graph).rows
    assert [row["boundary_nodes"] for row in rows] == list(map(len, boundary))
    assert [row["halo_nodes"] for row in rows] == list(map(len, halo))
    own = [sum(int((array == p).sum()) for array in part_of.values()) for p in range(parts)]
    assert [row["nodes"] for row in rows] == own and sum(row["edges"] for row in rows) == graph.edges
    learned = [sum(int((part_of[n] == p).sum()) for n in ("author", "venue", "ghost")) * 64 * 12 for p in range(parts)]
    assert [row["learnable_bytes"] for row in rows] == learned
    assert [row["feature_bytes"] for row in rows] == [
        int((part_of["paper"] == p).sum()) * 28 + int((part_of["topic"] == p).sum()) * 10 for p in range(parts)
    ]
    train = part_of["paper"][graph.splits["train"]]
    assert [row["training_nodes"] for row in rows] == np.bincount(train, minlength=parts).tolist()


@pytest.mark.parametrize("nodes, edges, parts", [(1, 0, 1), (10, 0, 10), (3, 8, 2), (5, 3, 5)])
@pytest.mark.parametrize("method", EdgeCut.methods)
def test_edge_cuts_of_tiny_graphs(nodes, edges, parts, method):
    """Nodes without edges, no edges at all, as many partitions as nodes; partitions may stay empty."""
    relation, rng = Relation("a", "r", "a"), np.random.default_rng(0)
    ends = rng.integers(0, nodes, (2, edges))
    graph = build(Schema({"a": nodes, "none": 0}, (relation,), "a", 2), {relation: ends}, {}, np.zeros(nodes, int), {})
    made = edge_cut(graph, parts, method)
    assert sum(row["nodes"] for row in report(made, graph).rows) == nodes


@pytest.mark.parametrize("method", ["metis", "metis-vol"])
def test_metis_finds_communities(method):
    graph = block_graph()
    made = edge_cut(graph, 4, method)
    assert report(made, graph).summary["cut_edges"] == 0
    assert np.bincount(made.nodes["a"]).tolist() == [50] * 4
    assert sum(remote_rows(made, measure(graph, made), ("a",)).values()) == 0
    again = edge_cut(graph, 4, method)
    assert np.array_equal(again.nodes["a"], made.nodes["a"])


def test_metis_objectives_differ_in_what_they_make_small():
    graph = random_graph(1, papers=400, degree=6)
    found = {method: report(edge_cut(graph, 4, method), graph).summary for method in ("random", "metis", "metis-vol")}
    assert found["metis"]["cut_edges"] < 0.9 * found["random"]["cut_edges"]
    assert found["metis-vol"]["halo_nodes"] < found["random"]["halo_nodes"]


def test_expected_remote_rows_of_a_step():
    """Against sampling, on a graph whose edges know no partition; that two hops draw from the same neighbours is left out."""
    rng, count, degree = np.random.default_rng(0), 600, 10
    relation = Relation("a", "r", "a")
    neighbours = rng.integers(0, count, (count, degree))
    edges = {relation: (neighbours.ravel(), np.repeat(np.arange(count), degree))}
    labels = np.zeros(count, int)
    graph = build(Schema({"a": count}, (relation,), "a", 2), edges, {}, labels, {"train": np.arange(count)})
    made = edge_cut(graph, 3, "random", workload=Workload(30, (4, 3)))
    expected = remote_rows(made, measure(graph, made), ("a",))["a"]
    seen = []
    for _ in range(200):
        total = 0
        for part in range(3):
            have = rng.choice(np.flatnonzero(made.nodes["a"] == part), 10, replace=False)
            for fanout in (4, 3):
                drawn = [rng.choice(neighbours[v], fanout, replace=False) for v in have]
                have = np.unique(np.concatenate([have, *drawn]))
            total += (made.nodes["a"][have] != part).sum()
        seen.append(total)
    assert expected == pytest.approx(np.mean(seen), rel=0.08)


@pytest.mark.parametrize("method", EdgeCut.methods)
def test_edge_cut_manifest(stored, tmp_path, method):
    graph = store.open(stored)
    made = edge_cut(graph, 3, method, seed=5, store=str(stored))
    save(made, tmp_path / "plan", graph)
    found = read(tmp_path / "plan")
    assert isinstance(found, EdgeCut) and found.json() == made.json() and found.store == str(stored)
    assert all(np.array_equal(found.nodes[name], made.nodes[name]) for name in made.nodes)
    other = edge_cut(graph, 3, method, seed=6).nodes["paper"]
    if method in ("random", "fennel", "contiguous"):  # METIS may find the same again
        assert np.array_equal(other, made.nodes["paper"]) == (method == "contiguous")
    with pytest.raises(InputError, match=f"made by method {method}, and has no partitions that are files"):
        open_part(tmp_path / "plan", 0)
    file = tmp_path / "plan" / "nodes_0.npy"
    array = np.load(file)
    for changed, words in (
        ((array + 1) % 3, "sha256"),
        (array + 9, "under 3"),
        (array[1:], r"\(39,\)"),
        (array.astype(int), "int64"),
    ):
        np.save(file, changed)
        with pytest.raises(InputError, match=words):
            read(tmp_path / "plan")


@pytest.mark.parametrize(
    "method, parts, words", [("metis", 65, "outside 1..64"), ("random", 0, "0 partitions"), ("cut", 2, "method 'cut'")]
)
def test_edge_cut_refuses(method, parts, words):
    with pytest.raises(InputError, match=words):
        edge_cut(random_graph(), parts, method)


@pytest.mark.parametrize("divide", [partition, partial(edge_cut, method="random")])
def test_parts_are_a_whole_number(divide):
    with pytest.raises(InputError, match="^parts is 2.0, and should be a whole number$"):
        divide(random_graph(), 2.0)
