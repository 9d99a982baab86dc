"""The whole graph as one batch: all of its nodes, each the row of its id, or those that a loss depends on."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from hetjax.graph.checks import check_csc
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import MOST_EDGES, NO_NODE, Adjacency, Block
from hetjax.sampling.drawing import Edges, Request, sampled_of_piece
from hetjax.sampling.sampler import ALL, Sampler, group
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError

MOST = 0.9  # of a type's nodes: where so many are read, a layer's sources are all of them


def whole_graph(graph: HetGraph, roots: Collection[str], layers: int, reads_own: bool = True) -> tuple[Block, ...]:
    """Return one block per layer, each with the relations that the layer needs for its part in the roots' embeddings.

    Args:
      roots: the types whose last embeddings are needed.
      reads_own: whether layers read their targets' own embeddings.

    Raises:
      InputError: a pointer or id that is out of range (a store on disk is not trusted), or more edges than int32 counts.
    """
    schema = graph.schema
    needed = schema.layer_types(roots, layers, reads_own)
    target_types = frozenset().union(*needed[1:])
    adjacency = {r: whole_relation(graph, r) for r in schema.relations if r.target in target_types}
    return tuple(
        Block(
            {relation.key: edges for relation, edges in adjacency.items() if relation.target in types},
            {t: None if reads_own else np.full(schema.nodes[t], NO_NODE) for t in sorted(types)},
            dict.fromkeys(sorted(types)),
            dict.fromkeys(schema.nodes),
        )
        for types in needed[1:]
    )


def needed_graph(
    sampler: Sampler, seeds: Mapping[str, np.ndarray], layers: int, trained: bool = True
) -> tuple[Block, ...]:
    """Return the part of the whole graph that the embeddings of some nodes depend on, a block per layer.

    The loss of these nodes and its gradients are those of the whole graph, as the gradient of what is left out is zero. Rows are in
    the order of ids. The first layer's sources are all nodes, whose features are read in place. Where a layer reads at least `MOST` of a
    type's nodes its sources are all of them: more than is needed, but layers share edges, and rows are read where they lie.

    Args:
      sampler: of the graph, by which edges are found.
      seeds: ids per root type. The last layer's targets are these, in the order of the ids.
      layers: how many.
      trained: whether gradients flow backward along the edges.

    Raises:
      InputError: as `whole_graph`.
    """
    schema, reads_own = sampler.graph.schema, sampler.reads_own
    types = schema.layer_types(seeds.keys(), layers, reads_own)
    relations = [r for r in schema.relations if r.target in frozenset().union(*types[1:])]
    for relation in relations:
        check_relation(sampler.graph, relation)
    everyone = {t: np.arange(count, dtype=np.int32) for t, count in schema.nodes.items()}
    rising = {t: np.unique(np.asarray(ids, np.int32)) for t, ids in seeds.items()}
    targets = {t: everyone[t] if len(ids) == schema.nodes[t] else ids for t, ids in rising.items()}
    shared: dict[Relation, Adjacency] = {}  # all edges of a relation, once for all layers
    blocks: list[Block] = []
    for depth in reversed(range(layers)):
        edges = {r: sampler.everyone([r], targets[r.target])[0] for r in relations if r.target in targets}
        ends = ((relation.source, found.indices) for relation, found in edges.items())
        sources = nodes_read(everyone, types[depth], ends, targets if reads_own else {}) if depth else everyone
        adjacency = {}
        for relation in list(edges):
            found, into, read = edges.pop(relation), targets[relation.target], sources[relation.source]
            if read is not everyone[relation.source]:
                found = found._replace(indices=_renumbered(found.indices, read, schema.nodes[relation.source]))
            all_edges = into is everyone[relation.target] and read is everyone[relation.source]
            shared_edges = shared.get(relation) if all_edges else None
            adjacency[relation.key] = shared_edges or adjacency_of(found, len(read) if trained else None)
            if all_edges:
                shared[relation] = adjacency[relation.key]
        self_rows: dict[str, np.ndarray | None] = {t: np.full(len(ids), NO_NODE) for t, ids in targets.items()}
        for t, ids in targets.items() if reads_own else ():
            self_rows[t] = None if len(ids) == len(sources[t]) else _renumbered(ids, sources[t], schema.nodes[t])
        named = {t: None if ids is everyone[t] else ids for t, ids in targets.items()} if sampler.named else {}
        blocks.insert(0, Block(adjacency, self_rows, named))
        targets = sources
    named_sources = dict.fromkeys(schema.nodes) if sampler.named else {}
    return (blocks[0]._replace(sources=named_sources), *blocks[1:])


def nodes_read(
    everyone: Mapping[str, np.ndarray],
    types: Iterable[str],
    ends: Iterable[tuple[str, np.ndarray]],
    targets: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the rising ids per type that a layer reads.

    They are `everyone[t]` itself, by which callers know it, if these are at least `MOST`.

    Args:
      everyone: all ids of every type.
      types: whose embeddings the layer may read.
      ends: sources of its edges, of one type each.
      targets: the targets whose own embeddings it reads.
    """
    read = {t: np.zeros(len(everyone[t]), bool) for t in types}
    for t, sources in ends:
        _mark(read[t], sources)
    for t, ids in targets.items():
        read[t][ids] = True
    some = {t: np.flatnonzero(marked).astype(np.int32) for t, marked in read.items()}
    return {t: ids if len(ids) < MOST * len(everyone[t]) else everyone[t] for t, ids in some.items()}


def _renumbered(ids: np.ndarray, among: np.ndarray, nodes: int) -> np.ndarray:
    """Return the place of every id among others, of a type of so many nodes."""
    rows = np.zeros(nodes, np.int32)
    rows[among] = np.arange(len(among))
    return _taken(rows, ids)


@compiled
def _mark(marked, ids):
    for i in ids:
        marked[i] = True


@compiled
def _taken(rows, ids):
    """Return `rows[ids]`, for which numpy copies ids as int64."""
    found = np.empty(len(ids), np.int32)
    for i in range(len(ids)):
        found[i] = rows[ids[i]]
    return found


def adjacency_of(edges: Edges, sources: int | None) -> Adjacency:
    """Return an adjacency of edges grouped by target; grouped by source too if the number of sources is given."""
    return group(edges.indptr, edges.indices, sources, edges.weights)._replace(whole=edges.whole)


def count_edges(blocks: Iterable[Block]) -> int:
    """Count the edges that the relations of all layers have together, of blocks in host memory."""
    return sum(len(edges.indices) for block in blocks for edges in block.adjacency.values())


def check_relation(graph: HetGraph, relation: Relation) -> None:
    """Raise an InputError for pointers, ids or weights that are wrong, or more edges than int32 counts."""
    csc = graph.relations[relation]
    if csc.edges > MOST_EDGES:
        raise InputError(
            f"relation {relation} has {csc.edges} edges, over {MOST_EDGES}: train it with sampling.mode minibatch"
        )
    check_csc(csc, relation, graph.schema)


def whole_relation(graph: HetGraph, relation: Relation) -> Adjacency:
    """Return all edges of a relation, grouped both ways.

    Raises:
      InputError: as `whole_graph`.
    """
    check_relation(graph, relation)
    csc = graph.relations[relation]
    sources = graph.schema.nodes[relation.source]
    if csc.piece:
        everyone = np.arange(graph.schema.nodes[relation.target], dtype=np.int32)
        edges = sampled_of_piece(csc, Request(relation, everyone, np.uint64(0)), sources, ALL)
        return adjacency_of(edges, sources)
    return group(csc.indptr.astype(np.int32), csc.indices.astype(np.int32), sources, csc.weights)
