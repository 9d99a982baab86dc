"""Transfer of learned features of nodes to another graph: by the users' ids where both graphs have them, else by the nodes' numbers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import numpy as np

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError

NewNodes = Literal["neighbours", "mean", "refuse"]
Make = Callable[[str, tuple[int, int]], np.ndarray]  # a matrix for a node type, in memory or mapped
ROWS = 2**16  # copied at a time


def places(trained: HetGraph, graph: HetGraph, node_type: str, file: str) -> np.ndarray:
    """Return the place of each node of a type in the graph that was trained on, int64 `[nodes]`; -1: it was not there.

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
    learned: Mapping[str, np.ndarray],
    trained: HetGraph,
    graph: HetGraph,
    new_nodes: NewNodes | Literal["fresh"],
    file: str,
    made: Make | Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return learned features `[nodes, width]` of each type for another graph's nodes, and how many nodes are new, by type.

    A new node gets the mean of its neighbours, as `of_neighbours` says, or of its type where that gives nothing; the mean of its
    type; or is an error; or keeps what is there, if it is to be `fresh`.

    Args:
      file: the graph to name in an error.
      made: makes what they are written into; or has it.
    """
    rows, new = {}, {}
    for node_type, table in learned.items():
        where = places(trained, graph, node_type, file)
        unknown = np.flatnonzero(where < 0)
        if len(unknown) and new_nodes == "refuse":
            raise InputError(
                f"{file}: type {node_type!r}: {graph.names.node(node_type, unknown[0])} is not of the graph that was trained on, "
                "and its features were learned; --new_nodes neighbours takes the mean of its neighbours"
            )
        shape = len(where), table.shape[1]
        rows[node_type] = found = made(node_type, shape) if callable(made) else np.array(made[node_type])
        for start in range(0, len(where), ROWS):
            known = start + np.flatnonzero(where[start : start + ROWS] >= 0)
            found[known] = table[where[known]]
        if len(unknown):
            new[node_type] = len(unknown)
            if new_nodes != "fresh":
                found[unknown] = table.mean(axis=0) if len(table) else 0
            if new_nodes == "neighbours" and len(table):
                nodes, means = of_neighbours(graph, node_type, unknown, where, table)
                found[nodes] = means
    return rows, new


def of_neighbours(
    graph: HetGraph, node_type: str, unknown: np.ndarray, where: np.ndarray, table: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the features that new nodes of a type get from their neighbours: the mean over these, over edges in both directions.

    A neighbour of the same type that is known gives its own row; one of another type, whose features are of another space,
    gives the mean of the known nodes of `node_type` that it is joined to. A neighbour that gives nothing does not count.

    Args:
      unknown: the new nodes, int64.
      where: of every node of the type its row in `table`, or -1.

    Returns:
      `(those of the new nodes that have such neighbours, their rows [nodes, width])`.
    """
    total, count = np.zeros((len(unknown), table.shape[1])), np.zeros(len(unknown), np.int64)
    place = np.full(len(where), -1)
    place[unknown] = np.arange(len(unknown))
    for other in graph.schema.nodes:
        new, near = _joined(graph, node_type, other, place >= 0)
        if other == node_type:
            given, known = where[near], where[near] >= 0
            new, values = new[known], table[given[known]]
        else:
            asked = np.zeros(graph.schema.nodes[other], bool)
            asked[near] = True
            between, far = _joined(graph, other, node_type, asked)
            known = where[far] >= 0
            sums, sizes = _sums(between[known], table, where[far[known]], len(asked))
            useful = sizes[near] > 0
            new, values = new[useful], sums[near[useful]] / sizes[near[useful], None]
        np.add.at(total, place[new], values)
        np.add.at(count, place[new], 1)
    found = np.flatnonzero(count)
    return unknown[found], (total[found] / count[found, None]).astype(table.dtype)


def _sums(groups: np.ndarray, table: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of rows of a table by group, and the number of rows in each."""
    sums, sizes = np.zeros((count, table.shape[1])), np.bincount(groups, minlength=count)
    for start in range(0, len(rows), ROWS):
        np.add.at(sums, groups[start : start + ROWS], table[rows[start : start + ROWS]])
    return sums, sizes


def _joined(graph: HetGraph, node_type: str, other: str, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a requested node of a type, bool `[nodes]`, and a node of another type that an edge joins; each once."""
    pairs = [pair for relation in graph.schema.relations for pair in _ends(graph, relation, node_type, other, asked)]
    keys = [nodes.astype(np.int64) * max(1, graph.schema.nodes[other]) + near for nodes, near in pairs]
    distinct = np.unique(np.concatenate([np.empty(0, np.int64), *keys]))
    nodes, near = np.divmod(distinct, max(1, graph.schema.nodes[other]))
    return nodes, near


def _ends(
    graph: HetGraph, relation: Relation, node_type: str, other: str, asked: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the pairs of one relation, for either end that may be the requested one."""
    csc = graph.relations[relation]
    if (relation.target, relation.source) == (node_type, other):
        nodes = np.flatnonzero(asked)
        degrees = csc.indptr[nodes + 1] - csc.indptr[nodes]
        yield np.repeat(nodes, degrees), csc.indices[_ranges(csc.indptr[nodes], degrees)].astype(np.int64)
    if (relation.source, relation.target) == (node_type, other):
        for start in range(0, csc.edges, ROWS):
            yield _into(csc, start, asked)


def _into(csc: CSC, start: int, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return those edges that start at a requested node: `(sources, targets)`."""
    sources = csc.indices[start : start + ROWS].astype(np.int64)
    edges = np.flatnonzero(asked[sources])
    return sources[edges], np.searchsorted(csc.indptr, start + edges, side="right") - 1


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers of ranges, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def check_one_hot(types: set[str], trained: HetGraph, graph: HetGraph, file: str) -> None:
    """Raise an InputError if a type whose nodes have a weight each (`rgcn.one_hot`) has other nodes, or another order."""
    for node_type in sorted(types):
        where = places(trained, graph, node_type, file)
        if len(where) != trained.schema.nodes[node_type] or not np.array_equal(where, np.arange(len(where))):
            raise InputError(
                f"{file}: type {node_type!r} has other nodes, or another order, and rgcn.one_hot has a weight for each"
            )
