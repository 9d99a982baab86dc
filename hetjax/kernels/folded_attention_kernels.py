"""Attention whose matrices are on the targets' side: the sources are aggregated without a product.

The logit of an edge is `q K u`, with `K` beside the query, and the sum of `a V u` is `V` times that of `a u`. So a target has rows as wide
as the sources, one a head. A kernel makes them for a few targets at a time, in the processor's cache, and multiplies what they sum up to at
once: for all targets they would be larger than all else in a step. The backward pass computes them again; only the
cotangents of the sources need those of all targets.
"""

import numpy as np

# The module, not its numbers: so that its file is part of what code is kept by (`compiled.digest`).
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.native import BLOCK, Operation, arrays
from hetjax.kernels.vectors import (
    add_products,
    add_rows,
    bend,
    clear,
    dots,
    exponentials,
    shift,
    total_weights,
    unbend,
)
from hetjax.system.prefetch import prefetch

TOGETHER = 16  # targets whose rows are in the processor's cache


ATTEND = "i1 i1 f3 f2 f2 f3 f3 f2 f0 > f2 f2 f2 f3 f2 f2 f2"
ATTEND_BACK = "i1 i1 f3 f2 f3 f3 f2 f0 f2 f2 f2 f2 f2 f3 > f3 f2 f4 f4 f2"


@kernels.inline
def _ask(x, indices, first, last, end):
    for ahead in range(first + kernels.AHEAD, min(last + kernels.AHEAD, end)):
        prefetch(x, indices[ahead])


@kernels.inline
def _add(sums, at, weights, indices, first, last, sources, heads):
    """Add weighted sources, of a target's edges or of several targets', to a row for each head; these are `TOGETHER` rows apart."""
    width, wide = sources.shape[1], sums.shape[2]
    for e in range(first, last, kernels.EDGES):
        stop = min(e + kernels.EDGES, last)
        _ask(sources, indices, e, stop, len(indices))
        add_rows(sums, at * wide, weights, None, (indices, e, stop), sources, (heads, width, TOGETHER * wide, width, 0))


@kernels.inline
def _widened(out, x, first, count, matrices):
    """Compute `out[h, i] = x[first + i, h] @ matrices[h]`."""
    heads, d, width = matrices.shape
    clear(out, 0, out.size)
    for h in range(heads):
        shape = d, count, width, width, heads * d, 1, width
        add_products(out, h * TOGETHER * width, x, (first * heads + h) * d, matrices, h * d * width, shape, None)


@kernels.inline
def _narrowed(out, first, count, x, matrices):
    """Compute `out[first + i, h] = x[h, i] @ matrices[h]`."""
    (heads, width, d), wide = matrices.shape, x.shape[2]
    clear(out, first * heads * d, count * heads * d)
    for h in range(heads):
        shape = width, count, d, heads * d, wide, 1, d
        add_products(out, (first * heads + h) * d, x, h * TOGETHER * wide, matrices, h * width * d, shape, None)


@kernels.inline
def _add_turned(out, part, x, first, count, wide):
    """Compute `out[part, h] += x[first:, h]^T @ wide[h]`."""
    _, heads, d, width = out.shape
    for h in range(heads):
        shape = count, d, width, width, 1, heads * d, width
        to = (part * heads + h) * d * width
        add_products(out, to, x, (first * heads + h) * d, wide, h * TOGETHER * width, shape, None)


def _attend_folded(first, last, frame):
    """Attend for some targets. `queries` has a row per target, or one for all; `logits` has no rows where the slope is
    1, as they are not needed then.

    `key` `[heads, d, wide]` may be wider than the sources, by zeros, and so are the rows that are made here.
    """
    indptr, indices, queries, offsets, sources, key, value, keep, slope, largest, denominator, kept, numerator, logits, weights, applied = arrays(frame, ATTEND)  # fmt: skip
    (targets, heads, _), (width, wide), end = numerator.shape, (sources.shape[1], key.shape[2]), indptr[-1]
    asked, sums = np.empty((heads, TOGETHER, wide), sources.dtype), np.empty((heads, TOGETHER, wide), sources.dtype)
    shape, each = (heads, width, TOGETHER * wide, 0), len(queries) == targets
    bent = logits if len(logits) else weights
    _widened(asked, queries, 0, min(len(queries), 1), key)
    for begin in range(first, last, TOGETHER):
        count = min(TOGETHER, last - begin)
        if each:
            _widened(asked, queries, begin, count, key)
        for t in range(begin, begin + count):
            at = (t - begin) * wide if each else 0
            for e in range(indptr[t], indptr[t + 1]):
                source, soon = kernels.here_and_ahead(indices, e, end)
                dots(bent, e * heads, asked, at, sources, source * width, shape, soon * width)
            into = heads, t, indptr[t], indptr[t + 1]
            bend(bent, bent, None, offsets, slope[()], largest, into)
            shift(weights, bent, largest, into)
        exponentials(weights, indptr[begin] * heads, (indptr[begin + count] - indptr[begin]) * heads)
        clear(sums, 0, sums.size)
        for t in range(begin, begin + count):
            into = heads, t, indptr[t], indptr[t + 1]
            total_weights(denominator, weights, into)
            if len(keep):
                for e in range(indptr[t], indptr[t + 1]):
                    for h in range(heads):
                        applied[e, h] = weights[e, h] * keep[e, h]
            weigh = applied if len(keep) else weights
            total_weights(kept, weigh, into)
            _add(sums, t - begin, weigh, indices, indptr[t], indptr[t + 1], sources, heads)
        _narrowed(numerator, begin, count, sums, value)
    if last == targets:
        bent[end:] = 0
        weights[end:] = 0


def _attend_folded_back(first, last, frame):
    """Compute the gradients for some targets. Gradients of matrices, and of one row of queries for all targets, are
    sums over every part of the targets; `value` and these are as wide as `key` above."""
    indptr, indices, queries, sources, key, value, keep, slope, logits, weights, applied, by_denominator, by_kept, by_numerator, by_queries, by_offsets, by_key, by_value, by_logits = arrays(frame, ATTEND_BACK)  # fmt: skip
    (targets, heads, d), end, parts = by_numerator.shape, indptr[-1], len(by_key)
    width, wide = sources.shape[1], value.shape[2]
    given, sums = np.empty((heads, TOGETHER, wide), sources.dtype), np.empty((heads, TOGETHER, wide), sources.dtype)
    weigh, bent = applied if len(keep) else weights, logits if len(logits) else weights
    shape, each = (heads, width, TOGETHER * wide, 0), len(queries) == targets
    for_all = np.empty((heads, 1 if each else TOGETHER, wide), sources.dtype)
    for part in range(first // BLOCK, last // BLOCK):
        for by_matrix in (by_key, by_value):
            clear(by_matrix, part * heads * d * wide, heads * d * wide)
        clear(for_all, 0, for_all.size)
        stop = targets * (part + 1) // parts
        for begin in range(targets * part // parts, stop, TOGETHER):
            count = min(TOGETHER, stop - begin)
            _widened(given, by_numerator, begin, count, value)
            for t in range(begin, begin + count):
                for e in range(indptr[t], indptr[t + 1]):
                    source, soon = kernels.here_and_ahead(indices, e, end)
                    start = (t - begin) * wide
                    dots(by_logits, e * heads, given, start, sources, source * width, shape, soon * width)
                    for h in range(heads if len(keep) else 0):
                        by_logits[e, h] = (by_kept[t, h] + by_logits[e, h]) * keep[e, h]
                for h in range(heads):  # its memory, until the sum is written there
                    by_offsets[t, h] = by_denominator[t, h] if len(keep) else by_denominator[t, h] + by_kept[t, h]
                into = heads, t, indptr[t], indptr[t + 1]
                unbend(by_logits, weights, bent, by_offsets, slope[()], into)
                total_weights(by_offsets, by_logits, into)
            clear(sums, 0, sums.size)
            if each:
                for t in range(begin, begin + count):
                    _add(sums, t - begin, by_logits, indices, indptr[t], indptr[t + 1], sources, heads)
                _narrowed(by_queries, begin, count, sums, key)
                _add_turned(by_key, part, queries, begin, count, sums)
                clear(sums, 0, sums.size)
            else:
                _add(for_all, 0, by_logits, indices, indptr[begin], indptr[begin + count], sources, heads)
            for t in range(begin, begin + count):
                _add(sums, t - begin, weigh, indices, indptr[t], indptr[t + 1], sources, heads)
            _add_turned(by_value, part, by_numerator, begin, count, sums)
        if not each:
            _narrowed(by_queries, part, 1, for_all, key)
            _add_turned(by_key, part, queries, 0, 1, for_all)
    if last == parts * BLOCK:
        by_logits[end:] = 0


attend, attend_back = Operation(_attend_folded, kernels.ANY_ORDER), Operation(_attend_folded_back, kernels.ANY_ORDER)
