"""The costs of a dependency: the terms of NeutronStar's equations 1 to 3 for every depth, type and relation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sharding.dependency.costs import Costs
from hetjax.sharding.dependency.groups import grouped
from hetjax.sharding.dependency.work import Work
from hetjax.sharding.strategy import Setup

NODE_BYTES, EDGE_BYTES = 8, 12  # a number of a copied embedding with its gradient; an edge, grouped both ways
# How often a number is written in memory, there and back, that comes from another partition, and one of a row that is here already, as
# `exchange.fetch` puts them together; counted in the program of two partitions, the all-to-alls apart, which are measured. Static features, to
# which nothing goes back, are taken as half: counted are 5 and 2.
COMES, LIES = 9, 5


class Prices(NamedTuple):
    """The costs that Algorithm 4 compares, per depth `k`, where depth `0` is the features; in seconds, or in bytes.

    Attributes:
      vertex: `[layers, types]`, the cost of computing a node's embedding of depth `k`: `T_v d(k)`.
      edge: `[layers, relations]`, the cost of aggregating an edge into it: `T_e d(k)`.
      source: `[layers, types]`, the cost of reading a row of depth `k` that was not read before, for the layer above.
      sent: `[layers, types]`, the cost of fetching a row of depth `k` and sending its gradient back: `T_c d(k)`, copies in memory included.
      lies: `[layers, types]`, the cost of a row of depth `k` that lies here, if rows of its group are fetched: copies in memory.
      group: `[layers, types]`, the first of the types whose rows are fetched together with those of a type; itself if it is fetched alone.
      copied: `[types]`, whether the features of each type are copied.
      bytes: `[layers, types]`, the bytes of keeping a row of depth `k`.
      limit: the bytes that may be kept.
      share: the share of every layer's dependencies, the cheapest, that are computed here, whatever they cost; negative: as costs say.
      start: the fixed cost of fetching rows before a layer.
    """

    vertex: np.ndarray
    edge: np.ndarray
    source: np.ndarray
    sent: np.ndarray
    lies: np.ndarray
    group: np.ndarray
    copied: np.ndarray
    bytes: np.ndarray
    limit: float
    share: float
    start: float = 0.0


def priced(setup: Setup, costs: Costs | None, memory: int = -1, share: float = -1) -> Prices:
    """Return the costs that Algorithm 4 compares.

    Args:
      costs: the measured costs; None: they are not known, and the result means nothing.
      memory: -1: no bound.
      share: as in `Prices`.
    """
    graph, layers, types = setup.graph, setup.trainer.model.layers, list(setup.graph.schema.nodes)
    widths = [dict(setup.trainer.widths), *(layer.widths for layer in layers[1:])]
    sent = np.array([[float(width.get(t, 0)) for t in types] for width in widths])
    static = {t: matrix.nbytes / max(1, len(matrix)) for t, matrix in graph.features.items()}
    size = NODE_BYTES * sent
    size[0] = [static.get(t, 0) for t in types]
    if not setup.trainer.model.transforms:  # static features come in their own dtype, and nothing goes back
        sent[0] = [size[0, n] / NODE_BYTES if t in static else sent[0, n] for n, t in enumerate(types)]
    vertex, source, edge = np.zeros(size.shape), np.zeros(size.shape), np.zeros((len(layers), len(graph.relations)))
    if costs and len(layers) > 1:  # of one layer nothing below is computed twice
        vertex[1:] = [[of.get(t, 0) for t in types] for of in costs.vertex]
        source[:-1] = [[of.get(t, 0) for t in types] for of in costs.source]
        edge[1:] = [[of.get(relation.key, 0) for relation in graph.relations] for of in costs.edge]
    lies = LIES * (costs.copy if costs else 0.0) * sent
    if costs:
        sent *= costs.sent + COMES * costs.copy
    copied = np.array([setup.regime.whole and t in static for t in types])
    limit = np.inf if memory < 0 else float(memory)
    group = np.tile(np.arange(len(types)), (len(layers), 1))
    for depth, groups in enumerate(grouped(setup, True)):
        for own in groups.values():
            group[depth, [types.index(t) for t in own.types]] = types.index(own.types[0])
    return Prices(vertex, edge, source, sent, lies, group, copied, size, limit, share, costs.start if costs else 0.0)


def seconds(
    layers: Sequence[Work], prices: Prices, types: Sequence[str], relations: Sequence[Relation]
) -> dict[str, np.ndarray]:
    """Return what every partition does in a step, `[parts]`, except for the last layer: its `own` nodes, and, because the graph is divided,
    to `fetch` rows (equation 2, a collective's own time, and the copies of rows that lie here), and to `compute` others' nodes (equation 1) and the work of layers for
    each row of others that they read.

    Args:
      types, relations: the types and relations of the graph, in its order.
    """
    fetch: np.ndarray = np.zeros(1)
    compute: np.ndarray = np.zeros(1)
    own: np.ndarray = np.zeros(1)
    for depth, layer in enumerate(layers):
        fetch = fetch + prices.start * any(rows.any() for rows in layer.fetched.values())
        moved = {prices.group[depth, types.index(t)] for t, rows in layer.fetched.items() if rows.any()}
        for t, here in layer.here.items():
            if prices.group[depth, types.index(t)] in moved:
                fetch = fetch + prices.lies[depth, types.index(t)] * here
        for t, rows in layer.fetched.items():
            column = types.index(t)
            fetch = fetch + prices.sent[depth, column] * rows
            compute = compute + prices.source[depth, column] * (rows + layer.kept.get(t, 0))
        if depth + 1 < len(layers):
            for t, rows in layer.copied.items():
                price = prices.vertex[depth + 1, types.index(t)]
                compute, own = compute + price * rows, own + price * (layer.computed[t] - rows)
            for r, edges in layer.copied_edges.items():
                price = prices.edge[depth + 1, relations.index(r)]
                compute, own = compute + price * edges, own + price * (layer.edges[r] - edges)
    return {"own": own, "fetch": fetch, "compute": compute}


def slowest(graph: HetGraph, layers: Sequence[Work], prices: Prices, own: bool = False) -> float:
    """Return the `seconds` of the slowest partition: those of its own nodes, if these are asked for, and those that the division adds."""
    every = seconds(layers, prices, list(graph.schema.nodes), list(graph.relations))
    return float((own * every["own"] + every["fetch"] + every["compute"]).max())


def kept_bytes(layers: Sequence[Work], prices: Prices, types: Sequence[str]) -> np.ndarray:
    """Return the bytes that every partition stores of others' nodes, `[parts]`: features, embeddings with their gradients, and edges."""
    kept: np.ndarray = np.zeros(1)
    for depth, layer in enumerate(layers):
        features = (prices.bytes[0, types.index(t)] * rows for t, rows in layer.kept.items())
        kept = kept + sum(features, np.zeros(1)) + EDGE_BYTES * sum(layer.copied_edges.values(), np.zeros(1))
        if depth + 1 < len(layers):
            kept = kept + sum(
                (prices.bytes[depth + 1, types.index(t)] * rows for t, rows in layer.copied.items()), np.zeros(1)
            )
    return kept
