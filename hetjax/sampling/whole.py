"""The whole graph as one batch: every node is a row of its own id, and every layer reads the same edges."""

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph, check_csc
from hetjax.sampling.blocks import MOST_EDGES, Block
from hetjax.sampling.sampler import group


def whole_graph(graph: HetGraph, layers: int) -> tuple[Block, ...]:
    """One block per layer, each with the relations that the layer needs for its part in the target's embedding.

    Raises:
      InputError: a pointer or id that is out of range (a store on disk is not trusted), or more edges than int32 counts.
    """
    schema, adjacency = graph.schema, {}
    needed = schema.layer_types(layers)
    for relation in schema.relations:
        csc = graph.relations[relation]
        if csc.edges > MOST_EDGES:
            raise InputError(
                f"relation {relation} has {csc.edges} edges, over {MOST_EDGES}: train it with sampling.mode minibatch"
            )
        if relation.target in needed[1]:
            check_csc(csc, relation, schema)
            adjacency[relation] = group(
                csc.indptr.astype(np.int32), csc.indices.astype(np.int32), schema.nodes[relation.source]
            )
    return tuple(
        Block(
            {relation.key: edges for relation, edges in adjacency.items() if relation.target in types},
            {node_type: None for node_type in sorted(types)},
        )
        for types in needed[1:]
    )
