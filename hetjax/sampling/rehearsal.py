"""Sampling once from a graph of two nodes: what numba compiles for that is kept, for graphs without weights that are not in pieces."""

import numpy as np

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation, Schema
from hetjax.sampling.sampler import ALL, Sampler


def rehearse() -> None:
    """Compile what a `Sampler` calls, which is the same for graphs of all sizes and dtypes: arrays are passed by their addresses."""
    relation, both = Relation("node", "to", "node"), np.arange(2, dtype=np.int32)
    edges = {relation: CSC(np.arange(3), np.array([1, 0], np.uint8))}
    graph = HetGraph(Schema({"node": 2}, (relation,), "node", 2), edges, {}, both, {"train": both})
    Sampler(graph, learnable=frozenset({"node"})).sample({"node": both}, [ALL], (0,))
