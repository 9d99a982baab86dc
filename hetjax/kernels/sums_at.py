"""Sums over the edges into some targets alone. For `SparseRows`, whose edges go from columns to rows, these are the rows of a batch.

On a CPU a kernel finds these targets' edges where they lie. Elsewhere all targets are summed, and theirs are read.
"""

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels import native
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.native import BLOCK, Operation, arrays
from hetjax.kernels.products import PARTS, added
from hetjax.kernels.segment import Rows, by_source, by_target, sum_rows, weights_of, without_columns
from hetjax.kernels.tables import read
from hetjax.kernels.vectors import add_rows, add_scaled, clear
from hetjax.sampling.blocks import Adjacency
from hetjax.system.arrays import Array

SUM = "i1 i1 f2 i1 f2 > f2"
SUM_BACK = "i1 i1 f2 i1 f2 > f3"
PAYS = 4  # edges for every source, from which another thread may add up its own gradients of all sources: a judgement


@jax.custom_vjp
def sums_at(adjacency: Adjacency, targets: Array, x: jax.Array) -> jax.Array:
    """Return `out[i] = sum of w x[u] over the edges u -> targets[i]` of weight `w`: `segment.neighbour_sum` at some targets.

    No gradient flows to the weights.

    Args:
      adjacency: with weights.
      targets: int32 `[n]`, none negative; any may be there twice.
      x: `[sources, width]`.

    Returns:
      `[n, width]`, of the dtype of `x`; zeros where there is no such target.
    """
    return native.choose(_natively, _plainly, by_target(adjacency), weights_of(adjacency, x), jnp.asarray(targets), x)


def _forward(adjacency, targets, x):
    return sums_at(adjacency, targets, x), (adjacency, targets, without_columns(x))


def _backward(residuals, gradient):
    adjacency, targets, like = residuals
    turned = by_source(adjacency, len(like))
    given = by_target(adjacency), *turned, weights_of(adjacency, gradient), jnp.asarray(targets), gradient
    return None, None, native.choose(_back_natively, _back_plainly, *given)


sums_at.defvjp(_forward, _backward)


def _natively(rows, weights, targets, x):
    result = jax.ShapeDtypeStruct((len(targets), x.shape[1]), x.dtype)
    return sum_at(len(targets), *rows, weights[:, None], targets, x, results=[result])[0]


def _plainly(rows, weights, targets, x):
    return read(sum_rows(rows, x, edge_weights=weights), targets)


def _back_natively(rows, turned, edges, weights, targets, gradient):
    sources, every = turned.indptr.shape[0] - 1, max(1, rows.indptr.shape[0] - 1)
    parts = max(1, min(PARTS, len(edges) * len(targets) // every // (PAYS * max(1, sources))))
    result = jax.ShapeDtypeStruct((parts, sources, gradient.shape[1]), gradient.dtype)
    given = *rows, weights[:, None], targets, gradient
    return added(sum_at_back(parts * BLOCK, *given, results=[result])[0])


def _back_plainly(rows, turned, edges, weights, targets, gradient):
    every = jnp.zeros((rows.indptr.shape[0] - 1, gradient.shape[1]), gradient.dtype)
    return sum_rows(Rows(*turned), every.at[targets].add(gradient, mode="drop"), edge_weights=weights, edges=edges)


def _sum_at(first, last, frame):
    indptr, indices, weights, targets, x, result = arrays(frame, SUM)
    width, every = x.shape[1], len(indptr) - 1
    shape = 1, width, width, width, width
    for i in range(first, last):
        clear(result, i * width, width)
        t = targets[i]
        if 0 <= t < every:
            for e in range(indptr[t], indptr[t + 1], kernels.EDGES):
                some = indices, e, min(e + kernels.EDGES, indptr[t + 1])
                add_rows(result, i * width, weights, None, some, x, shape)


def _sum_at_back(first, last, frame):
    indptr, indices, weights, targets, gradient, result = arrays(frame, SUM_BACK)
    (parts, sources, width), every = result.shape, len(indptr) - 1
    for part in range(first // BLOCK, last // BLOCK):
        clear(result, part * sources * width, sources * width)
        for i in range(len(targets) * part // parts, len(targets) * (part + 1) // parts):
            t = targets[i]
            if 0 <= t < every:
                for e in range(indptr[t], indptr[t + 1]):
                    into = (part * sources + np.int64(indices[e])) * width
                    add_scaled(result, into, weights[e, 0], gradient, i * width, width)


sum_at, sum_at_back = Operation(_sum_at, kernels.ANY_ORDER), Operation(_sum_at_back, kernels.ANY_ORDER)
