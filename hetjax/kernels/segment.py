"""Sums over the edges into a node.

Edges are grouped by target (compressed rows), and by source too where a gradient flows back to the sources; so a gradient
is a sum of the same kind over the edges turned around. Edges beyond the last pointer are padding: nothing that they hold,
and nothing that is computed for them, reaches a target or a gradient.

A layer computes everything besides its aggregations row by row. So where devices divide the rows, only aggregations
need those of others: an adjacency of another class than `Adjacency` registers its own `neighbour_sum`, `neighbour_mean`
and `multiply_first` (and `attention.attend`, `folded_attention.attend_folded`, `additive.attend_additively`,
`dropout.edge_keep_mask`), and models call what they always call. So does one whose edges are known to need less
(`one_edge`).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hetjax.kernels import native, orders
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.orders import Work
from hetjax.kernels.sparse import SparseRows
from hetjax.kernels.tables import read
from hetjax.sampling.blocks import Adjacency, Edges, OneEdge
from hetjax.system.arrays import Array

# Numbers of a row that are summed at once by XLA's own operations. Its kernel for sorted edges on GPUs took a hundred times as long for 3,100 as
# for 1,024 (benchmarks/results/gpu.md); where between the two that begins is not known.
WIDEST = 2**10


class Rows(NamedTuple):
    """A grouping of the edges: `indptr` `[rows + 1]`, and `indices` `[edges]`, the other end of every edge."""

    indptr: Array
    indices: Array


def degree(adjacency: Adjacency) -> jax.Array:
    """Return the in-edges per target, int32 `[targets]`; parallel edges count each. Where these are some of a
    relation's edges, all edges of the relation count."""
    return jnp.diff(adjacency.indptr) if adjacency.whole is None else jnp.asarray(adjacency.whole.totals)


@functools.singledispatch
def multiply_first(adjacency: Edges, sources: jax.Array, features: int, heads: int = 0, products: int = 1) -> bool:
    """Return whether multiplying every source row by matrices costs less than aggregating first and multiplying every target row.

    The same mathematics either way; the shapes decide, when the program is traced (`orders`). `SparseRows` support nothing but products.

    Args:
      sources: `[S, width]`.
      features, heads, products: as of `orders.Work`.
    """
    return isinstance(sources, SparseRows) or orders.multiplies_first(
        _work(adjacency, sources, features, heads, products)
    )


def _work(adjacency: Adjacency, sources: jax.Array, features: int, heads: int, products: int) -> Work:
    (rows, width), edges = sources.shape, adjacency.indices.shape[0]
    grouped = adjacency.reverse is not None
    return Work(rows, adjacency.targets, edges, width, features, heads, products, orders.trained(), grouped)


def share_products(
    adjacency: Mapping[str, Edges], sources: jax.Array, features: int, heads: int, products: int
) -> frozenset[str]:
    """Return which of some relations aggregate products that they share; the arguments are those of `multiply_first`.

    One alone does if it multiplies first and a source has more elements than there are sources, or targets: its own matrices then meet
    fewer rows in the products than in the matrix that all share. None, where devices divide the nodes. Not those of `OneEdge`, which
    read one product where others read all that are shared.
    """
    adjacency = {key: edges for key, edges in adjacency.items() if type(edges) is not OneEdge}
    if any(type(edges) is not Adjacency for edges in adjacency.values()):
        return frozenset()
    works = {key: _work(edges, sources, features, heads, products) for key, edges in adjacency.items()}
    wide = [key for key, work in works.items() if work.width > min(work.rows, work.targets)]
    alone = frozenset(key for key in wide if multiply_first(adjacency[key], sources, features, heads, products))
    if isinstance(sources, SparseRows):
        return frozenset(works) if len(works) > 1 else alone
    return alone | orders.shared(works)


@functools.singledispatch
def neighbour_sum(adjacency: Edges, x: jax.Array) -> jax.Array:
    """Return `out[v] = sum of w x[u] over the edges u -> v` of weight `w`, or 1: zeros for a target without edges.

    No gradient flows to the weights.

    Args:
      adjacency: `targets` rows of edges into `sources` rows of `x`.
      x: `[sources, width]`.

    Returns:
      `[targets, width]`, of the dtype of `x`; float32 where that is int or bool.
    """
    return _neighbour_sum(adjacency, x)


@jax.custom_vjp
def _neighbour_sum(adjacency, x):
    x = _summed(adjacency, x)
    return sum_rows(by_target(adjacency), x, edge_weights=weights_of(adjacency, x))


def _neighbour_sum_forward(adjacency, x):
    return _neighbour_sum(adjacency, x), (adjacency, without_columns(x))


def _neighbour_sum_backward(residuals, gradient):
    adjacency, like = residuals
    return None, _to_sources(adjacency, like, gradient)


_neighbour_sum.defvjp(_neighbour_sum_forward, _neighbour_sum_backward)


@functools.singledispatch
def neighbour_mean(adjacency: Edges, x: jax.Array) -> jax.Array:
    """Return the mean of the rows `x[u]` over the edges u -> v: `[targets, width]`, zeros for a target without edges.

    For some of a relation's edges it is their part of the mean over all. Edges that have weights are weighed: `sum of w
    x[u] / sum of w`, zeros where the weights add up to nothing. No gradient flows to them. Targets' shares, one over
    their degrees, multiply what is summed here, and weigh the cotangents of the
    sources: so the sums of all relations read that as it is, where each would have XLA divide it anew.
    """
    return _neighbour_mean(adjacency, x)


@jax.custom_vjp
def _neighbour_mean(adjacency, x):
    x = _summed(adjacency, x)
    weights = weights_of(adjacency, x)
    return sum_rows(by_target(adjacency), x, factors=_shares(adjacency, x), edge_weights=weights)


def _neighbour_mean_backward(residuals, gradient):
    adjacency, like = residuals
    return None, _to_sources(adjacency, like, gradient, _shares(adjacency, gradient))


_neighbour_mean.defvjp(
    lambda adjacency, x: (_neighbour_mean(adjacency, x), (adjacency, without_columns(x))),
    _neighbour_mean_backward,
)


def _shares(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """Return one over the degree of every target that has edges, or over the sum of their weights, `[targets]` of the dtype of `x`."""
    weights = weights_of(adjacency, x)
    if weights is None:
        return 1 / jnp.maximum(degree(adjacency), 1).astype(x.dtype)
    if adjacency.whole is None:
        of_edges = Rows(adjacency.indptr, jnp.arange(len(weights), dtype=jnp.int32))
        total = sum_rows(of_edges, weights[:, None])[:, 0]
    else:
        total = jnp.asarray(adjacency.whole.totals, x.dtype)
    return jnp.where(total == 0, 0, 1 / jnp.where(total == 0, 1, total))


def weights_of(adjacency: Adjacency, x: jax.Array) -> jax.Array | None:
    """Return the weights of the edges, of the dtype of `x`."""
    return None if adjacency.weights is None else jnp.asarray(adjacency.weights, x.dtype)


def _summed(adjacency: Adjacency, x: jax.Array) -> jax.Array:
    """Return the summands as floats, whatever `x` is: sums of int8 would wrap around, and bool has none."""
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _to_sources(
    adjacency: Adjacency, like: jax.Array, gradient: jax.Array, shares: jax.Array | None = None
) -> jax.Array:
    """Return the gradient of the sources, as many as `like` has rows, from that of the targets."""
    turned, edges = by_source(adjacency, like.shape[0])
    weights = weights_of(adjacency, gradient)
    return sum_rows(turned, gradient, weights=shares, edge_weights=weights, edges=None if weights is None else edges)


def by_target(adjacency: Adjacency) -> Rows:
    """Return the edges grouped by target."""
    return Rows(adjacency.indptr, adjacency.indices)


def by_source(adjacency: Adjacency, sources: int) -> tuple[Rows, Array]:
    """Group the edges by source, and return the position of each among those grouped by target too.

    Rows past the edges' own sources have none: a type without nodes has rows of padding.
    """
    if adjacency.reverse is not None:
        indptr, indices, edges = adjacency.reverse
        if (missing := sources + 1 - indptr.shape[0]) > 0:
            indptr = jnp.pad(jnp.asarray(indptr), (0, missing), mode="edge")
        return Rows(indptr, indices), edges
    # Not drawn, as nothing below asks for this gradient; only an order that multiplies first reads it, and XLA drops it unused.
    indptr, indices, edges = native.choose(*_groupings(sources), by_target(adjacency))
    return Rows(indptr, indices), edges


@functools.cache
def _groupings(sources: int) -> list[Callable]:
    """Return two ways to group by so many sources. Each is one function, so that programs recognise it."""
    return [functools.partial(grouping, sources) for grouping in (_group_natively, _group_plainly)]


def _group_natively(sources: int, rows: Rows) -> Sequence[jax.Array]:
    edges = rows.indices.shape
    results = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((sources + 1,), edges, edges)]
    return kernels.group(1, jnp.asarray(rows.indptr), jnp.asarray(rows.indices), results=results)


def _group_plainly(sources: int, rows: Rows) -> Sequence[jax.Array]:
    columns = jnp.where(real(rows), rows.indices, sources)
    order = jnp.argsort(columns, stable=True).astype(jnp.int32)
    starts = jnp.searchsorted(columns[order], jnp.arange(sources + 1)).astype(jnp.int32)
    return starts, row_of(rows)[order], order


def row_of(rows: Rows) -> jax.Array:
    """Return the row of every edge; for a padded edge one past the end, which sums drop and reads fill with zeros."""
    starts = jnp.zeros(len(rows.indices) + 1, jnp.int32).at[rows.indptr[1:]].add(1)
    return jnp.cumsum(starts[:-1])


def real(rows: Rows) -> jax.Array:
    """Return which edges are not padding, `[edges]`."""
    return jnp.arange(len(rows.indices)) < rows.indptr[-1]


def without_columns(x: jax.Array) -> jax.Array:
    """Return the number of rows and the dtype of `x`, as an array without columns."""
    return jnp.zeros((len(x), 0), x.dtype)


def sum_rows(
    rows: Rows,
    x: jax.Array,
    *,
    factors: jax.Array | None = None,
    weights: jax.Array | None = None,
    edge_weights: jax.Array | None = None,
    edges: "Array | None" = None,
) -> jax.Array:
    """Return `out[i] = factors[i] (sum over the edges e of row i of edge_weights[edges[e]] weights[indices[e]] x[indices[e]])`.

    Args:
      x: `[sources, width]`.
      factors: `[rows]`; 1 where there are none.
      weights: `[sources]`; 1 where there are none.
      edge_weights: `[edges]`; 1 where there are none.
      edges: int32 `[edges]`, where the weight of every edge stands; None: in its own place.

    Returns:
      `[rows, width]`, of the dtype of `x`.
    """
    if not rows.indices.shape[0] or not x.shape[0]:
        return jnp.zeros((rows.indptr.shape[0] - 1, x.shape[1]), x.dtype)
    natively = _sum_natively if jnp.issubdtype(x.dtype, jnp.floating) else _sum_plainly
    return native.choose(natively, _sum_plainly, rows, x, factors, weights, edge_weights, edges)


def sum_weighted(rows: Rows, weights: jax.Array | None, x: jax.Array) -> jax.Array:
    """Return `out[i] = sum over the edges e of row i of weights[e] x[indices[e]]`, by operations of XLA alone.

    Args:
      weights: `[edges]`, 1 where there are none; with heads `[edges, heads]`, which are always given.
      x: `[sources, width]`; with heads `[sources, heads or 1, width]`.

    Returns:
      `[rows, width]`, or `[rows, heads, width]`.
    """
    if not rows.indices.shape[0] or not x.shape[0]:
        heads = () if weights is None else weights.shape[1:]
        return jnp.zeros((rows.indptr.shape[0] - 1, *heads, x.shape[-1]), x.dtype)
    return native.by_platform(_sum_by_rows, _sum_by_segments, rows, weights, x)


def sum_over_heads(rows: Rows, weights: jax.Array, x: jax.Array) -> jax.Array:
    """Return `sum_weighted` with heads, summed over the heads: `[rows, width]`."""
    if not rows.indices.shape[0] or not x.shape[0]:
        return jnp.zeros((rows.indptr.shape[0] - 1, x.shape[-1]), x.dtype)
    return native.by_platform(_heads_by_rows, _heads_by_segments, rows, weights, x)


def _heads_by_rows(rows, weights, x):
    return sum(_sum_by_rows(rows, weights[:, h], x[:, h % x.shape[1]]) for h in range(weights.shape[1]))


def _heads_by_segments(rows, weights, x):
    return _by_columns(rows, lambda x: jnp.sum(weights[..., None] * read(x, rows.indices), axis=1), x)


def sum_edges(rows: Rows, values: jax.Array) -> jax.Array:
    """Return the sum over the edges of every row of each edge's values, `[rows, width]` of `[edges, width]`, by operations of XLA alone."""
    if not len(values):
        return jnp.zeros((rows.indptr.shape[0] - 1, values.shape[1]), values.dtype)
    return native.by_platform(_edges_by_rows, _edges_by_segments, rows, values)


def _edges_by_rows(rows, values):
    return _sum_by_rows(Rows(rows.indptr, jnp.arange(len(values), dtype=jnp.int32)), None, values)


def _edges_by_segments(rows, values):
    return _by_columns(rows, lambda values: values, values)


def _by_columns(rows, terms, x, heads=1):
    """Return the sums of the edges' terms, which `terms` makes of some columns of `x`, `heads` times as many: of no
    more than `WIDEST` at once."""
    row, most = row_of(rows), max(1, WIDEST // heads)

    def fold(x):
        return jax.ops.segment_sum(terms(x), row, rows.indptr.shape[0] - 1, indices_are_sorted=True)

    if x.shape[-1] <= most:
        return fold(x)
    return jnp.concatenate([fold(x[..., start : start + most]) for start in range(0, x.shape[-1], most)], axis=-1)


def _sum_natively(rows, x, factors, weights, edge_weights, edges):
    scales = (jnp.zeros(0, x.dtype) if scale is None else scale for scale in (factors, weights, edge_weights))
    places = jnp.zeros(0, jnp.int32) if edges is None else edges
    result = jax.ShapeDtypeStruct((len(rows.indptr) - 1, x.shape[1]), x.dtype)
    return kernels.sums(len(rows.indptr) - 1, *rows, places, *scales, x, results=[result])[0]


def _sum_plainly(rows, x, factors, weights, edge_weights, edges):
    if weights is not None:
        weights = read(weights, rows.indices)
    if edge_weights is not None:
        own = edge_weights if edges is None else read(edge_weights, edges)
        weights = own if weights is None else weights * own
    sums = sum_weighted(rows, weights, x)
    return sums if factors is None else factors[:, None] * sums


def _sum_by_rows(rows, weights, x):
    """Return a sparse matrix times `x`, by a kernel that reads each row's edges in turn."""
    from jax.experimental import sparse  # takes a while, and not all programs need it

    if x.ndim > 2:  # a matrix of every head
        heads = range(weights.shape[1])
        return jnp.stack([_sum_by_rows(rows, weights[:, h], x[:, h % x.shape[1]]) for h in heads], axis=1)
    weights = jnp.ones(rows.indices.shape, x.dtype) if weights is None else weights
    return sparse.BCSR((weights, rows.indices, rows.indptr), shape=(rows.indptr.shape[0] - 1, x.shape[0])) @ x


def _sum_by_segments(rows, weights, x):
    def terms(x):
        found = read(x, rows.indices)
        return found if weights is None else weights[..., None] * found

    heads = weights.shape[1] if weights is not None and weights.ndim > 1 else 1
    return _by_columns(rows, terms, x, heads)
