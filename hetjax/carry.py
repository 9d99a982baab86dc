"""What was learned of nodes, carried to another graph: by the users' ids where both graphs have them, else by the nodes' numbers."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph

NewNodes = Literal["refuse", "mean"]


def places(trained: HetGraph, graph: HetGraph, node_type: str, file: str) -> np.ndarray:
    """Where each node of a type was in the graph that was trained on, int64 `[nodes]`; -1: it was not there.

    Raises:
      InputError: a graph has no ids, and the numbers of nodes differ.
    """
    before, now = (one.names.nodes.get(node_type) for one in (trained, graph))
    if before is not None and now is not None:
        return before.find(now.values)
    found, expected = graph.schema.nodes[node_type], trained.schema.nodes[node_type]
    if found != expected:
        raise InputError(f"{file}: type {node_type!r} has {found} nodes != {expected}, whose features were learned")
    return np.arange(found)


def carried(
    learned: Mapping[str, np.ndarray], trained: HetGraph, graph: HetGraph, new_nodes: NewNodes, file: str
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Learned features `[nodes, width]` of each type for another graph's nodes; and how many nodes are new, by type.

    A new node gets the mean of its type, if `new_nodes` is `mean`; if it is `refuse` it is an error.

    Args:
      file: the graph to name in an error.
    """
    rows, new = {}, {}
    for node_type, table in learned.items():
        where = places(trained, graph, node_type, file)
        unknown = np.flatnonzero(where < 0)
        if len(unknown) and new_nodes == "refuse":
            raise InputError(
                f"{file}: type {node_type!r}: {graph.names.node(node_type, unknown[0])} is not of the graph that was trained on, "
                "and its features were learned; --new_nodes mean takes the mean of its type"
            )
        known = where >= 0
        rows[node_type] = np.zeros((len(where), table.shape[1]), table.dtype)
        rows[node_type][known] = table[where[known]]
        if len(unknown):
            rows[node_type][unknown] = table.mean(axis=0) if len(table) else 0
            new[node_type] = len(unknown)
    return rows, new


def check_one_hot(types: set[str], trained: HetGraph, graph: HetGraph, file: str) -> None:
    """Raise an InputError where a type whose nodes have a weight each (`model.one_hot`) has other nodes, or another order."""
    for node_type in sorted(types):
        where = places(trained, graph, node_type, file)
        if len(where) != trained.schema.nodes[node_type] or not np.array_equal(where, np.arange(len(where))):
            raise InputError(
                f"{file}: type {node_type!r} has other nodes, or another order, and model.one_hot has a weight for each"
            )
