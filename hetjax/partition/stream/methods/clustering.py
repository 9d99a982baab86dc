"""Clustering of a stream (Hollocou, Maudet, Bonald and Lelarge, 2017), and clusters into partitions by sorted list scheduling.

A node starts in a cluster of its own when its first edge comes. An edge between clusters of volumes (sums of degrees) of at most
`most` moves its end in the cluster of the smaller volume, the first if they are alike, into the other. Lines 3 to 17 of CATGNN's
Algorithm 1 say the same.

`volume` is `most` by the mean edges of a partition. The papers print no number; 0.1 is what the authors of CATGNN released.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from hetjax.partition.stream.partitioner import Graph, Options, Partitioner, Pass
from hetjax.partition.stream.state import AHEAD, least, part_dtype, put, touch, touch_behind
from hetjax.system.compiled import compiled

VOLUME = 0.1


class Clusters:
    """The cluster of every node, from 1; 0 before its first edge comes.

    Attributes:
      of: int32 `[nodes]`.
      volumes: int64 `[nodes + 1]`, of every cluster the sum of its nodes' degrees.
      count: int64 `[1]`, how many were made; some may be empty again.
    """

    def __init__(self, nodes: int):
        self.of, self.volumes, self.count = (
            np.zeros(nodes, np.int32),
            np.zeros(nodes + 1, np.int64),
            np.zeros(1, np.int64),
        )

    def sizes(self) -> np.ndarray:
        """Return the number of nodes of every cluster, int64 `[count + 1]`; those that are in none count in 0."""
        return np.bincount(self.of, minlength=self.count[0] + 1)


class Divided(Partitioner):
    """A method that divides the nodes. An edge between two partitions goes to that of its end of lower degree.

    Of ends of one degree it is the second's, as in DBH. With full neighbours it goes to the other one too.
    """

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        _place(pairs, self.graph.degrees, self.owners, self.replicas, self.loads, out)


class Clustering(Divided):
    """A method that divides the nodes by the clusters of the stream."""

    learns = ("clusters",)

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimated(options)
        self.most = largest_volume(graph, options, VOLUME)


class Hollocou(Clustering):
    """Clusters, the largest first, each to the partition of the fewest nodes."""

    name = "hollocou"
    takes = frozenset({"volume"})

    def learn(self) -> Iterator[Pass]:
        clusters = Clusters(self.graph.nodes)
        yield partial(_cluster, degrees=self.graph.degrees, most=self.most, **vars(clusters))
        self.owners = schedule(clusters.of, clusters.sizes(), self.options.parts)


def largest_volume(graph: Graph, options: Options, default: float) -> float:
    """Return `most` of a graph whose edges are counted."""
    assert graph.edges is not None
    return (options.volume or default) * graph.edges / options.parts


def schedule(clusters: np.ndarray, sizes: np.ndarray, parts: int) -> np.ndarray:
    """Assign clusters to partitions (Graham 1969): the largest first, each to the partition of the fewest nodes.

    Of clusters that are alike the one of the lowest number is first; nodes in no cluster come last, one by one.

    Args:
      clusters: of every node, int32 `[nodes]`, 0 for none.
      sizes: nodes of every cluster, int64 `[clusters + 1]`.

    Returns:
      The partition of every node, of `part_dtype`, `[nodes]`.
    """
    order = 1 + np.argsort(-sizes[1:], kind="stable")
    part_of = np.zeros(len(sizes), np.int64)
    owners = np.empty(len(clusters), part_dtype(parts))
    _schedule(clusters, sizes, order, part_of, np.zeros(parts, np.int64), owners)
    return owners


@compiled
def _schedule(clusters, sizes, order, part_of, totals, owners):
    for cluster in order:
        if sizes[cluster]:
            part = least(totals)
            part_of[cluster] = part
            totals[part] += sizes[cluster]
    for node in range(len(clusters)):
        if clusters[node]:
            owners[node] = part_of[clusters[node]]
        else:
            part = least(totals)
            owners[node] = part
            totals[part] += 1


@compiled
def enter(u, degrees, of, volumes, count):
    """Give a node a cluster, if it has none."""
    if of[u] == 0:
        count[0] += 1
        of[u] = count[0]
        volumes[count[0]] = degrees[u]


@compiled
def join(u, v, degrees, most, of, volumes, count):
    """Update clusters by an edge."""
    enter(u, degrees, of, volumes, count)
    enter(v, degrees, of, volumes, count)
    a, b = of[u], of[v]
    if a != b and volumes[a] <= most and volumes[b] <= most:
        if volumes[a] <= volumes[b]:
            volumes[a] -= degrees[u]
            volumes[b] += degrees[u]
            of[u] = b
        else:
            volumes[a] += degrees[v]
            volumes[b] -= degrees[v]
            of[v] = a


@compiled
def _cluster(pairs, degrees, most, of, volumes, count):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, degrees) ^ touch_behind(pairs, edge, of, volumes)
        u, v = pairs[edge, 0], pairs[edge, 1]
        join(u, v, degrees, most, of, volumes, count)
    return seen


@compiled
def _place(pairs, degrees, owners, replicas, loads, out):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, degrees) ^ touch(pairs, edge, owners) ^ touch(pairs, edge, replicas[:, 0])
        u, v = pairs[edge, 0], pairs[edge, 1]
        part = np.int64(owners[u] if degrees[u] < degrees[v] else owners[v])
        out[edge] = part
        put(replicas, loads, u, v, part)
    return seen
