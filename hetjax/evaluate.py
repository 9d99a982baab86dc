"""Exact evaluation: full neighbourhoods, layer by layer, so many edges at a time.

The device holds one chunk; host memory holds the embeddings of one layer, whatever the number of edges.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.models.hgnn import Stack
from hetjax.sampling.blocks import Plan, edges_of, pad_sample, rows_of
from hetjax.sampling.sampler import ALL, Sampler


class Evaluator:
    """Computes the logits of any target nodes from all of their neighbours.

    Layer by layer, the embeddings of every node of every type that the next layer needs are computed and kept in host
    memory, `[nodes, hidden]` float32 per type; the device holds one chunk of targets with its edges and sources.
    Every chunk of a type has the same shapes, so there is one program per layer and node type.

    Args:
      model: whose layers are applied.
      graph: whose edges are folded, all of them.
      edges: most edges of a chunk; a single node with more is a chunk of its own.
    """

    def __init__(self, model: Stack, graph: HetGraph, edges: int):
        self.model, self.graph, self.sampler = model, graph, Sampler(graph)
        self.needed = graph.schema.layer_types(len(model.layers))
        self.edges = edges
        self.embed = jax.jit(self._embed, static_argnames=("depth", "node_type"))

    def _embed(self, params, block, x, depth: int, node_type: str):
        h = self.model.apply(params, depth, block, x, method="embed")[node_type]
        last = depth == len(self.model.layers) - 1
        return self.model.apply(params, h, method="classify") if last else h

    def logits(self, params: Any, features: Mapping[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
        """Logits float32 `[len(ids), classes]` of the target nodes `ids`.

        Args:
          params: the model's weights.
          features: `[nodes, width]` per input type, static or learnable, in host memory or mapped into it.
          ids: distinct.
        """
        if not len(ids):
            return np.empty((0, self.model.classes), np.float32)
        x, target = features, self.graph.schema.target
        for depth, types in enumerate(self.needed[1:]):
            everyone = {t: np.arange(self.graph.schema.nodes[t], dtype=np.int32) for t in types}
            wanted = {target: ids} if depth == len(self.needed) - 2 else everyone
            x = {node_type: self._layer(params, x, depth, node_type, nodes) for node_type, nodes in wanted.items()}
        return x[target]

    def _layer(self, params, x, depth: int, node_type: str, nodes: np.ndarray) -> np.ndarray:
        plan, chunks = self._plan(node_type, nodes)
        size = max((len(chunk) for chunk in chunks), default=0)
        parts = []
        for chunk in chunks:
            sample = self.sampler.sample({node_type: chunk}, (ALL,), (), gradients=False)
            (block,), inputs = pad_sample(plan, node_type, sample, {node_type: size}, self.graph)
            rows = {source: _gather(x[source], ids, len(sample.inputs[source])) for source, ids in inputs.items()}
            h = self.embed(params, block, rows, depth=depth, node_type=node_type)
            parts.append(np.asarray(h)[: len(chunk)])
        width = self.model.layers[depth].features
        return np.concatenate(parts) if parts else np.empty((0, width), np.float32)

    def _plan(self, node_type: str, nodes: np.ndarray) -> tuple[Plan, list[np.ndarray]]:
        """Chunks of at most `edges` edges, and capacities that hold for every one."""
        schema = self.graph.schema
        degrees = {}
        for relation in schema.into(node_type):
            indptr = self.graph.relations[relation].indptr
            degrees[relation] = indptr[nodes + 1] - indptr[nodes]
        chunks = list(_chunks(sum(degrees.values(), np.zeros(len(nodes), np.int64)), self.edges))
        plan, sources = Plan(), {node_type: max((stop - start for start, stop in chunks), default=0)}
        for relation, degree in degrees.items():
            most = max((int(degree[start:stop].sum()) for start, stop in chunks), default=0)
            plan.fit(edges_of(node_type, 0, relation), most, most)
            sources[relation.source] = sources.get(relation.source, 0) + most
        for source, most in sources.items():
            plan.fit(rows_of(node_type, 0, source), min(most, schema.nodes[source]), schema.nodes[source])
        return plan, [nodes[start:stop] for start, stop in chunks]


def _chunks(degrees: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of nodes with at most `most` edges and nodes together, or one node with more."""
    ends = np.cumsum(degrees + 1)
    start = 0
    while start < len(degrees):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield start, stop
        start = stop


def _gather(matrix: np.ndarray, ids: np.ndarray, count: int) -> np.ndarray:
    """The first `count` rows `matrix[ids]`; the padded ones behind them are zeros."""
    rows = np.zeros((len(ids), matrix.shape[1]), matrix.dtype)
    np.take(matrix, ids[:count], axis=0, out=rows[:count])
    return rows
