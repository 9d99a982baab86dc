"""Dependencies of every layer of a full batch: what it reads from other partitions of an edge-cut, or computes twice instead; counted edge by edge.

Seeds are the training nodes; every layer aggregates all neighbours. A partition gets what it does not own in one of two ways
(NeutronStar, SIGMOD 2022, sections 2.2 and 3):

- **communicated** (DepComm, Algorithm 3): a partition computes its own nodes' embeddings alone, those that any partition
  needs, and reads the others' rows of the layer below. These are its dependencies `D_i^l`.
- **cached** (DepCache, Algorithm 2): a partition computes all that its own seeds need, down to the features. What of it
  others own is redundant (equation 1 counts the same for one node).

NeutronStar trains on all nodes, so that there `V_i^L` is `V_i`. Here it is the training nodes of `V_i`, and below it a node
is computed only if it is needed; the types and relations of a layer are those of `Schema.layer_types`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.partition.edge_cut import EdgeCut
from hetjax.system.compiled import compiled

Rows = Mapping[str, np.ndarray]
Edges = Mapping[Relation, np.ndarray]


class Layer(NamedTuple):
    """Counts of one layer; each an int64 `[P]`, an entry per partition, by node type or by relation.

    Attributes:
      layer: its number `k`; `L` is the last.
      nodes: own nodes whose embedding after this layer any partition needs; each is computed by its owner.
      edges: into these, which the owner aggregates.
      needs: distinct rows of the layer below (of layer 1: features) that it reads for them.
      remote: of these, others' rows.
      cached_nodes: nodes computed in this layer if dependencies are cached.
      redundant_nodes: of these, others' nodes.
      cached_edges: edges aggregated in this layer if dependencies are cached.
      redundant_edges: of these, edges into others' nodes.
      cached_needs: rows of the layer below that are then read: computed there, or, for layer 1, features that it holds.
      cached_remote: of these, others' rows.
    """

    layer: int
    nodes: Rows
    edges: Edges
    needs: Rows
    remote: Rows
    cached_nodes: Rows
    redundant_nodes: Rows
    cached_edges: Edges
    redundant_edges: Edges
    cached_needs: Rows
    cached_remote: Rows


class _Walked(NamedTuple):
    """Counts of a layer in one of the two ways: all, and those that belong to others."""

    nodes: tuple[Rows, Rows]
    edges: tuple[Edges, Edges]
    needs: tuple[Rows, Rows]


def dependencies(graph: HetGraph, cut: EdgeCut) -> list[Layer]:
    """Count both ways, of a model of `cut.hops` layers; the last layer comes first.

    Memory is 8 bytes a node for each of the two layers at hand; time is `4 hops` passes over the edges at most.
    """
    communicated, cached = (list(_walk(graph, cut, way)) for way in (False, True))
    return [
        Layer(
            cut.hops - number,
            communicate.nodes[0],
            communicate.edges[0],
            *communicate.needs,
            *cache.nodes,
            *cache.edges,
            *cache.needs,
        )
        for number, (communicate, cache) in enumerate(zip(communicated, cached))
    ]


def _walk(graph: HetGraph, cut: EdgeCut, cached: bool) -> Iterator[_Walked]:
    """Walk from the last layer to the first. A mask's bits are the partitions that compute a node, then those that read its row."""
    seeds = graph.nodes_of(graph.splits["train"])
    types = graph.schema.layer_types(seeds, cut.hops, cut.reads_own)
    masks = {t: np.zeros(graph.schema.nodes[t], np.uint64) for t in seeds}
    for t, ids in seeds.items():
        masks[t][ids] = np.left_shift(np.uint64(1), cut.nodes[t][ids].astype(np.uint64))
    for layer in tqdm(range(cut.hops, 0, -1), "layers", leave=False, disable=None):
        relations = [r for r in graph.schema.relations if r.target in types[layer]]
        below = {n: np.zeros(count, np.uint64) for n, count in graph.schema.nodes.items() if n in types[layer - 1]}
        for relation in relations:
            csc = graph.relations[relation]
            _spread(csc.indptr, csc.indices, masks[relation.target], below[relation.source])
        if cut.reads_own:
            for name, mask in masks.items():
                below[name] |= mask
        edges = {
            r: _edges(graph.relations[r].indptr, masks[r.target], cut.nodes[r.target], cut.parts) for r in relations
        }
        yield _Walked(_rows(masks, cut), _both(edges), _rows(below, cut))
        masks = below
        if not cached:
            for name, mask in masks.items():
                _to_owner(mask, cut.nodes[name])


def _rows(masks: Mapping[str, np.ndarray], cut: EdgeCut) -> tuple[Rows, Rows]:
    return _both({name: _nodes(mask, cut.nodes[name], cut.parts) for name, mask in masks.items()})


def _both(counts: Mapping) -> tuple[dict, dict]:
    return {name: count[0] for name, count in counts.items()}, {name: count[1] for name, count in counts.items()}


@compiled
def _spread(indptr, indices, mask, below):
    """Mark that whoever computes a node reads the rows of its in-neighbours."""
    for v in range(len(indptr) - 1):
        readers = mask[v]
        if readers != 0:
            for edge in range(indptr[v], indptr[v + 1]):
                below[indices[edge]] |= readers


@compiled
def _to_owner(mask, owner):
    """Return masks in which the owner, and no other, computes what anyone reads."""
    for v in range(len(mask)):
        if mask[v] != 0:
            mask[v] = np.uint64(1) << np.uint64(owner[v])


@compiled
def _nodes(mask, owner, parts):
    """Count nodes with a partition's bit, and those of them that another owns: int64 `[2, parts]`."""
    found = np.zeros((2, parts), np.int64)
    for v in range(len(mask)):
        if mask[v] != 0:
            for part in range(parts):
                if mask[v] >> np.uint64(part) & np.uint64(1):
                    found[0, part] += 1
                    found[1, part] += part != owner[v]
    return found


@compiled
def _edges(indptr, mask, owner, parts):
    """Count edges into nodes with a partition's bit, and into those of them that another owns: int64 `[2, parts]`."""
    found = np.zeros((2, parts), np.int64)
    for v in range(len(mask)):
        if mask[v] != 0:
            degree = indptr[v + 1] - indptr[v]
            for part in range(parts):
                if mask[v] >> np.uint64(part) & np.uint64(1):
                    found[0, part] += degree
                    found[1, part] += degree * (part != owner[v])
    return found


def as_json(layers: list[Layer]) -> list[dict]:
    """Return plain values: per layer and count a list `[P]` by node type or relation."""
    return [{name: _plain(value) for name, value in layer._asdict().items()} for layer in layers]


def _plain(value: int | Rows | Edges) -> int | dict[str, list[int]]:
    return value if isinstance(value, int) else {str(key): count.tolist() for key, count in value.items()}


def total(counts: Mapping[str, list[int]]) -> int:
    """Return the sum over types or relations, and partitions."""
    return sum(map(sum, counts.values()))


def lines(layers: list[dict]) -> list[list[str]]:
    """Return a table of `as_json`'s counts, all partitions together: a head, and a line per layer."""
    columns = ("needs", "remote", "redundant_nodes", "redundant_edges")
    rows = [[str(layer["layer"]), *(f"{total(layer[name]):,}" for name in columns)] for layer in layers]
    return [["layer", "rows needed", "from others", "or, if cached: redundant nodes", "redundant edges"], *rows]
