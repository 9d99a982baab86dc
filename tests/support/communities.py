"""Graphs whose labels follow their edges, their features, both or neither."""

import numpy as np

from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema


def kinds(scale: float = 1.0):
    """A graph with a type of each kind of features."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.5, (30, 6)) * scale
    features = {
        "counts": counts.astype(np.float32),
        "numbers": (rng.standard_normal((20, 3)) * scale + 5 * scale).astype(np.float32),
        "sparse": (rng.standard_normal((20, 18)) * (rng.uniform(size=(20, 18)) < 0.3) * scale).astype(np.float32),
        "flags": rng.integers(0, 2, (10, 4)).astype(np.uint8),
    }
    relations = {
        Relation(source, "to", "counts"): (rng.integers(0, len(features[source]), 60), rng.integers(0, 30, 60))
        for source in ("numbers", "sparse", "flags")
    }
    labels = rng.integers(0, 2, 30)
    splits = {"train": np.arange(12), "validation": np.arange(12, 20), "test": np.arange(20, 30)}
    nodes = {name: len(matrix) for name, matrix in features.items()}
    return build(Schema(nodes, tuple(relations), "counts", 2), relations, features, labels, splits)


def shop(told: str = "nothing"):
    """Every customer buys products that others of one kind buy; a column of features, unless there is none, tells `all` or `nothing`."""
    rng = np.random.default_rng(0)
    kinds, products = rng.integers(0, 3, 600), rng.integers(0, 3, 90)
    of = [np.flatnonzero(products == kind) for kind in range(3)]
    customers = np.repeat(np.arange(600), 5)
    bought = np.array([rng.choice(of[kinds[customer]]) for customer in customers])
    column = kinds if told == "all" else rng.integers(0, 3, 600)
    features = {"customer": np.eye(3, dtype=np.float32)[column], "product": rng.random((90, 1), np.float32)}
    features = {name: matrix for name, matrix in features.items() if told != "no features" or name == "product"}
    relations = Relation("product", "bought_by", "customer"), Relation("customer", "bought", "product")
    schema, order = Schema({"customer": 600, "product": 90}, relations, "customer", 3), rng.permutation(600)
    splits = dict(zip(("train", "validation", "test"), np.split(order, [200, 400])))
    return build(schema, dict(zip(relations, ((bought, customers), (customers, bought)))), features, kinds, splits)


def communities(follow: bool, told: str):
    """One relation, whose edges join nodes of one label or any; features as those of `shop`."""
    rng = np.random.default_rng(0)
    labels, order = np.arange(600) % 3, rng.permutation(600)
    sources, targets = rng.integers(0, 600, (2, 3000))
    targets = (targets - (labels[targets] - labels[sources])) % 600 if follow else targets
    column = labels if told == "all" else rng.integers(0, 3, 600)
    features = {} if told == "no features" else {"node": np.eye(3, dtype=np.float32)[column]}
    splits = dict(zip(("train", "validation", "test"), np.split(order, [100, 300])))
    relation = Relation("node", "to", "node")
    return build(
        Schema({"node": 600}, (relation,), "node", 3), {relation: (sources, targets)}, features, labels, splits
    )
