"""Counter-based random numbers, and the sampling of neighbours that rests on them.

Every number is a pure function of what it is for: (seed, epoch, step, hop, relation, node, which of the node's samples). So
the same neighbours are sampled however the graph is partitioned and whoever samples, and a run resumes at any step without
generator state to save.
"""

import hashlib

import numpy as np
from numba import types

from hetjax.system.compiled import compiled
from hetjax.system.pointers import array_at
from hetjax.system.prefetch import prefetch

AHEAD = 16  # targets, or nodes, between that whose memory is asked for and that whose memory is read
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def key(*parts: int | str) -> np.uint64:
    """Return a 64-bit key for a purpose, say `key(seed, epoch, step, hop, relation.key)`; any change changes all that is sampled by it."""
    plain = tuple(part if isinstance(part, str) else int(part) for part in parts)
    return np.uint64(int.from_bytes(hashlib.blake2b(repr(plain).encode(), digest_size=8).digest(), "little"))


@compiled(inline="always")
def bits(key: np.uint64, counter: int) -> np.uint64:
    """Return 64 random bits for a counter: the output function of SplitMix64 (Steele, Lea and Flood 2014), applied twice."""
    z = key + (np.uint64(counter) + np.uint64(1)) * _GOLDEN
    for _ in range(2):
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        z = z ^ (z >> np.uint64(31))
    return z


@compiled(inline="always")
def uniform(key: np.uint64, counter: int) -> float:
    """Return a float64 in [0, 1) with 53 random bits."""
    return np.float64(bits(key, counter) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def _fill_bits(key, ids, out):
    for i in range(len(ids)):
        out[i] = bits(key, ids[i])


def shuffle(key: np.uint64, ids: np.ndarray) -> np.ndarray:
    """Return `ids` in a random order that depends on the key and on the set of ids alone, not on the order they came in."""
    ids = np.sort(ids)
    order = np.empty(len(ids), np.uint64)
    _fill_bits(key, ids, order)
    return ids[np.argsort(order, kind="stable")]


@compiled(inline="always")
def _choose(key, target, degree, chosen, always):
    """Fill `chosen` with some of a target's edges, counted from its first: the first `always`, and of the others some."""
    size = len(chosen)
    if size == degree:
        for j in range(size):
            chosen[j] = j
        return
    for j in range(always):
        chosen[j] = j
    # Floyd's algorithm: each subset of as many edges is equally likely, with one random number for each.
    node_key = bits(key, target)
    for j in range(always, size):
        last = degree - size + j
        edge, taken = np.int32(always + uniform(node_key, j - always) * (last + 1 - always)), False
        for k in range(always, j):
            taken |= chosen[k] == edge
        chosen[j] = last if taken else edge


@compiled(inline="always")
def _id(given, size, place):
    """Return one of the integers of so many bytes at an address."""
    if size == 4:
        return np.int64(array_at(given, place + 1, types.uint32)[place])
    if size == 2:
        return np.int64(array_at(given, place + 1, types.uint16)[place])
    if size == 1:
        return np.int64(array_at(given, place + 1, types.uint8)[place])
    return array_at(given, place + 1, types.int64)[place]


@compiled
def sample_neighbours(
    indptr: np.ndarray,
    indices: tuple,
    targets: np.ndarray,
    key: np.uint64,
    out_indptr: np.ndarray,
    out: np.ndarray,
    always: int,
) -> int:
    """Sample the neighbours of every target, uniformly and without replacement, into `out` (global source ids).

    Args:
      indptr: of the relation's CSC.
      indices: `(address, bytes of each, their number, number of source nodes)`, those of the CSC, which are checked here because
        a store on disk is not trusted.
      targets: ids `[T]`.
      key: of this (seed, epoch, step, hop, relation); the node's id is combined with it here.
      out_indptr: where each target's begin in `out`; where it has as many as are to be sampled, all are taken in order.
      out: int32 `[out_indptr[T]]`.
      always: so many edges of every target, its first, are sampled in any case; it has as many.

    Returns:
      The position in `indices` of an id that is no source node, which is their number if pointers point beyond; or -1.
    """
    given, size, edges, sources = indices
    bytes_of = array_at(given, 1, types.uint8)
    for i in range(len(targets) + AHEAD):
        if i < len(targets) and out_indptr[i] < out_indptr[i + 1]:
            start, stop = indptr[targets[i]], indptr[targets[i] + 1]
            if start < 0 or stop > edges:
                return edges
            chosen = out[out_indptr[i] : out_indptr[i + 1]]
            _choose(key, targets[i], stop - start, chosen, always)
            for j in range(len(chosen)):
                prefetch(bytes_of, (start + chosen[j]) * size)
        if i >= AHEAD and out_indptr[i - AHEAD] < out_indptr[i - AHEAD + 1]:
            start, chosen = indptr[targets[i - AHEAD]], out[out_indptr[i - AHEAD] : out_indptr[i - AHEAD + 1]]
            for j in range(len(chosen)):
                source = _id(given, size, start + chosen[j])
                if source < 0 or source >= sources:
                    return start + chosen[j]
                chosen[j] = source
    return -1


@compiled
def sampled_weights(
    indptr: np.ndarray,
    weights: np.ndarray,
    targets: np.ndarray,
    key: np.uint64,
    out_indptr: np.ndarray,
    out: np.ndarray,
    always: int = 0,
) -> None:
    """Write the weights of the edges that `sample_neighbours` samples, which checked the pointers, float32 into `out`.

    Where fewer edges are sampled than there are, weights are multiplied by edges there are / edges sampled, so that what is expected
    of a weighted sum is the sum over all; those of the first `always` edges, sampled in any case, are left as they are.
    """
    for i in range(len(targets)):
        start, degree = indptr[targets[i]], indptr[targets[i] + 1] - indptr[targets[i]]
        first, size = out_indptr[i], out_indptr[i + 1] - out_indptr[i]
        if size == degree:
            for j in range(size):
                out[first + j] = weights[start + j]
            continue
        chosen = np.empty(size, np.int32)
        _choose(key, targets[i], degree, chosen, always)
        scale = (degree - always) / (size - always)
        for j in range(size):
            out[first + j] = weights[start + chosen[j]] * (scale if j >= always else 1.0)


@compiled
def sample_piece(
    indptr: np.ndarray,
    indices: np.ndarray,
    piece: tuple,
    targets: np.ndarray,
    fanout: int,
    key: np.uint64,
    out_indptr: np.ndarray,
    totals: np.ndarray,
    out: np.ndarray,
    places: np.ndarray,
) -> int:
    """Sample from a whole relation as `sample_neighbours` does, and keep the edges of one piece; where `out` is empty they are only counted.

    Args:
      indptr: of the whole relation.
      indices: of the piece.
      piece: `(number, of)`.
      targets, fanout, key: as in `sample_neighbours`.
      out_indptr: int32 `[T + 1]`, filled.
      totals: int32 `[T]`, filled with how many edges of every target are sampled, of all pieces.
      out, places: int32 `[out_indptr[T]]`, the sources, and which of its target's sampled edges each is.

    Returns:
      How many edges are kept; -1 where pointers are not ordered, or point beyond the piece.
    """
    number, of = piece
    count = 0
    for i in range(len(targets)):
        start, degree = indptr[targets[i]], indptr[targets[i] + 1] - indptr[targets[i]]
        if start < 0 or degree < 0 or (start + degree - number + of - 1) // of > len(indices):
            return -1
        size = degree if fanout < 0 else min(degree, fanout)
        totals[i] = size
        chosen = np.empty(size, np.int32)
        _choose(key, targets[i], degree, chosen, 0)
        for j in range(size):
            edge = start + chosen[j]
            if edge % of == number:
                if len(out):
                    out[count], places[count] = indices[(edge - number) // of], j
                count += 1
        out_indptr[i + 1] = count
    return count
