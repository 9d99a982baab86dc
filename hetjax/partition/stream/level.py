"""The graph of one level of multilevel partitioning, and that of its clusters."""

from typing import NamedTuple

import numpy as np

from hetjax.compiled import compiled

AHEAD = 32


class Level(NamedTuple):
    """An undirected graph with weights, every edge in both directions.

    Attributes:
      indptr: `[nodes + 1]`, int32 where that holds the last, else int64.
      neighbours: int32 `[2 edges]`, with none of a node itself.
      weights: int32 `[2 edges]`, or `[1]` of ones, where all are alike.
      sizes: int32 `[nodes]`, what a node weighs.
    """

    indptr: np.ndarray
    neighbours: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray


def total(level: Level) -> int:
    return int(level.weights.sum()) if len(level.weights) > 1 else len(level.neighbours)


def contract(level: Level, labels: np.ndarray, count: int) -> Level:
    """The graph of clusters."""
    sizes = np.bincount(labels, level.sizes, count).astype(np.int32)
    members, starts = by_key(labels, count)
    indptr = np.zeros(count + 1, level.indptr.dtype)
    neighbours, weights = np.empty_like(level.neighbours), np.empty(max(2, len(level.neighbours)), np.int32)
    edges, _ = _merge(*level[:3], labels, members, starts, indptr, neighbours, weights)
    return Level(indptr, neighbours[:edges], weights[: max(2, edges)], sizes)  # what is not written takes no memory


def by_key(keys: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places in the order of their keys, those of one key as they come: int32 `[len(keys)]`, and where each key's begin, `[count + 1]`."""
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
    """Number labels from 0 in place; returns how many there are."""
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
def touch_neighbours(order, place, indptr, neighbours, labels):
    """As `state.touch`, of what an array says of the neighbours of the next nodes in an order."""
    seen = np.int64(0)
    for later in range(place, min(place + AHEAD, len(order))):
        v = order[later]
        for edge in range(indptr[v], indptr[v + 1]):
            seen ^= np.int64(labels[neighbours[edge]])
    return seen


@compiled
def _merge(indptr, neighbours, weights, labels, members, starts, out, targets, sums):
    """Write each cluster's edges, parallel ones as one; returns how many there are, and what was read ahead (`state.touch`)."""
    place_of, cursor = np.full(len(out) - 1, -1, indptr.dtype), np.int64(0)
    seen = np.int64(0)
    for cluster in range(len(out) - 1):
        first = cursor
        for place in range(starts[cluster], starts[cluster + 1]):
            if place % AHEAD == 0:
                seen ^= touch_neighbours(members, place, indptr, neighbours, labels)
            v = members[place]
            for edge in range(indptr[v], indptr[v + 1]):
                label = labels[neighbours[edge]]
                if label == cluster:
                    continue
                if place_of[label] < first:
                    place_of[label] = cursor
                    targets[cursor], sums[cursor] = label, 0
                    cursor += 1
                sums[place_of[label]] += weight(weights, edge)
        out[cluster + 1] = cursor
    return cursor, seen
