"""Additive attention on a CPU, edge by edge: what `additive.attend_additively` says.

As in `kernels`, nothing is copied for every edge and head; a row is read where an edge points at.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

# The module, not its numbers: so that its file is part of what code is kept by (`compiled.digest`).
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.native import BLOCK, F0, F2, F3, I1, RESULT, Operation, arrays
from hetjax.system.prefetch import prefetch


class AdditiveArrays(NamedTuple):
    """The arrays of a call of `_additive`."""

    indptr: I1
    indices: I1
    queries: F3
    keys: F3
    vector: F2
    keep: F2
    slope: F0
    largest: Annotated[F2, RESULT]
    denominator: Annotated[F2, RESULT]
    numerator: Annotated[F3, RESULT]
    logits: Annotated[F2, RESULT]
    weights: Annotated[F2, RESULT]


def _additive(first, last, frame):
    call: AdditiveArrays = arrays(frame, AdditiveArrays)
    indptr, indices, queries, keys, vector = call.indptr, call.indices, call.queries, call.keys, call.vector
    keep, slope, largest, denominator, numerator = call.keep, call.slope, call.largest, call.denominator, call.numerator
    logits, weights = call.logits, call.weights
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


class AdditiveBackArrays(NamedTuple):
    """The arrays of a call of `_additive_back`."""

    indptr: I1
    indices: I1
    queries: F3
    keys: F3
    vector: F2
    keep: F2
    slope: F0
    weights: F2
    by_denominator: F2
    by_numerator: F3
    by_queries: Annotated[F3, RESULT]
    by_vector: Annotated[F3, RESULT]
    by_logits: Annotated[F2, RESULT]


def _additive_back(first, last, frame):
    """`by_vector` has the sums over every `BLOCK` targets."""
    call: AdditiveBackArrays = arrays(frame, AdditiveBackArrays)
    indptr, indices, queries, keys, vector = call.indptr, call.indices, call.queries, call.keys, call.vector
    keep, slope, weights, by_denominator, by_numerator = (
        call.keep,
        call.slope,
        call.weights,
        call.by_denominator,
        call.by_numerator,
    )
    by_queries, by_vector, by_logits = call.by_queries, call.by_vector, call.by_logits
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


class ToSourcesArrays(NamedTuple):
    """The arrays of a call of `_additive_to_sources`."""

    indptr: I1
    targets: I1
    edges: I1
    queries: F3
    keys: F3
    vector: F2
    keep: F2
    slope: F0
    weights: F2
    by_logits: F2
    by_numerator: F3
    by_keys: Annotated[F3, RESULT]


def _additive_to_sources(first, last, frame):
    call: ToSourcesArrays = arrays(frame, ToSourcesArrays)
    indptr, targets, edges, queries, keys = call.indptr, call.targets, call.edges, call.queries, call.keys
    vector, keep, slope, weights, by_logits = call.vector, call.keep, call.slope, call.weights, call.by_logits
    by_numerator, by_keys = call.by_numerator, call.by_keys
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
