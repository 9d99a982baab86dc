"""Attention over at most one edge: a softmax of one number is 1, whatever the logit is.

So it is in graphs that are made of tables: a row has one row that a foreign key names, and so has a node of one label, kind or maker. What
such an edge brings is its source times a matrix. Nothing is computed for its logit, neither there nor back, of sources or of targets, and the
gradient of what logits alone read is zero, as it is of the softmax.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.models.attention import Attended, attend
from hetjax.models.folded_attention import attend_folded
from hetjax.models.layer import Layer
from hetjax.models.linear import times
from hetjax.models.segment import degree, multiply_first, neighbour_sum
from hetjax.sampling.blocks import Adjacency, Block, OneSource

SOME = 2**20  # targets whose edges are counted at a time


def relations_of_one_source(graph: HetGraph) -> frozenset[str]:
    """The keys of the relations of which no node has two in-edges, in the whole graph."""
    return frozenset(relation.key for relation, edges in graph.relations.items() if _of_one_source(edges))


def _of_one_source(edges: CSC) -> bool:
    indptr = edges.indptr
    if indptr[-1] >= len(indptr):  # more edges than targets
        return False
    return all(np.diff(indptr[start : start + SOME + 1]).max() < 2 for start in range(0, len(indptr) - 1, SOME))


def with_one_source(layer: Layer, block: Block, relations: frozenset[str]) -> Block:
    """A block in which `OneSource` stands for the edges of some relations, if they alone are what the layer's softmax is over.

    Args:
      relations: of one source, which need not be the layer's.
    """
    adjacency: Mapping[str, Adjacency] = block.adjacency
    found = {
        r.key: OneSource(*adjacency[r.key])
        for r in layer.relations
        if r.key in relations and type(adjacency.get(r.key)) is Adjacency and attends_over_it(layer, r)
    }
    return block._replace(adjacency={**adjacency, **found}) if found else block


def attends_over_it(layer: Layer, relation: Relation) -> bool:
    """Whether a softmax of the layer is over this relation's edges and no others."""
    into = [other for other in layer.relations if other.target == relation.target]
    return layer.attends and (not layer.joint or len(into) == 1)


@attend.register
def _(
    edges: OneSource,
    queries: jax.Array,
    offsets: jax.Array,
    keys: jax.Array,
    values: jax.Array | None = None,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    if keep is not None:
        return attend(Adjacency(*edges), queries, offsets, keys, values, slope, keep)
    values = (keys if values is None else values).astype(offsets.dtype)
    sums = neighbour_sum(edges, jax.lax.collapse(values, 1)).reshape(-1, *values.shape[1:])
    return _attended(edges, jnp.broadcast_to(sums, (len(sums), offsets.shape[1], values.shape[2])))


@attend_folded.register
def _(
    edges: OneSource,
    queries: jax.Array,
    offsets: jax.Array,
    sources: jax.Array,
    key: jax.Array,
    value: jax.Array,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    if keep is not None:
        return attend_folded(Adjacency(*edges), queries, offsets, sources, key, value, slope, keep)
    return _attended(edges, times(neighbour_sum(edges, sources.astype(offsets.dtype)), value.astype(offsets.dtype)))


def _attended(edges: OneSource, numerator: jax.Array) -> Attended:
    """As if every logit were 0."""
    has = jnp.broadcast_to(degree(edges)[:, None] > 0, numerator.shape[:2])
    weights = has.astype(numerator.dtype)
    return Attended(jnp.where(has, 0, -jnp.inf).astype(numerator.dtype), weights, weights, numerator)


@multiply_first.register
def _(edges: OneSource, sources: jax.Array, features: int, heads: int = 0, products: int = 1) -> bool:
    return multiply_first(Adjacency(*edges), sources, features)  # a plain sum, by the values' matrix
