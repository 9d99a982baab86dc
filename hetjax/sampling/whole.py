"""The whole graph as one batch: every node is a row of its own id, and every layer reads the same edges."""

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph, check_csc
from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import MOST_EDGES, NO_NODE, Adjacency, Block
from hetjax.sampling.drawing import Asked, drawn_of_piece
from hetjax.sampling.sampler import ALL, group, grouped


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


def whole_relation(graph: HetGraph, relation: Relation) -> Adjacency:
    """All edges of a relation, grouped both ways.

    Raises:
      InputError: as `whole_graph`.
    """
    csc = graph.relations[relation]
    if csc.edges > MOST_EDGES:
        raise InputError(
            f"relation {relation} has {csc.edges} edges, over {MOST_EDGES}: train it with sampling.mode minibatch"
        )
    check_csc(csc, relation, graph.schema)
    sources = graph.schema.nodes[relation.source]
    if csc.piece:
        everyone = np.arange(graph.schema.nodes[relation.target], dtype=np.int32)
        edges = drawn_of_piece(csc, Asked(relation, everyone, np.uint64(0)), sources, ALL)
        return grouped([edges], [sources])[0]
    return group(csc.indptr.astype(np.int32), csc.indices.astype(np.int32), sources, csc.weights)
