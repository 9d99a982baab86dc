"""The graph of one level of multilevel partitioning, and that of its clusters."""

from typing import NamedTuple

import numpy as np

from hetjax.system.compiled import compiled
from hetjax.system.prefetch import prefetch

AHEAD = 8  # nodes


class Level(NamedTuple):
    """An undirected graph with weights, every edge in both directions.

    Attributes:
      indptr: `[nodes + 1]`, int32 where that holds the last, else int64.
      neighbours: int32 `[2 edges]`, with none of a node itself.
      weights: of the smallest of uint16, int32 and int64 that holds all, `[2 edges]`, or `[1]` of ones, where all are alike.
      sizes: int32 `[nodes]`, what a node weighs.
    """

    indptr: np.ndarray
    neighbours: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray


def total(level: Level) -> int:
    return int(level.weights.sum()) if len(level.weights) > 1 else len(level.neighbours)


def contract(level: Level, labels: np.ndarray, count: int) -> Level:
    """Return the graph of clusters."""
    sizes = np.bincount(labels, level.sizes, count).astype(np.int32)
    members, starts = by_key(labels, count)
    indptr, place_of = np.zeros(count + 1, level.indptr.dtype), np.empty(count, level.indptr.dtype)
    neighbours = np.empty_like(level.neighbours)
    for dtype in (np.uint16, np.int32, np.int64):  # what is not written takes no memory
        weights = np.empty(max(2, len(level.neighbours)), dtype)
        place_of[:] = -1
        edges = _merge(*level[:3], labels, members, starts, np.iinfo(dtype).max, place_of, indptr, neighbours, weights)
        if edges >= 0:
            break
    return Level(indptr, neighbours[:edges], weights[: max(2, edges)], sizes)


def by_key(keys: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places in the order of their keys, those of one key as they come: int32 `[len(keys)]`, and where each key's begin, `[count + 1]`."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])
    order = np.empty(len(keys), np.int32)
    _sort(keys, starts[:-1].copy(), order)
    return order, starts


@compiled
def _sort(keys, cursor, order):
    for place in range(len(keys)):
        order[cursor[keys[place]]] = place
        cursor[keys[place]] += 1


@compiled
def weight(weights, edge):
    return weights[edge] if len(weights) > 1 else weights[0]


@compiled
def rename(labels):
    """Number labels from 0 in place; return how many there are."""
    names, count = np.full(len(labels), -1, np.int32), 0
    for v in range(len(labels)):
        if names[labels[v]] < 0:
            names[labels[v]] = count
            count += 1
        labels[v] = names[labels[v]]
    return count


@compiled
def cut(indptr, neighbours, weights, sizes, owners):
    total = 0
    for v in range(len(owners)):
        for edge in range(indptr[v], indptr[v + 1]):
            if owners[neighbours[edge]] != owners[v]:
                total += weight(weights, edge)
    return total


@compiled
def ask(order, place, indptr, neighbours, labels):
    """Prefetch what an array says of the neighbours of the nodes that come soon in an order, as each node is visited.

    Their pointers are asked for first, then, as these have come, what they point to, and last the labels.
    """
    last = len(order) - 1
    prefetch(indptr, order[min(place + 3 * AHEAD, last)])
    soon = order[min(place + 2 * AHEAD, last)]
    prefetch(neighbours, min(indptr[soon], len(neighbours) - 1))
    sooner = order[min(place + AHEAD, last)]
    for edge in range(indptr[sooner], indptr[sooner + 1]):
        prefetch(labels, neighbours[edge])


@compiled
def _merge(indptr, neighbours, weights, labels, members, starts, most, place_of, out, targets, sums):
    """Write each cluster's edges, parallel ones as one; return how many there are, -1 if one would weigh more than `most`."""
    cursor = np.int64(0)
    for cluster in range(len(out) - 1):
        first = cursor
        for place in range(starts[cluster], starts[cluster + 1]):
            ask(members, place, indptr, neighbours, labels)
            v = members[place]
            for edge in range(indptr[v], indptr[v + 1]):
                label = labels[neighbours[edge]]
                if label == cluster:
                    continue
                slot, more = place_of[label], np.int64(weight(weights, edge))
                if slot < first:
                    place_of[label] = slot = cursor
                    targets[slot] = label
                    cursor += 1
                else:
                    more += np.int64(sums[slot])
                if more > most:
                    return -1
                sums[slot] = more
        out[cluster + 1] = cursor
    return cursor
