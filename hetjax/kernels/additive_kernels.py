"""Additive attention on a CPU, edge by edge: the kernels of `additive.attend_additively`.

As in `kernels`, nothing is copied for every edge and head; a row is read where an edge points at.
"""

import math

import numpy as np

# The module, not its numbers: so that its file is part of what code is kept by (`compiled.digest`).
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.native import BLOCK, Operation, arrays
from hetjax.system.prefetch import prefetch

FORWARD = "i1 i1 f3 f3 f2 f2 f0 > f2 f2 f3 f2 f2"
BACKWARD = "i1 i1 f3 f3 f2 f2 f0 f2 f2 f3 > f3 f3 f2"
TURNED = "i1 i1 i1 f3 f3 f2 f2 f0 f2 f2 f3 > f3"


def _additive(first, last, frame):
    indptr, indices, queries, keys, vector, keep, slope, largest, denominator, numerator, logits, weights = arrays(
        frame, FORWARD
    )
    targets, heads, width = queries.shape
    end, zero = indptr[-1], keys.dtype.type(0)
    for t in range(first, last):
        for h in range(heads):
            largest[t, h], denominator[t, h] = -np.inf, 0
            for k in range(width):
                numerator[h, t, k] = 0
        for e in range(indptr[t], indptr[t + 1]):
            if e + kernels.AHEAD < end:
                prefetch(keys, indices[e + kernels.AHEAD])
            u = indices[e]
            for h in range(heads):
                logit = zero
                for k in range(width):
                    x = keys[u, h, k] + queries[t, h, k]
                    logit += vector[h, k] * (x if x >= 0 else slope[()] * x)
                logits[e, h] = logit
                largest[t, h] = max(largest[t, h], logit)
        for e in range(indptr[t], indptr[t + 1]):
            u = indices[e]
            for h in range(heads):
                weight = math.exp(logits[e, h] - (largest[t, h] if largest[t, h] > -np.inf else 0))
                weights[e, h] = weight
                denominator[t, h] += weight
                if len(keep):
                    weight *= keep[e, h]
                for k in range(width):
                    numerator[h, t, k] += weight * keys[u, h, k]
    if last == targets:
        logits[end:] = 0
        weights[end:] = 0


def _additive_back(first, last, frame):
    """Compute the gradients of additive attention; `by_vector` has the sums over every `BLOCK` targets."""
    indptr, indices, queries, keys, vector, keep, slope, weights, by_denominator, by_numerator, by_queries, by_vector, by_logits = arrays(frame, BACKWARD)  # fmt: skip
    targets, heads, width = queries.shape
    end, zero = indptr[-1], keys.dtype.type(0)
    for t in range(first, last):
        part = t // BLOCK
        for h in range(heads):
            for k in range(width):
                by_queries[t, h, k] = 0
                if t % BLOCK == 0:
                    by_vector[part, h, k] = 0
        for e in range(indptr[t], indptr[t + 1]):
            if e + kernels.AHEAD < end:
                prefetch(keys, indices[e + kernels.AHEAD])
            u = indices[e]
            for h in range(heads):
                change = zero
                for k in range(width):
                    change += by_numerator[h, t, k] * keys[u, h, k]
                if len(keep):
                    change *= keep[e, h]
                change = weights[e, h] * (change + by_denominator[t, h])
                by_logits[e, h] = change
                for k in range(width):
                    x = keys[u, h, k] + queries[t, h, k]
                    bent = x if x >= 0 else slope[()] * x
                    by_vector[part, h, k] += change * bent
                    by_queries[t, h, k] += change * (vector[h, k] if x >= 0 else slope[()] * vector[h, k])
    if last == targets:
        by_logits[end:] = 0


def _additive_to_sources(first, last, frame):
    indptr, targets, edges, queries, keys, vector, keep, slope, weights, by_logits, by_numerator, by_keys = arrays(
        frame, TURNED
    )
    heads, width = keys.shape[1:]
    end = indptr[-1]
    for u in range(first, last):
        for h in range(heads):
            for k in range(width):
                by_keys[u, h, k] = 0
        for i in range(indptr[u], indptr[u + 1]):
            if i + kernels.AHEAD < end:
                prefetch(queries, targets[i + kernels.AHEAD])
            e, t = edges[i], targets[i]
            for h in range(heads):
                change, weight = by_logits[e, h], weights[e, h]
                if len(keep):
                    weight *= keep[e, h]
                for k in range(width):
                    x = keys[u, h, k] + queries[t, h, k]
                    bent = vector[h, k] if x >= 0 else slope[()] * vector[h, k]
                    by_keys[u, h, k] += change * bent + weight * by_numerator[h, t, k]


attend, attend_back = Operation(_additive, kernels.ANY_ORDER), Operation(_additive_back, kernels.ANY_ORDER)
to_sources = Operation(_additive_to_sources, kernels.ANY_ORDER)
