"""The generated graph of tensor_memory.py, and of dependency_runs.py in Reddit's shape."""

import numpy as np

from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.schema import Relation, Schema


def zipf(nodes: int, edges: int, width: int, classes: int) -> HetGraph:
    """Return a directed graph in which the sources of edges are few and the targets many, with random features."""
    rng, relation = np.random.default_rng(0), Relation("node", "to", "node")
    rank = 1 / np.arange(1, nodes + 1) ** 0.7
    source = rng.permutation(nodes)[rng.choice(nodes, edges, p=rank / rank.sum())]
    target = rng.integers(0, nodes, edges)
    order = rng.permutation(nodes)
    splits = dict(zip(("train", "validation", "test"), np.split(order, [nodes // 2, 3 * nodes // 4])))
    schema = Schema({"node": nodes}, (relation,), "node", classes)
    features = {"node": rng.standard_normal((nodes, width), np.float32)}
    return build(schema, {relation: (source, target)}, features, rng.integers(0, classes, nodes), splits)
