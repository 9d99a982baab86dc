"""A partition's subgraph: the nodes that it trains, their full neighbourhoods of k hops, and the edges among them (CATGNN, section 3.2).

As `stream.neighbours` has it, of a graph that is open: an edge is there if either end is trained there, or lies within k - 1
edges of a node that is. So a node that is trained has all of its neighbours; one at the rim has those of its edges that lead inwards.
Edges keep the weights of the whole graph, and nodes the loops that a model added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetjax.graph.checks import check_csc
from hetjax.graph.columns import SPLITS, UNLABELLED
from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.partition.divided import Divided, PartitionContent
from hetjax.partition.owned import Owned
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError

Masks = dict[str, np.ndarray]  # bool `[nodes]` per node type


class Subgraph(NamedTuple):
    """The subgraph that one partition has.

    Attributes:
      graph: its nodes numbered from 0 in the order of their ids, without labels.
      nodes: per type the ids of its nodes in the whole graph, int32, rising.
      own: per type the places, among these, of the nodes that it owns, int32, rising.
    """

    graph: HetGraph
    nodes: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]


def subgraphs(
    graph: HetGraph,
    owned: Owned,
    parts: Iterable[int],
    hops: int,
    divided: Divided | None = None,
    seeds: Sequence[Mapping[str, np.ndarray]] = (),
) -> dict[int, Subgraph]:
    """Return the subgraphs of some partitions.

    Args:
      owned: who trains which node.
      hops: at least 1; with as many as a model has layers, it computes of the nodes that a partition trains what it computes in
        the whole graph.
      divided: where partitions were given nodes and rows of features already; None: they are sought in the graph.
      seeds: per partition the ids per type of nodes whose neighbourhoods it needs as it needs those of the nodes that it owns.

    Raises:
      InputError: a pointer or id that is out of range, or partitions that are not those of `owned` and `hops`.
    """
    if divided and divided.hops != hops:
        raise InputError(
            f"{divided.path}: divided with hops {divided.hops} != {hops} of averaging.hops: divide anew with --hops {hops}"
        )
    for relation, csc in graph.relations.items():
        check_csc(csc, relation, graph.schema)
    return {
        part: _subgraph(
            graph, owned, part, hops, divided.content(part) if divided else None, seeds[part] if seeds else {}
        )
        for part in parts
    }


def _subgraph(
    graph: HetGraph,
    owned: Owned,
    part: int,
    hops: int,
    content: PartitionContent | None,
    seeds: Mapping[str, np.ndarray],
) -> Subgraph:
    trained = {t: of == part for t, of in owned.owner.items()}
    if content and not all(np.array_equal(np.flatnonzero(trained[t]), ids) for t, ids in content.trained.items()):
        raise InputError(f"partition {part} of averaging.folder trains other nodes than the run that is resumed")
    inner = {t: mask.copy() for t, mask in trained.items()}
    for t, ids in seeds.items():
        inner[t][ids] = True
    for _ in range(hops - 1):
        inner = _widened(graph, inner)
    if content:
        nodes = dict(content.nodes)
    else:
        nodes = {t: np.flatnonzero(mask).astype(np.int32) for t, mask in _widened(graph, inner).items()}
    for t, ids in seeds.items():
        if len(missing := np.setdiff1d(ids, nodes[t])):
            raise InputError(
                f"partition {part} has no {t!r} {missing[0]}, which an example of its own needs: averaging.folder holds only neighbourhoods of its own nodes"
            )
    mapped_features = content.features if content else {}
    relations = {}
    for r, csc in graph.relations.items():
        relations[r] = _taken(csc, inner[r.source], inner[r.target], nodes[r.source], nodes[r.target])
    subgraph = replace(
        graph,
        schema=replace(graph.schema, nodes={t: len(ids) for t, ids in nodes.items()}),
        relations=relations,
        features={
            t: mapped_features[t] if t in mapped_features else _rows(matrix, nodes[t])
            for t, matrix in graph.features.items()
        },
        labels=np.full(len(nodes[graph.schema.target]), UNLABELLED, np.int32),
        splits=dict.fromkeys(SPLITS, np.empty(0, np.int32)),
        names=Names(),
        columns={},
    )
    return Subgraph(subgraph, nodes, {t: np.flatnonzero(trained[t][ids]).astype(np.int32) for t, ids in nodes.items()})


def _rows(matrix: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return some rows; all of them without a copy."""
    return matrix if len(ids) == len(matrix) else matrix[ids]


def _widened(graph: HetGraph, inner: Masks) -> Masks:
    """Return nodes and all of their neighbours."""
    outer = {t: of.copy() for t, of in inner.items()}
    for r, csc in graph.relations.items():
        _widen(csc.indptr, csc.indices, inner[r.source], inner[r.target], outer[r.source], outer[r.target])
    return outer


def _taken(csc: CSC, sources: np.ndarray, targets: np.ndarray, from_ids: np.ndarray, to_ids: np.ndarray) -> CSC:
    """Return the edges of a relation with an end among the inner nodes, and the loops that a model added.

    Args:
      sources, targets: whether each node is an inner one.
      from_ids, to_ids: of the partition's nodes.
    """
    places = np.full(len(sources), -1, np.int32)
    places[from_ids] = np.arange(len(from_ids), dtype=np.int32)
    indptr = np.zeros(len(to_ids) + 1, np.int64)
    arguments = csc.indptr, csc.indices, sources, targets, to_ids, csc.loops, indptr
    chosen = np.empty(_mark_edges(*arguments, np.empty(0, np.int64)), np.int64)
    _mark_edges(*arguments, chosen)
    indices = places[csc.indices[chosen]].astype(index_dtype(len(from_ids)))
    return CSC(indptr, indices, None if csc.weights is None else csc.weights[chosen], csc.loops)


@compiled
def _widen(indptr, indices, sources, targets, out_sources, out_targets):
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if sources[u]:
                out_targets[v] = True
            if targets[v]:
                out_sources[u] = True


@compiled
def _mark_edges(indptr, indices, sources, targets, to_ids, loops, out_indptr, chosen):
    """Fill the pointers, and mark which edges are kept if there is room for them; return how many are kept."""
    count = 0
    for place in range(len(to_ids)):
        v = to_ids[place]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if sources[u] or targets[v] or (loops and e == indptr[v]):
                if len(chosen):
                    chosen[count] = e
                count += 1
        out_indptr[place + 1] = count
    return count
