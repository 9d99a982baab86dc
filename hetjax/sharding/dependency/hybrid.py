"""The choice of the dependencies that a partition computes itself and of those that it fetches: NeutronStar's Algorithm 4.

A dependency of layer `l` is a node of another partition whose embedding of depth `l - 1` a partition's own nodes read. Computing
it here costs the subtree below it (equation 1), without the nodes that are here already; fetching it costs its width (equation 2). From
the first layer up, the cheapest are taken first as long as they cost less than they save and memory lasts.

Deviations. The features of the first layer's dependencies cost nothing, as in the paper, where they can be copied: static ones on
the whole graph. Learnable rows change at every step, and a mini-batch reads other rows every time: these are fetched, and a
subtree costs equation 2 for each row that it reads and no other subtree here did. A layer may do work for every row that it reads, such as a
product with a matrix: a subtree costs that too, for each row that nobody here read. On heterogeneous graphs a subtree follows every relation,
with the widths and the measured costs of each layer. In mini-batches a node has at most as many edges as are sampled.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.homogeneous import offsets
from hetjax.partition.owned import Owned
from hetjax.sharding.dependency.prices import EDGE_BYTES, Prices
from hetjax.sharding.dependency.shares import Share
from hetjax.system.compiled import compiled


class Neighbours(NamedTuple):
    """The edges of all relations together; nodes of all types are numbered consecutively in the schema's order.

    Attributes:
      indptr, indices: int64 `[nodes + 1]`, int32 `[edges]`: the neighbours that a node reads.
      type: uint16 `[nodes]`.
      owner: uint8 `[nodes]`.
      drawn: int32 `[layers, nodes]`: the number of them that a node reads for its embedding of that depth; depth 0 is undefined.
      work: float32 `[layers, nodes]`: the cost of computing that embedding.
    """

    indptr: np.ndarray
    indices: np.ndarray
    type: np.ndarray
    owner: np.ndarray
    drawn: np.ndarray
    work: np.ndarray


def neighbours(graph: HetGraph, owned: Owned, fanouts: Sequence[int], prices: Prices) -> Neighbours:
    """Return the neighbours of a graph; memory is 4 bytes an edge, and 11 and 8 per layer a node.

    Args:
      fanouts: the fanouts of a step, the first layer's last.
    """
    counts = list(graph.schema.nodes.values())
    start = np.cumsum([0, *counts])
    offset = dict(zip(graph.schema.nodes, start))
    indptr, drawn = np.zeros(start[-1] + 1, np.int64), np.zeros((len(fanouts), start[-1]), np.int32)
    work = np.repeat(prices.vertex.astype(np.float32), counts, axis=1)
    for number, (relation, csc) in enumerate(graph.relations.items()):
        degree, first = np.diff(csc.indptr), offset[relation.target]
        rows = slice(first, first + len(degree))
        indptr[1:][rows] += degree
        for depth, fanout in enumerate(reversed(fanouts[1:]), start=1):
            edges = (degree if fanout < 0 else np.minimum(degree, fanout)).astype(np.int32)
            drawn[depth, rows] += edges
            work[depth, rows] += np.float32(prices.edge[depth, number]) * edges
    np.cumsum(indptr, out=indptr)
    indices, cursor = np.empty(indptr[-1], np.int32), indptr[:-1].copy()
    for relation, csc in graph.relations.items():
        _put(csc.indptr, csc.indices, offset[relation.source], offset[relation.target], cursor, indices)
    owner = np.concatenate([owned.owner[t] for t in graph.schema.nodes])
    types = np.repeat(np.arange(len(counts), dtype=np.uint16), counts)
    return Neighbours(indptr, indices, types, owner, drawn, work)


def choose(
    graph: HetGraph,
    owned: Owned,
    layers: Sequence[tuple[Share, ...]],
    prices: Prices,
    fanouts: Sequence[int],
    own: bool,
) -> list[dict[str, np.ndarray]]:
    """Return the copies per depth and type, uint64 `[nodes]`: bit `p` is set where partition `p` computes the row of another's node.

    Args:
      layers: the shares of every partition when all is fetched, which name the dependencies.
      fanouts: as of `neighbours`.
      own: whether a node's own embedding of the layer below is read too.
    """
    types, about = list(graph.schema.nodes), neighbours(graph, owned, fanouts, prices)
    start = offsets(graph.schema.nodes)
    copies = np.zeros((len(fanouts), len(about.type)), np.uint64)
    for part, shares in enumerate(layers):
        here, fetched = np.zeros(copies.shape, np.bool_), np.zeros(len(about.type), np.bool_)
        left = prices.limit
        for depth, share in enumerate(shares):
            wanted = [ids[share.origin[t] != part] + start[t] for t, ids in share.needed.items()]
            nodes = np.sort(np.concatenate([np.empty(0, np.int64), *wanted]))
            if depth:
                left = _choose(nodes, depth, part, about, own, prices, left, here, fetched)
            else:
                left = _copy(nodes, about.type, prices, left, here[0], fetched)
            if left < 0:
                break
        copies[here] |= np.uint64(1) << np.uint64(part)
    ends = list(start.values())[1:]
    return [dict(zip(types, np.split(row, ends))) for row in copies]


@compiled
def _put(indptr, indices, source, target, cursor, out):
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            out[cursor[v + target]] = indices[edge] + source
            cursor[v + target] += 1


@compiled
def _copy(nodes, kind, prices, left, here, fetched):
    """Copy features of the first layer's dependencies where they can be copied and memory lasts; return the bytes that are left."""
    count = 0
    for node in nodes:
        t = kind[node]
        full = prices.share >= 0 and count >= prices.share * len(nodes)
        if prices.copied[t] and not full and prices.bytes[0, t] <= left:
            here[node] = True
            left -= prices.bytes[0, t]
            count += 1
        else:
            fetched[node] = True
    return left


@compiled
def _choose(nodes, depth, part, graph, own, prices, left, here, fetched):
    """Run lines 4 to 15 of Algorithm 4 for the dependencies of one layer; return the bytes that are left, -1 if they ran out."""
    stamp = np.zeros((depth + 1, len(graph.owner)), np.int32)
    forced = prices.share >= 0
    trial, taken = 0, 0
    queue = [(0.0, np.int64(0))][:0]
    for node in nodes:
        trial += 1
        saved = np.inf if forced else prices.sent[depth, graph.type[node]]
        cost, _, _ = _subtree(node, depth, part, graph, own, prices, here, fetched, stamp, trial, saved)
        heapq.heappush(queue, (cost, node))
    while len(queue) and not (forced and taken >= prices.share * len(nodes)):
        _, node = heapq.heappop(queue)
        trial += 1
        saved = np.inf if forced else prices.sent[depth, graph.type[node]]
        cost, size, below = _subtree(node, depth, part, graph, own, prices, here, fetched, stamp, trial, saved)
        if cost < saved:
            if size > left:
                return -1.0
            left -= size
            taken += 1
            for k, other in below:
                if k or prices.copied[graph.type[other]]:
                    here[k, other] = True
                else:
                    fetched[other] = True
    return left


@compiled
def _subtree(node, depth, part, graph, own, prices, here, fetched, stamp, trial, enough):
    """Return the seconds (equation 1) and bytes that computing a node's embedding of some depth adds, and the `(depth, node)` of all.

    Nodes that are here already are left out, and so are a partition's own nodes. The search ends when it costs `enough`.
    """
    cost, size = 0.0, 0.0
    added = [(depth, node)]
    stamp[depth, node] = trial
    done = 0
    while done < len(added) and cost < enough:
        k, v = added[done]
        done += 1
        if not k:
            continue
        edges = graph.drawn[k, v]
        cost += graph.work[k, v]
        size += prices.bytes[k, graph.type[v]] + edges * EDGE_BYTES
        first = graph.indptr[v]
        for edge in range(first - own, first + edges):
            u = np.int64(graph.indices[edge]) if edge >= first else v
            if graph.owner[u] == part or here[k - 1, u] or stamp[k - 1, u] == trial:
                continue
            stamp[k - 1, u] = trial
            if k > 1:
                cost += prices.source[k - 1, graph.type[u]]
                added.append((k - 1, u))
            elif prices.copied[graph.type[u]]:
                cost += prices.source[0, graph.type[u]]
                size += prices.bytes[0, graph.type[u]]
                added.append((0, u))
            elif not fetched[u]:
                cost += prices.source[0, graph.type[u]] + prices.sent[0, graph.type[u]]
                added.append((0, u))
    return cost, size, added


class Copies:
    """The copies that `choose` found, as `shares.Keep`."""

    def __init__(self, copies: Sequence[Mapping[str, np.ndarray]]):
        self.copies = copies

    def __call__(self, depth: int, node_type: str, ids: np.ndarray, part: int) -> np.ndarray:
        return (self.copies[depth][node_type][ids] >> np.uint64(part)) & np.uint64(1) != 0
