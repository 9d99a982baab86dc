"""The effects of an edge-cut on a graph, counted edge by edge in one pass over the relations."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.partition.cost import distinct
from hetjax.partition.edge_cut import EdgeCut
from hetjax.system.compiled import compiled


class Cut(NamedTuple):
    """Counts of an edge-cut; `P` partitions.

    Attributes:
      edges: int64 `[P, P]` per relation; `edges[p, q]` have their target in `p`, their source in `q`.
      halo: int64 `[P]` per type: nodes of other partitions that have an edge into this one.
      boundary: int64 `[P]` per type: own nodes with an edge from or to another partition.
      draws: float64 `[hops, P, P]` per relation: neighbours in `q` that a hop samples, expected, summed over the targets
        in `p`.
      nodes: int64 `[P]` per type: own nodes.
      train: int64 `[P]`: own training nodes.
    """

    edges: Mapping[Relation, np.ndarray]
    halo: Mapping[str, np.ndarray]
    boundary: Mapping[str, np.ndarray]
    draws: Mapping[Relation, np.ndarray]
    nodes: Mapping[str, np.ndarray]
    train: np.ndarray


def measure(graph: HetGraph, cut: EdgeCut) -> Cut:
    """Count; memory is 9 bytes a node beside the graph."""
    parts, types = cut.parts, graph.schema.nodes
    readers = {name: np.zeros(count, np.uint64) for name, count in types.items()}
    reading = {name: np.zeros(count, np.bool_) for name, count in types.items()}
    fanouts = np.array([cut.workload.fanout_at(hop) for hop in range(1, cut.hops + 1)])
    edges, samples = {}, {}
    for relation, csc in tqdm(graph.relations.items(), "cut edges", leave=False, disable=None):
        edges[relation] = np.zeros((parts, parts), np.int64)
        samples[relation] = np.zeros((cut.hops, parts, parts))
        source, _, target = relation
        ends = cut.nodes[source], cut.nodes[target]
        marks = readers[source], reading[target]
        _count(csc.indptr, csc.indices, *ends, fanouts, *marks, edges[relation], samples[relation])
    halo = {name: _readers(mask, parts) for name, mask in readers.items()}
    marked = {name: mark | (readers[name] != 0) for name, mark in reading.items()}
    boundary = {name: np.bincount(cut.nodes[name][mark], minlength=parts) for name, mark in marked.items()}
    owned = {name: np.bincount(array, minlength=parts) for name, array in cut.nodes.items()}
    seeds = graph.nodes_of(graph.splits["train"])
    train = sum((np.bincount(cut.nodes[t][ids], minlength=parts) for t, ids in seeds.items()), np.zeros(parts, int))
    return Cut(edges, halo, boundary, samples, owned, train)


@compiled
def _count(indptr, indices, source, target, fanouts, readers, reading, edges, samples):
    """Count a relation's edges and the edges that are sampled, and mark its cut edges: at the source who reads it, at the target that it reads."""
    for v in range(len(indptr) - 1):
        p, degree = target[v], indptr[v + 1] - indptr[v]
        for edge in range(indptr[v], indptr[v + 1]):
            u = indices[edge]
            q = source[u]
            edges[p, q] += 1
            for hop in range(len(fanouts)):
                samples[hop, p, q] += min(fanouts[hop] / degree, 1.0)
            if p != q:
                readers[u] |= np.uint64(1) << np.uint64(p)
                reading[v] = True


def _readers(mask: np.ndarray, parts: int) -> np.ndarray:
    """Count the nodes of other partitions that each partition reads."""
    bits = [np.uint64(1) << np.uint64(part) for part in range(parts)]
    return np.array([np.count_nonzero(mask & bit) for bit in bits], np.int64)


def remote_rows(cut: EdgeCut, counts: Cut, targets: Iterable[str]) -> dict[str, float]:
    """Return the features that a step is expected to fetch from other partitions: distinct rows per type.

    Every partition trains on its share of the batch, chosen from the training nodes that it has, samples all hops, and
    fetches what it does not own. An estimate as in `cost`, by partition: nodes that are reached are taken to be like
    all of their type and partition, and a sample to hit each of these alike. What it samples from where is counted from
    every edge and degree.
    """
    types, reads = cut.sizes.schema.nodes, dict.fromkeys(cut.sizes.schema.nodes, 0.0)
    for part in range(cut.parts):
        have = {name: np.zeros(cut.parts) for name in types}
        for name in targets:
            have[name][part] = min(cut.workload.batch_size / cut.parts, counts.nodes[name][part])
        for hop in range(cut.hops):
            sampled = {name: np.zeros(cut.parts) for name in types}
            for relation, samples in counts.draws.items():
                each = have[relation.target] / np.maximum(counts.nodes[relation.target], 1)
                sampled[relation.source] += each @ samples[hop]
            below = have if cut.reads_own else dict.fromkeys(types, 0.0)
            have = {name: distinct(counts.nodes[name], below[name], sampled[name]) for name in types}
        for name in types:
            reads[name] += float(have[name].sum() - have[name][part])
    return reads
