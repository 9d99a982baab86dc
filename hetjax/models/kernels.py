"""Sums and attention on a CPU, edge by edge: what `segment.sum_rows` and `attention.attend` say.

Rows are read where the edges point at, and asked for some edges before. Attention reads them once on the way there and once
on the way back, where one operation after another would make a copy of a row for every edge and head. A target's edges are
neighbours, so its sums stay in the processor's cache.
"""

import math

import numba
import numpy as np

from hetjax.native import BLOCK, Operation, arrays, is_double
from hetjax.prefetch import prefetch

AHEAD = 12  # edges between that whose row is asked for and that whose row is read

# Sums in any order, so that several numbers are added at a time; what is infinite or no number stays so.
_compiled = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_compiled
def _forward(first, last, indptr, indices, queries, offsets, keys, values, keep, slope, *results):
    largest, denominator, kept, numerator, logits, weights = results
    (targets, heads), size, width = offsets.shape, keys.shape[2], values.shape[2]
    one_query, one_key, one_value = queries.shape[1] == 1, keys.shape[1] == 1, values.shape[1] == 1
    end = indptr[-1]
    for t in range(first, last):
        q = 0 if one_query else t
        for h in range(heads):
            largest[t, h], denominator[t, h], kept[t, h] = -np.inf, 0, 0
            for k in range(width):
                numerator[h, t, k] = 0
        for e in range(indptr[t], indptr[t + 1]):
            if e + AHEAD < end:
                prefetch(keys, indices[e + AHEAD])
            u = indices[e]
            for h in range(heads):
                at, logit = 0 if one_key else h, offsets[t, h]
                for k in range(size):
                    logit += queries[h, q, k] * keys[u, at, k]
                logits[e, h] = logit if logit >= 0 else slope[()] * logit
                largest[t, h] = max(largest[t, h], logits[e, h])
        for e in range(indptr[t], indptr[t + 1]):
            u = indices[e]
            for h in range(heads):
                weight = math.exp(logits[e, h] - (largest[t, h] if largest[t, h] > -np.inf else 0))
                weights[e, h] = weight
                denominator[t, h] += weight
                if len(keep):
                    weight *= keep[e, h]
                kept[t, h] += weight
                at = 0 if one_value else h
                for k in range(width):
                    numerator[h, t, k] += weight * values[u, at, k]
    if last == targets:
        logits[end:] = 0
        weights[end:] = 0


@_compiled
def _backward(first, last, indptr, indices, keys, values, keep, slope, logits, weights, *rest):
    """`by_queries` has a row per target, or the sums over every `BLOCK` of them."""
    by_denominator, by_kept, by_numerator, by_queries, by_offsets, by_logits = rest
    (targets, heads), size, width = by_offsets.shape, keys.shape[2], values.shape[2]
    one_key, one_value = keys.shape[1] == 1, values.shape[1] == 1
    end, span = indptr[-1], 1 if by_queries.shape[1] == targets else BLOCK
    for t in range(first, last):
        q = t // span
        for h in range(heads):
            by_offsets[t, h] = 0
            if t % span == 0:
                for k in range(size):
                    by_queries[h, q, k] = 0
        for e in range(indptr[t], indptr[t + 1]):
            if e + AHEAD < end:
                prefetch(values, indices[e + AHEAD])
            u = indices[e]
            for h in range(heads):
                at, change = 0 if one_value else h, by_kept[t, h]
                for k in range(width):
                    change += by_numerator[h, t, k] * values[u, at, k]
                if len(keep):
                    change *= keep[e, h]
                change = weights[e, h] * (change + by_denominator[t, h])
                if logits[e, h] < 0:
                    change *= slope[()]
                by_logits[e, h] = change
                by_offsets[t, h] += change
                at = 0 if one_key else h
                for k in range(size):
                    by_queries[h, q, k] += change * keys[u, at, k]
    if last == targets:
        by_logits[end:] = 0


@_compiled
def _turned(first, last, indptr, targets, edges, weights, rows, more_weights, more_rows, result):
    own, width = result.shape[1:]
    one, one_more = rows.shape[1] == 1, more_rows.shape[1] == 1
    for u in range(first, last):
        for h in range(own):
            for k in range(width):
                result[u, h, k] = 0
        for i in range(indptr[u], indptr[u + 1]):
            e, t = edges[i], 0 if one else targets[i]
            for h in range(len(rows)):
                to, weight = 0 if own == 1 else h, weights[e, h]
                for k in range(width):
                    result[u, to, k] += weight * rows[h, t, k]
            t = 0 if one_more else targets[i]
            for h in range(len(more_rows)):
                to, weight = 0 if own == 1 else h, more_weights[e, h]
                for k in range(width):
                    result[u, to, k] += weight * more_rows[h, t, k]


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
