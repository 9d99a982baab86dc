"""Products of dense adjacency matrices along metapaths."""

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.metapaths import Metapath


def dense(graph: HetGraph, relation: Relation) -> np.ndarray:
    """The mean over neighbours as a matrix."""
    csc = graph.relations[relation]
    matrix = np.zeros((len(csc.indptr) - 1, graph.schema.nodes[relation.source]))
    weights = np.ones(csc.edges) if csc.weights is None else csc.weights
    targets = np.repeat(np.arange(len(matrix)), np.diff(csc.indptr))
    np.add.at(matrix, (targets, csc.indices), weights)
    total = matrix.sum(axis=1, keepdims=True)
    return matrix / np.where(total == 0, 1, total)


def product(graph: HetGraph, path: Metapath) -> np.ndarray:
    found = np.eye(graph.schema.nodes[path.target])
    for relation in path.relations:
        found = found @ dense(graph, relation)
    return found
