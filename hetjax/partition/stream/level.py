"""The graph of one level of multilevel partitioning, and that of its clusters."""

from typing import NamedTuple

import numpy as np

from hetjax.compiled import compiled


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
    members = np.argsort(labels, kind="stable").astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=count))])
    indptr = np.zeros(count + 1, level.indptr.dtype)
    _count_edges(level.indptr, level.neighbours, labels, members, starts, indptr)
    np.cumsum(indptr, out=indptr)
    neighbours, weights = np.empty(indptr[-1], np.int32), np.empty(max(2, indptr[-1]), np.int32)
    _put_edges(*level[:3], labels, members, starts, indptr, neighbours, weights)
    return Level(indptr, neighbours, weights, sizes)


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
def _count_edges(indptr, neighbours, labels, members, starts, out):
    last = np.full(len(out) - 1, -1, np.int32)
    for cluster in range(len(out) - 1):
        last[cluster] = cluster
        for place in range(starts[cluster], starts[cluster + 1]):
            v = members[place]
            for edge in range(indptr[v], indptr[v + 1]):
                label = labels[neighbours[edge]]
                if last[label] != cluster:
                    last[label] = cluster
                    out[cluster + 1] += 1


@compiled
def _put_edges(indptr, neighbours, weights, labels, members, starts, out, targets, sums):
    place_of = np.full(len(out) - 1, -1, np.int64)
    for cluster in range(len(out) - 1):
        first = cursor = out[cluster]
        for place in range(starts[cluster], starts[cluster + 1]):
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
