"""Graphs and partitions for the tests of edge cuts."""

import numpy as np

from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.partition import EdgeCut, edge_cut
from hetjax.partition.edge_cut import PART

PARTS = (1, 2, 3, 8, 64)


def one_type(source, target, count):
    relation = Relation("a", "r", "a")
    schema = Schema({"a": count}, (relation,), "a", 2)
    return build(schema, {relation: (source, target)}, {}, np.zeros(count, int), {"train": np.arange(count)})


def homogeneous_by_sets(graph):
    start = dict(zip(graph.schema.nodes, np.cumsum([0, *graph.schema.nodes.values()])))
    neighbours = [set() for _ in range(sum(graph.schema.nodes.values()))]
    for relation, csc in graph.relations.items():
        for u, v in zip(*edges_of(csc)):
            a, b = int(u) + int(start[relation.source]), int(v) + int(start[relation.target])
            if a != b:
                neighbours[a].add(b)
                neighbours[b].add(a)
    return neighbours


def block_graph(blocks=4, size=50):
    """Communities with edges inside alone, their nodes shuffled."""
    rng = np.random.default_rng(1)
    order = rng.permutation(blocks * size)
    source = rng.integers(0, size, 3000) + size * rng.integers(0, blocks, 3000)
    target = source // size * size + rng.integers(0, size, 3000)
    relation, count = Relation("a", "r", "a"), blocks * size
    schema = Schema({"a": count, "none": 0}, (relation,), "a", 2)
    return build(schema, {relation: (order[source], order[target])}, {}, np.zeros(count, int), {"train": order[:50]})


def lopsided(graph, parts: int) -> EdgeCut:
    """All training papers in the last partition, all topics in the first, authors anywhere; others in the first two."""
    about, rng = edge_cut(graph, parts, "random"), np.random.default_rng(0)
    nodes = {name: (of % 2).astype(PART) for name, of in about.nodes.items()}
    nodes["topic"][:] = 0
    nodes["paper"][graph.splits["train"]] = parts - 1
    nodes["author"] = rng.integers(0, parts, len(nodes["author"]), PART)
    return EdgeCut(about.sizes, nodes, parts, "random")
