"""Fennel: against its equation in plain Python, its load limit, and what it finds."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.partition import edge_cut
from hetjax.partition.fennel import limits
from hetjax.partition.reports import report
from hetjax.system.errors import InputError
from tests.support.edge_cuts import PARTS, block_graph, homogeneous_by_sets, one_type
from tests.support.graphs import random_graph


def fennel_by_sets(graph, parts, seed):
    """The paper's equation with sets; every type has a load limit of its own."""
    neighbours, counts = homogeneous_by_sets(graph), list(graph.schema.nodes.values())
    types = [number for number, count in enumerate(counts) for _ in range(count)]
    nodes, edges = len(neighbours), sum(map(len, neighbours)) // 2
    alpha_gamma = math.sqrt(parts) * edges / nodes**1.5 * 1.5
    most = [max(math.floor(Fraction(11, 10) * count / parts), math.ceil(Fraction(count, parts))) for count in counts]
    placed = [set() for _ in range(parts)]
    for v in np.random.Generator(np.random.Philox(seed)).permutation(nodes).tolist():
        room = [i for i in range(parts) if sum(types[u] == types[v] for u in placed[i]) < most[types[v]]]
        score = {i: len(neighbours[v] & placed[i]) - alpha_gamma * math.sqrt(len(placed[i])) for i in room}
        placed[min(room, key=lambda i: (-score[i], len(placed[i]), i))].add(v)
    return [next(i for i in range(parts) if v in placed[i]) for v in range(nodes)]


def whole(made):
    return np.concatenate(list(made.nodes.values()))


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_equation(parts, seed):
    for graph in (random_graph(seed, papers=70), block_graph()):
        found = edge_cut(graph, parts, "fennel", seed)
        assert whole(found).tolist() == fennel_by_sets(graph, parts, seed)
        assert np.array_equal(whole(edge_cut(graph, parts, "fennel", seed)), whole(found))
    assert parts == 1 or not np.array_equal(whole(edge_cut(graph, parts, "fennel", 9)), whole(found))


def star(count):
    return one_type(np.arange(1, count), np.zeros(count - 1, int), count)


def zipf(count):
    return one_type(*(count * np.random.default_rng(0).random((2, 8 * count)) ** 2).astype(int), count)


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("graph", [star(500), zipf(500), random_graph(0, papers=300)], ids=["star", "zipf", "types"])
def test_every_type_keeps_to_the_load_limit(graph, parts):
    for owners in edge_cut(graph, parts, "fennel").nodes.values():
        most = np.bincount(owners, minlength=parts).max(initial=0)
        assert most <= max(math.floor(1.1 * len(owners) / parts), math.ceil(len(owners) / parts))


def test_limits_have_room_for_all():
    for count in (0, 1, 5, 10, 640, 641):
        for parts in range(1, 65):
            assert limits([count], parts)[0] * parts >= count


def test_a_type_gathers_without_a_limit_of_its_own(monkeypatch):
    """Why the limit is by type: two types that only know their own kind, and one limit for all nodes."""
    rng, relations = np.random.default_rng(0), (Relation("a", "r", "a"), Relation("b", "r", "b"))
    edges = {relation: rng.integers(0, 100, (2, 2000)) for relation in relations}
    graph = build(Schema({"a": 100, "b": 100}, relations, "a", 2), edges, {}, np.zeros(100, int), {})

    def most():
        return np.bincount(edge_cut(graph, 2, "fennel").nodes["a"]).max()

    assert most() <= 55
    module = sys.modules["hetjax.partition.fennel"]
    monkeypatch.setattr(module, "limits", lambda counts, parts: np.full(len(counts), 110))
    assert most() > 60


def test_communities_are_found_better_than_at_random():
    graph = block_graph()
    shares = {method: report(edge_cut(graph, 4, method), graph).summary["cut_share"] for method in ("random", "fennel")}
    assert shares["fennel"] < 0.6 * shares["random"]


def test_more_partitions_than_nodes_are_refused():
    with pytest.raises(InputError, match=r"^4 partitions of 3 nodes, outside 1\.\.3$"):
        edge_cut(star(3), 4, "fennel")
