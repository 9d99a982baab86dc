"""Attention over one edge at most: its weight is 1, whatever the logit is, as a softmax of one value is.

A row of a table names at most one row by a foreign key, so graphs of tables have many such relations. What an edge
brings is its source times a matrix. Nothing is computed for its logit alone, forward or backward (in R-GAT relations
into a type share one product with its targets), and the gradient of what logits alone read is zero, as it is of the
softmax.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import in_shape_alone
from hetjax.kernels import partials
from hetjax.kernels.attention import Attended, attend
from hetjax.kernels.folded_attention import attend_folded
from hetjax.kernels.linear import times
from hetjax.kernels.partials import is_softmax
from hetjax.kernels.segment import by_target, degree, multiply_first, neighbour_sum, sum_edges
from hetjax.models.layer import Layer
from hetjax.sampling.blocks import Adjacency, Block, Edges, OneEdge

AT_ONCE = 2**20  # targets whose edges are counted


def one_edge(layers: Sequence[Layer], graph: HetGraph) -> list[frozenset[str]]:
    """Return for every layer the keys of the relations of which a node has at most one in-edge in the graph, if a
    softmax is over that edge alone.

    The same holds in every sample of the graph, as no edge is sampled twice.
    """
    asked = [{r for r in layer.relations if _attends_apart(layer, r)} for layer in layers]
    found = {r for r in set().union(*asked) if _at_most_one(graph.relations[r])}
    return [frozenset(r.key for r in relations & found) for relations in asked]


def _attends_apart(layer: Layer, relation: Relation) -> bool:
    """Return whether a softmax of the layer is over a relation's edges into a node, and over nothing else."""
    monoid = layer.traits.monoid
    if not is_softmax(layer.traits.edge_monoid):
        return False
    if monoid in (partials.SUM, partials.MEAN, partials.MAX):  # of what each relation's softmax gives
        return True
    alone = [r for r in layer.relations if r.target == relation.target] == [relation]
    return monoid is partials.SOFTMAX and alone and relation.target not in layer.selves


def _at_most_one(edges: CSC) -> bool:
    """Return whether no node has two in-edges."""
    indptr = edges.indptr
    if in_shape_alone(edges) or indptr[-1] >= len(indptr):  # not known; more edges than nodes
        return False
    return all(np.diff(indptr[start : start + AT_ONCE + 1]).max() < 2 for start in range(0, len(indptr) - 1, AT_ONCE))


def with_one_edge(block: Block, keys: frozenset[str]) -> Block:
    """Return a block in which `OneEdge` stands for the edges of some relations, except for those that are aggregated together."""

    def named(key: str, edges: Edges) -> Edges:
        return OneEdge(*edges) if key in keys and type(edges) is Adjacency and edges.plain else edges

    return block._replace(adjacency={key: named(key, edges) for key, edges in block.adjacency.items()})


@attend.register
def _(
    edges: OneEdge,
    queries: jax.Array,
    offsets: jax.Array,
    keys: jax.Array,
    values: jax.Array | None = None,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    values = (keys if values is None else values).astype(offsets.dtype)
    sums = neighbour_sum(edges, jax.lax.collapse(values, 1)).reshape(-1, *values.shape[1:])
    return _attended(edges, jnp.broadcast_to(sums, (len(sums), offsets.shape[1], values.shape[2])), keep)


@attend_folded.register
def _(
    edges: OneEdge,
    queries: jax.Array,
    offsets: jax.Array,
    sources: jax.Array,
    key: jax.Array,
    value: jax.Array,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    sums = neighbour_sum(edges, sources.astype(offsets.dtype))
    return _attended(edges, times(sums, value.astype(offsets.dtype)), keep)


@multiply_first.register
def _(edges: OneEdge, sources: jax.Array, features: int, heads: int = 0, products: int = 1) -> bool:
    return multiply_first(Adjacency(*edges), sources, features)  # a plain sum, by the values' matrix alone


def _attended(edges: OneEdge, sums: jax.Array, keep: jax.Array | None) -> Attended:
    """Return the attention that results if every logit is 0.

    Args:
      sums: of the values, `[T, heads, width]`.
      keep: as of `attend`.
    """
    has = jnp.broadcast_to(degree(edges)[:, None] > 0, sums.shape[:2])
    largest, weights = jnp.where(has, 0, -jnp.inf).astype(sums.dtype), has.astype(sums.dtype)
    if keep is None:
        return Attended(largest, weights, weights, sums)
    kept = sum_edges(by_target(edges), keep.astype(sums.dtype))
    return Attended(largest, weights, kept, kept[..., None] * sums)
