"""Sums and attention on a CPU, edge by edge: the kernels of `segment.sum_rows` and `attention.attend`.

Rows are read where the edges point at, and asked for some edges before, where one operation after another would make a copy of a
row for every edge and head. A target's edges are neighbours, so its sums stay in the processor's cache. Heads of what an edge
reads stand side by side in a row, `[rows, heads, width]`: so one edge asks for one piece of memory.
"""

import numba
import numpy as np

from hetjax.kernels.native import BLOCK, Operation, arrays
from hetjax.kernels.vectors import add_rows, add_scaled, bend, clear, dots, exponentials, shift, total_weights, unbend
from hetjax.sampling.sampler import group_by_source
from hetjax.system.prefetch import prefetch

AHEAD = 12  # edges between that whose row is asked for and that whose row is read
TOGETHER = (
    16  # targets whose logits and weights stay in the processor's cache from one pass over their edges to the next
)

EDGES = 32  # whose rows stay in the processor's cache while some columns after others are added up

# Sums in any order, so that several numbers are added at a time; what is infinite or no number stays so.
ANY_ORDER = frozenset({"reassoc", "contract", "nsz"})
inline = numba.njit(inline="always")  # a part of each kernel that calls it, which LLVM need not write apart too


@inline
def here_and_ahead(indices: np.ndarray, e: int, end: int) -> tuple[np.int64, np.int64]:
    """Return the row that an edge points at, and that of the edge `AHEAD` later, or of the last, which `dots`
    prefetches; as int64, to be multiplied by widths."""
    return np.int64(indices[e]), np.int64(indices[min(e + AHEAD, end - 1)])


GROUP = "i1 i1 > i1 i1 i1"
SUM = "i1 i1 i1 f1 f1 f1 f2 > f2"
ATTEND = "i1 i1 f3 f2 f3 f3 f2 f0 > f2 f2 f2 f3 f2 f2 f2"
ATTEND_BACK = "i1 i1 f3 f3 f2 f0 f2 f2 f2 f2 f3 > f3 f2 f2"
TO_SOURCES = "i1 i1 i1 f2 f3 f2 f3 > f3"


def _attend(first, last, frame):
    """Compute, for some targets at a time, the logits, then their exponentials, then the sums: each reads memory in its own order.

    Without queries the keys are one value per head, and part of the logits.
    """
    indptr, indices, queries, offsets, keys, values, keep, slope, largest, denominator, kept, numerator, logits, weights, applied = arrays(frame, ATTEND)  # fmt: skip
    (targets, heads), size, width = offsets.shape, keys.shape[2], values.shape[2]
    own, own_value, end = keys.shape[1], values.shape[1], indptr[-1]
    ask, put = 0 if len(queries) == 1 else heads * size, heads * width
    asked = heads, size, size, 0 if own == 1 else size
    summed = heads, width, width, own_value * width, 0 if own_value == 1 else width
    for begin in range(first, last, TOGETHER):
        finish = min(begin + TOGETHER, last)
        for t in range(begin, finish):
            into = heads, t, indptr[t], indptr[t + 1]
            if queries.size or not size:
                for e in range(indptr[t], indptr[t + 1]):
                    source, soon = here_and_ahead(indices, e, end)
                    dots(logits, e * heads, queries, t * ask, keys, source * own * size, asked, soon * own * size)
                bend(logits, logits, None, offsets, slope[()], largest, into)
            else:
                bend(logits, keys, indices, offsets, slope[()], largest, into)
            shift(weights, logits, largest, into)
        exponentials(weights, indptr[begin] * heads, (indptr[finish] - indptr[begin]) * heads)
        for t in range(begin, finish):
            into = heads, t, indptr[t], indptr[t + 1]
            total_weights(denominator, weights, into)
            if len(keep):
                for e in range(indptr[t], indptr[t + 1]):
                    for h in range(heads):
                        applied[e, h] = weights[e, h] * keep[e, h]
            total_weights(kept, applied if len(keep) else weights, into)
            clear(numerator, t * put, put)
            weigh = applied if len(keep) else weights
            for e in range(indptr[t], indptr[t + 1], EDGES):
                stop = min(e + EDGES, indptr[t + 1])
                for ahead in range(e + AHEAD, min(stop + AHEAD, end)):
                    prefetch(values, indices[ahead])
                add_rows(numerator, t * put, weigh, None, (indices, e, stop), values, summed)
    if last == targets:
        logits[end:] = 0
        weights[end:] = 0
        applied[end:] = 0


def _attend_back(first, last, frame):
    """Compute the gradients of attention; `by_queries` has a row per target, or the sums over every `BLOCK` of them."""
    indptr, indices, keys, values, keep, slope, logits, weights, by_denominator, by_kept, by_numerator, by_queries, by_offsets, by_logits = arrays(frame, ATTEND_BACK)  # fmt: skip
    by_weights = by_offsets  # its memory, until a target's own sum is written there
    (targets, heads), size, width = by_offsets.shape, keys.shape[2], values.shape[2]
    own, own_value, end = keys.shape[1], values.shape[1], indptr[-1]
    span = 1 if by_queries.size == targets * heads * size else BLOCK
    ask, put = heads * size, heads * width
    brought = heads, width, width, 0 if own_value == 1 else width
    asked = heads, size, size, own * size, 0 if own == 1 else size
    for begin in range(first, last, TOGETHER):
        finish = min(begin + TOGETHER, last)
        for t in range(begin, finish):
            for e in range(indptr[t], indptr[t + 1]):
                source, soon = here_and_ahead(indices, e, end)
                place, following = source * own_value * width, soon * own_value * width
                dots(by_logits, e * heads, by_numerator, t * put, values, place, brought, following)
                if len(keep):
                    for h in range(heads):
                        by_logits[e, h] = (by_kept[t, h] + by_logits[e, h]) * keep[e, h]
            into = heads, t, indptr[t], indptr[t + 1]
            for h in range(heads):
                by_weights[t, h] = by_denominator[t, h] if len(keep) else by_denominator[t, h] + by_kept[t, h]
            unbend(by_logits, weights, logits, by_weights, slope[()], into)
            total_weights(by_offsets, by_logits, into)
        step = min(span, TOGETHER)  # targets that share a row, if any do, as `BLOCK` is a multiple of `TOGETHER`
        for t in range(begin, finish if by_queries.size else begin, step):
            if t % span == 0:
                clear(by_queries, t // span * ask, ask)
            until = indptr[min(t + step, finish)]
            for e in range(indptr[t], until, EDGES):
                stop = min(e + EDGES, until)
                for ahead in range(e + AHEAD, min(stop + AHEAD, end)):
                    prefetch(keys, indices[ahead])
                add_rows(by_queries, t // span * ask, by_logits, None, (indices, e, stop), keys, asked)
    if last == targets:
        by_logits[end:] = 0


def _to_sources(first, last, frame):
    """Compute for every source the sum of its edges' contributions, of one pair of weights and rows or of two."""
    indptr, targets, edges, weights, rows, more_weights, more_rows, result = arrays(frame, TO_SOURCES)
    total = np.empty(weights.shape[1], weights.dtype)
    for u in range(first, last):
        clear(result, u * result.shape[1] * result.shape[2], result.shape[1] * result.shape[2])
        own = edges, indptr[u], indptr[u + 1], indptr[-1]
        _add_turned(result, u, weights, own, targets, rows, total)
        if more_rows.size:
            _add_turned(result, u, more_weights, own, targets, more_rows, total)


@inline
def _add_turned(result, u, weights, own_edges, targets, rows, total):
    """Add the contributions of the targets of a source's edges; the one row of all targets is multiplied once, by the
    sum of their weights."""
    (edges, first, last, end), (own, width), heads = own_edges, result.shape[1:], weights.shape[1]
    step, one = 0 if own == 1 else width, len(rows) == 1
    if one:
        clear(total, 0, heads)
    for i in range(first, last, EDGES):
        stop = min(i + EDGES, last)
        for ahead in range(i + AHEAD, min(stop + AHEAD, end)):
            prefetch(weights, edges[ahead])
            if not one:
                prefetch(rows, targets[ahead])
        if one:
            add_rows(total, 0, None, None, (edges, i, stop), weights, (1, heads, heads, heads, heads))
        else:
            shape = heads, width, step, heads * width, width
            add_rows(result, u * own * width, weights, edges, (targets, i, stop), rows, shape)
    if one and first < last:
        for h in range(heads):
            add_scaled(result, u * own * width + h * step, total[h], rows, h * width, width)


def _sum(first, last, frame):
    indptr, indices, edges, factors, weights, edge_weights, x, result = arrays(frame, SUM)
    width, end = x.shape[1], indptr[-1]
    of_sources, of_edges = weights.reshape(len(weights), 1), edge_weights.reshape(len(edge_weights), 1)
    by, places = (of_sources, indices) if len(weights) else (of_edges, edges)
    shape = 1, width, width, width, width
    for i in range(first, last):
        clear(result, i * width, width)
        for e in range(indptr[i], indptr[i + 1], EDGES):
            stop = min(e + EDGES, indptr[i + 1])
            for ahead in range(e + AHEAD, min(stop + AHEAD, end)):
                prefetch(x, indices[ahead])
                if len(edges):
                    prefetch(edge_weights, edges[ahead])
            some = indices, e, stop
            if len(weights) and len(edge_weights):
                for one in range(e, stop):
                    u = indices[one]
                    weight = weights[u] * edge_weights[edges[one] if len(edges) else one]
                    for k in range(width):
                        result[i, k] += weight * x[u, k]
            elif len(places):
                add_rows(result, i * width, by, places, some, x, shape)
            elif len(edge_weights):
                add_rows(result, i * width, by, None, some, x, shape)
            else:
                add_rows(result, i * width, None, None, some, x, shape)
        if len(factors):
            for k in range(width):
                result[i, k] *= factors[i]


def _group(first, last, frame):
    indptr, indices, starts, targets, edges = arrays(frame, GROUP)
    targets[indptr[-1] :] = 0
    edges[indptr[-1] :] = 0
    group_by_source(indptr, indices, starts, targets, edges)


group, sums, attend = Operation(_group), Operation(_sum, ANY_ORDER), Operation(_attend, ANY_ORDER)
attend_back, to_sources = Operation(_attend_back, ANY_ORDER), Operation(_to_sources, ANY_ORDER)
