"""Sums and attention on a CPU, edge by edge: what `segment.sum_rows` and `attention.attend` say.

Rows are read where the edges point at, and asked for some edges before, where one operation after another would make a copy of a
row for every edge and head. A target's edges are neighbours, so its sums stay in the processor's cache. Heads stand side by
side in a row, `[rows, heads, width]`: so one edge asks for one piece of memory.
"""

import math

import numba
import numpy as np

from hetjax.native import BLOCK, Operation, arrays, is_double
from hetjax.prefetch import prefetch
from hetjax.vectors import add_scaled, dot

AHEAD = 12  # edges between that whose row is asked for and that whose row is read
TOGETHER = (
    16  # targets whose logits and weights stay in the processor's cache from one pass over their edges to the next
)

# Sums in any order, so that several numbers are added at a time; what is infinite or no number stays so.
_compiled = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_compiled
def _forward(first, last, indptr, indices, queries, offsets, keys, values, keep, slope, *results):
    """Of some targets at a time the logits, then their exponentials, then the sums: each reads memory in its own order."""
    largest, denominator, kept, numerator, logits, weights = results
    (targets, heads), size, width = offsets.shape, keys.shape[2], values.shape[2]
    one_query, own, own_value = queries.shape[0] == 1, keys.shape[1], values.shape[1]
    end, zero = indptr[-1], numerator.dtype.type(0)
    for begin in range(first, last, TOGETHER):
        finish = min(begin + TOGETHER, last)
        for t in range(begin, finish):
            q = 0 if one_query else t
            for h in range(heads):
                largest[t, h] = -np.inf
            for e in range(indptr[t], indptr[t + 1]):
                if e + AHEAD < end:
                    prefetch(keys, indices[e + AHEAD])
                u = np.int64(indices[e])
                for h in range(heads):
                    at = u * own + (0 if own == 1 else h)
                    logit = offsets[t, h] + dot(queries, (q * heads + h) * size, keys, at * size, size)
                    logits[e, h] = logit if logit >= 0 else slope[()] * logit
                    largest[t, h] = max(largest[t, h], logits[e, h])
        for t in range(begin, finish):
            for h in range(heads):
                denominator[t, h] = 0
            for e in range(indptr[t], indptr[t + 1]):
                for h in range(heads):
                    weights[e, h] = math.exp(logits[e, h] - (largest[t, h] if largest[t, h] > -np.inf else zero))
                    denominator[t, h] += weights[e, h]
        for t in range(begin, finish):
            for h in range(heads):
                kept[t, h] = 0
                for k in range(width):
                    numerator[t, h, k] = 0
            for e in range(indptr[t], indptr[t + 1]):
                if e + AHEAD < end:
                    prefetch(values, indices[e + AHEAD])
                u = np.int64(indices[e])
                for h in range(heads):
                    weight = weights[e, h]
                    if len(keep):
                        weight *= keep[e, h]
                    kept[t, h] += weight
                    at = u * own_value + (0 if own_value == 1 else h)
                    add_scaled(numerator, (t * heads + h) * width, weight, values, at * width, width)
    if last == targets:
        logits[end:] = 0
        weights[end:] = 0


@_compiled
def _backward(first, last, indptr, indices, keys, values, keep, slope, logits, weights, *rest):
    """`by_queries` has a row per target, or the sums over every `BLOCK` of them."""
    by_denominator, by_kept, by_numerator, by_queries, by_offsets, by_logits = rest
    (targets, heads), size, width = by_offsets.shape, keys.shape[2], values.shape[2]
    own, own_value = keys.shape[1], values.shape[1]
    end, span = indptr[-1], 1 if by_queries.shape[0] == targets else BLOCK
    for begin in range(first, last, TOGETHER):
        finish = min(begin + TOGETHER, last)
        for t in range(begin, finish):
            for h in range(heads):
                by_offsets[t, h] = 0
            for e in range(indptr[t], indptr[t + 1]):
                if e + AHEAD < end:
                    prefetch(values, indices[e + AHEAD])
                u = np.int64(indices[e])
                for h in range(heads):
                    at = u * own_value + (0 if own_value == 1 else h)
                    change = by_kept[t, h]
                    change += dot(by_numerator, (t * heads + h) * width, values, at * width, width)
                    if len(keep):
                        change *= keep[e, h]
                    change = weights[e, h] * (change + by_denominator[t, h])
                    if logits[e, h] < 0:
                        change *= slope[()]
                    by_logits[e, h] = change
                    by_offsets[t, h] += change
        for t in range(begin, finish):
            q = t // span
            if t % span == 0:
                for h in range(heads):
                    for k in range(size):
                        by_queries[q, h, k] = 0
            for e in range(indptr[t], indptr[t + 1]):
                if e + AHEAD < end:
                    prefetch(keys, indices[e + AHEAD])
                u = np.int64(indices[e])
                for h in range(heads):
                    at = u * own + (0 if own == 1 else h)
                    add_scaled(by_queries, (q * heads + h) * size, by_logits[e, h], keys, at * size, size)
    if last == targets:
        by_logits[end:] = 0


@_compiled
def _turned(first, last, indptr, targets, edges, weights, rows, more_weights, more_rows, result):
    own, width = result.shape[1:]
    one, one_more, end = rows.shape[0] == 1, more_rows.shape[0] == 1, indptr[-1]
    heads, more = rows.shape[1], more_rows.shape[1]
    for u in range(first, last):
        for h in range(own):
            for k in range(width):
                result[u, h, k] = 0
        for i in range(indptr[u], indptr[u + 1]):
            if i + AHEAD < end:
                prefetch(weights, edges[i + AHEAD])
                if not one:
                    prefetch(rows, targets[i + AHEAD])
                if more:
                    prefetch(more_weights, edges[i + AHEAD])
                    if not one_more:
                        prefetch(more_rows, targets[i + AHEAD])
            e, t = edges[i], np.int64(0 if one else targets[i])
            for h in range(heads):
                to = (u * own + (0 if own == 1 else h)) * width
                add_scaled(result, to, weights[e, h], rows, (t * heads + h) * width, width)
            t = np.int64(0 if one_more else targets[i])
            for h in range(more):
                to = (u * own + (0 if own == 1 else h)) * width
                add_scaled(result, to, more_weights[e, h], more_rows, (t * more + h) * width, width)


@_compiled
def _sums(first, last, indptr, indices, edges, factors, weights, edge_weights, x, result):
    width, end, weighted = x.shape[1], indptr[-1], len(weights) > 0 or len(edge_weights) > 0
    for i in range(first, last):
        for k in range(width):
            result[i, k] = 0
        for e in range(indptr[i], indptr[i + 1]):
            if e + AHEAD < end:
                prefetch(x, indices[e + AHEAD])
            u = indices[e]
            if weighted:
                weight = weights[u] if len(weights) else 1
                if len(edge_weights):
                    weight *= edge_weights[edges[e] if len(edges) else e]
                for k in range(width):
                    result[i, k] += weight * x[u, k]
            else:
                for k in range(width):
                    result[i, k] += x[u, k]
        if len(factors):
            for k in range(width):
                result[i, k] *= factors[i]


SUM = "i1 i1 i1 f1 f1 f1 f2 > f2"
ATTEND = "i1 i1 f3 f2 f3 f3 f2 f0 > f2 f2 f2 f3 f2 f2"
ATTEND_BACK = "i1 i1 f3 f3 f2 f0 f2 f2 f2 f2 f3 > f3 f2 f2"
TO_SOURCES = "i1 i1 i1 f2 f3 f2 f3 > f3"


def _sum(first, last, frame):
    if is_double(frame, SUM):
        _sums(first, last, *arrays(frame, SUM, "float64"))
    else:
        _sums(first, last, *arrays(frame, SUM, "float32"))


def _attend(first, last, frame):
    if is_double(frame, ATTEND):
        _forward(first, last, *arrays(frame, ATTEND, "float64"))
    else:
        _forward(first, last, *arrays(frame, ATTEND, "float32"))


def _attend_back(first, last, frame):
    if is_double(frame, ATTEND_BACK):
        _backward(first, last, *arrays(frame, ATTEND_BACK, "float64"))
    else:
        _backward(first, last, *arrays(frame, ATTEND_BACK, "float32"))


def _to_sources(first, last, frame):
    if is_double(frame, TO_SOURCES):
        _turned(first, last, *arrays(frame, TO_SOURCES, "float64"))
    else:
        _turned(first, last, *arrays(frame, TO_SOURCES, "float32"))


sums, attend = Operation(_sum), Operation(_attend)
attend_back, to_sources = Operation(_attend_back), Operation(_to_sources)
