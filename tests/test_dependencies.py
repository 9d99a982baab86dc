"""What the layers of a full batch read from other partitions: against sets, and on graphs of which it is known."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import build
from hetjax.partition import EdgeCut, edge_cut, save
from hetjax.partition.dependencies import Layer, as_json, dependencies, lines
from tests.support.edge_cuts import one_type
from tests.support.graphs import random_graph
from tests.support.partitions import schemas


def in_edges(graph, nodes, relations):
    """`(relation, source, target)` of every edge into the nodes, each as often as it is there; a node is `(type, id)`."""
    return [
        (r, (r.source, int(u)), (r.target, int(v)))
        for r in relations
        for u, v in zip(*edges_of(graph.relations[r]))
        if (r.target, int(v)) in nodes
    ]


def below(graph, nodes, edges, reads_own):
    return {u for _, u, _ in edges} | (nodes if reads_own else set())


def layers_by_sets(graph, cut):
    """Per layer, the last first: for every count a list of sets or lists, one per partition."""

    def owner(node):
        return cut.nodes[node[0]][node[1]]

    def others(part, nodes):
        return [node for node in nodes if owner(node) != part]

    parts, relations, found = range(cut.parts), graph.schema.relations, []
    needed = {(graph.schema.target, int(v)) for v in graph.splits["train"]}
    cached = [{node for node in needed if owner(node) == part} for part in parts]
    for layer in range(cut.hops, 0, -1):
        own = [{node for node in needed if owner(node) == part} for part in parts]
        own_edges = [in_edges(graph, nodes, relations) for nodes in own]
        needs = [below(graph, *pair, cut.reads_own) for pair in zip(own, own_edges)]
        cached_edges = [in_edges(graph, nodes, relations) for nodes in cached]
        cached_needs = [below(graph, *pair, cut.reads_own) for pair in zip(cached, cached_edges)]
        counts = [own, own_edges, needs, [others(*pair) for pair in enumerate(needs)]]
        counts += [cached, [others(*pair) for pair in enumerate(cached)], cached_edges]
        counts += [[[edge for edge in edges if owner(edge[2]) != part] for part, edges in enumerate(cached_edges)]]
        counts += [cached_needs, [others(*pair) for pair in enumerate(cached_needs)]]
        found.append((layer, *counts))
        needed, cached = set().union(*needs), cached_needs
        assert needed == set().union(*cached), "what is needed is the same in both ways"
    return found


def same(graph, cut):
    found, expected = dependencies(graph, cut), layers_by_sets(graph, cut)
    types = graph.schema.layer_types([graph.schema.target], cut.hops, cut.reads_own)
    assert [layer.layer for layer in found] == list(range(cut.hops, 0, -1))
    for layer, (number, *sets) in zip(found, expected, strict=True):
        assert set(layer.nodes) == types[number] and set(layer.needs) == types[number - 1]
        assert set(layer.edges) == {r for r in graph.schema.relations if r.target in types[number]}
        for name, counts, by_part in zip(Layer._fields[1:], layer[1:], sets, strict=True):
            counted = [
                {key: sum(one[0] == key for one in of) for key in {one[0] for one in of} | set(counts)}
                for of in by_part
            ]
            for key, count in counts.items():
                assert count.dtype == np.int64 and count.tolist() == [one[key] for one in counted], (number, name, key)
            assert all(set(one) == set(counts) for one in counted)


@pytest.mark.parametrize(
    "method, parts", [("random", 3), ("metis", 2), ("contiguous", 5), ("fennel", 64), ("random", 1)]
)
@pytest.mark.parametrize("hops, reads_own", [(1, True), (2, False), (3, True)])
def test_equals_sets(method, parts, hops, reads_own):
    graph = random_graph(3, papers=60, degree=2)
    same(graph, edge_cut(graph, parts, method, hops=hops, reads_own=reads_own))


@settings(max_examples=30, deadline=None)
@given(schemas(), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.integers(0, 2**20))
def test_equals_sets_on_any_schema(schema, parts, hops, reads_own, seed):
    rng = np.random.default_rng(seed)
    edges = {r: [rng.integers(0, schema.nodes[end], 6) for end in (r.source, r.target)] for r in schema.relations}
    count = schema.nodes["t0"]
    graph = build(schema, edges, {}, np.zeros(count, int), {"train": np.flatnonzero(rng.random(count) < 0.6)})
    parts = min(parts, sum(schema.nodes.values()))
    same(graph, edge_cut(graph, parts, "random", seed, hops, reads_own=reads_own))


def path(train):
    """0 <- 1 <- 2 <- 3 <- 4 <- 5, in two partitions, 0 1 2 and 3 4 5."""
    made = one_type(np.arange(1, 6), np.arange(5), 6)
    graph = build(
        made.schema, {r: edges_of(csc) for r, csc in made.relations.items()}, {}, made.labels, {"train": train}
    )
    about = edge_cut(graph, 2, "contiguous")
    nodes = {"a": np.array([0, 0, 0, 1, 1, 1], np.uint8)}
    return graph, EdgeCut(about.sizes, nodes, 2, "contiguous", 2)


def test_a_path():
    """From its seed 2, partition 0 needs 3 of the other, which reads 4, its own; cached, it computes 3 again."""
    last, first = dependencies(*path([2]))
    assert last.needs["a"].tolist() == [2, 0] and last.remote["a"].tolist() == [1, 0]
    assert first.nodes["a"].tolist() == [1, 1] and first.remote["a"].tolist() == [1, 0]
    assert first.needs["a"].tolist() == [2, 2]
    assert first.cached_nodes["a"].tolist() == [2, 0] and first.redundant_nodes["a"].tolist() == [1, 0]
    assert [count.tolist() for count in first.redundant_edges.values()] == [[1, 0]]
    assert first.cached_needs["a"].tolist() == [3, 0] and first.cached_remote["a"].tolist() == [2, 0]


def test_nothing_is_remote_in_one_partition_nor_needed_without_seeds():
    graph = random_graph()
    for layer in dependencies(graph, edge_cut(graph, 1, "random", hops=3)):
        for counts in (layer.remote, layer.redundant_nodes, layer.redundant_edges, layer.cached_remote):
            assert not sum(map(sum, counts.values()))
        assert {n: c.tolist() for n, c in layer.needs.items()} == {n: c.tolist() for n, c in layer.cached_needs.items()}
    none = dependencies(*path([]))
    assert all(not count.any() for layer in none for counts in layer[1:] for count in counts.values())


def test_the_report_and_its_table(graph, tmp_path):
    from hetjax.partition.report import table

    made = edge_cut(graph, 3, "fennel")
    report = save(made, tmp_path / "cut", graph)
    written = json.loads((tmp_path / "cut" / "report.json").read_text())["dependencies"]
    layers = dependencies(graph, made)
    assert written == as_json(layers) == report.summary["dependencies"] and written[0]["layer"] == 2
    assert written[1]["remote"]["author"] == layers[1].remote["author"].tolist()
    last, remote = lines(written)[1][0], sum(int(count.sum()) for count in layers[0].remote.values())
    assert last == "2" and lines(written)[1][2] == str(remote)
    assert "rows needed  from others" in table(report)
