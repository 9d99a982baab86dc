"""The whole graph as one batch: all of it, where every node is the row of its id, or what a loss depends on."""

from collections.abc import Iterable, Mapping

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph, check_csc
from hetjax.graph.schema import Relation, Schema
from hetjax.sampling.blocks import MOST_EDGES, NO_NODE, Adjacency, Block
from hetjax.sampling.drawing import Asked, Edges, drawn_of_piece
from hetjax.sampling.sampler import ALL, Sampler, group, grouped


def whole_graph(graph: HetGraph, layers: int, reads_own: bool = True) -> tuple[Block, ...]:
    """One block per layer, each with the relations that the layer needs for its part in the target's embedding.

    Args:
      reads_own: whether layers read their targets' own embeddings.

    Raises:
      InputError: a pointer or id that is out of range (a store on disk is not trusted), or more edges than int32 counts.
    """
    schema = graph.schema
    needed = schema.layer_types(layers, reads_own)
    folded = frozenset().union(*needed[1:])
    adjacency = {r: whole_relation(graph, r) for r in schema.relations if r.target in folded}
    return tuple(
        Block(
            {relation.key: edges for relation, edges in adjacency.items() if relation.target in types},
            {t: None if reads_own else np.full(schema.nodes[t], NO_NODE) for t in sorted(types)},
            dict.fromkeys(sorted(types)),
            dict.fromkeys(schema.nodes),
        )
        for types in needed[1:]
    )


def needed_graph(sampler: Sampler, seeds: np.ndarray, layers: int) -> tuple[Block, ...]:
    """Of the whole graph what the embeddings of some target nodes depend on, a block per layer.

    The loss of these nodes and its gradients are those of the whole graph, as the gradient of what is left out is zero. Rows are in
    the order of their nodes' ids. The first layer's sources are all nodes.

    Args:
      sampler: of the graph.
      seeds: distinct ids of the target type; the last layer's targets are these, in the order of the ids.

    Raises:
      InputError: as `whole_graph`.
    """
    graph, reads_own = sampler.graph, sampler.reads_own
    schema = graph.schema
    types = schema.layer_types(layers, reads_own)
    everyone = {t: np.arange(count, dtype=np.int32) for t, count in schema.nodes.items()}
    targets = {schema.target: np.sort(np.asarray(seeds, np.int32))}
    shared: dict[Relation, Adjacency] = {}  # all edges, between rows of all nodes, once for all layers
    blocks: list[Block] = []
    for depth in reversed(range(layers)):
        drawn = {r: _into(sampler, r, targets[r.target]) for r in schema.relations if r.target in targets}
        sources = _read(schema, types[depth], drawn, targets if reads_own else {}) if depth else everyone
        rows = {t: _rows(ids, schema.nodes[t]) for t, ids in sources.items()}
        adjacency = {}
        for relation, edges in drawn.items():
            ends = (relation.target, targets), (relation.source, sources)
            made = shared if all(len(ids[t]) == schema.nodes[t] for t, ids in ends) else {}
            if relation not in made:
                found = edges._replace(indices=rows[relation.source][edges.indices])
                made[relation] = _turned(found, len(sources[relation.source]))
            adjacency[relation.key] = made[relation]
        own = {t: None if len(ids) == len(sources[t]) else rows[t][ids] for t, ids in targets.items() if reads_own}
        nowhere = {t: np.full(len(ids), NO_NODE) for t, ids in targets.items() if not reads_own}
        named = {t: None if len(ids) == schema.nodes[t] else ids for t, ids in targets.items()}
        blocks.insert(0, Block(adjacency, {**own, **nowhere}, named, {} if depth else dict.fromkeys(schema.nodes)))
        targets = sources
    return tuple(blocks)


def _into(sampler: Sampler, relation: Relation, targets: np.ndarray) -> Edges:
    """A relation's edges into some targets."""
    check_relation(sampler.graph, relation)
    return sampler.everyone([relation], targets)[0]


def _read(
    schema: Schema, types: Iterable[str], drawn: Mapping[Relation, Edges], own: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Of each type the ids of the sources of some edges, and of nodes whose own embeddings are read, in order."""
    found = {t: np.zeros(schema.nodes[t], bool) for t in types}
    for relation, edges in drawn.items():
        found[relation.source][edges.indices] = True
    for t, ids in own.items():
        found[t][ids] = True
    return {t: np.flatnonzero(read).astype(np.int32) for t, read in found.items()}


def _rows(ids: np.ndarray, nodes: int) -> np.ndarray:
    """The row of every node, if some are the rows; of the others anything."""
    rows = np.zeros(nodes, np.int32)
    rows[ids] = np.arange(len(ids))
    return rows


def _turned(edges: Edges, sources: int) -> Adjacency:
    """Edges grouped both ways."""
    if edges.whole:
        return grouped([edges], [sources])[0]
    return group(edges.indptr, edges.indices, sources, edges.weights)


def check_relation(graph: HetGraph, relation: Relation) -> None:
    """Raise an InputError as `whole_graph` does."""
    csc = graph.relations[relation]
    if csc.edges > MOST_EDGES:
        raise InputError(
            f"relation {relation} has {csc.edges} edges, over {MOST_EDGES}: train it with sampling.mode minibatch"
        )
    check_csc(csc, relation, graph.schema)


def whole_relation(graph: HetGraph, relation: Relation) -> Adjacency:
    """All edges of a relation, grouped both ways.

    Raises:
      InputError: as `whole_graph`.
    """
    check_relation(graph, relation)
    csc = graph.relations[relation]
    sources = graph.schema.nodes[relation.source]
    if csc.piece:
        everyone = np.arange(graph.schema.nodes[relation.target], dtype=np.int32)
        edges = drawn_of_piece(csc, Asked(relation, everyone, np.uint64(0)), sources, ALL)
        return grouped([edges], [sources])[0]
    return group(csc.indptr.astype(np.int32), csc.indices.astype(np.int32), sources, csc.weights)
