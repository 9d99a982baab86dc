"""SPRING: streaming partitioning based on richest neighbours (CATGNN, Huang et al., Algorithm 1).

1. Clusters as Hollocou's, and every node's richest neighbour: that of the highest degree, of those alike the first that came.
2. The representative of a cluster is the node whose richest neighbour has the highest degree, of those alike the lowest number.
   From the smallest cluster on, each is merged into the one that its representative's richest neighbour is in, if that is
   another one and both together have at most `balance * nodes / parts` nodes. A cluster that grew is placed in the order anew, and
   so is looked at again (section 4.2). Of clusters of one size the one of the lowest number is first.
3. Sorted list scheduling.

`balance` is the paper's beta, 1.05. As in the paper it bounds clusters that are merged and no partition: a partition may end with
more, and the report says how many. Deviation: none that is known; the volume's default is that of `clustering`.
"""

import heapq
from collections.abc import Iterator
from functools import partial

import numpy as np

from hetjax.partition.stream.methods.clustering import Clustering, Clusters, join, schedule
from hetjax.partition.stream.partitioner import Pass
from hetjax.partition.stream.state import AHEAD, touch, touch_behind
from hetjax.system.compiled import compiled


class Spring(Clustering):
    """Streaming partitioning based on richest neighbours; `about` counts clusters before and after they are merged."""

    name = "spring"
    takes = frozenset({"balance", "volume"})

    def learn(self) -> Iterator[Pass]:
        clusters, degrees, nodes = Clusters(self.graph.nodes), self.graph.degrees, self.graph.nodes
        richest = np.full(nodes, -1, np.int32)
        yield partial(_learn, degrees=degrees, most=self.most, richest=richest, **vars(clusters))
        del clusters.volumes
        sizes = clusters.sizes()
        self.about["clusters"] = int(np.count_nonzero(sizes[1:]))
        bound = self.options.balance * nodes / self.options.parts
        _merge(clusters.of, sizes, richest, degrees, bound)
        self.about["merged_clusters"] = int(np.count_nonzero(sizes[1:]))
        self.owners = schedule(clusters.of, sizes, self.options.parts)


@compiled
def _richer(u, v, degrees, richest):
    """Return whether `v` has a higher degree than the richest neighbour of `u` so far."""
    return richest[u] < 0 or degrees[richest[u]] < degrees[v]


@compiled
def _learn(pairs, degrees, most, of, volumes, count, richest):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= (
                touch_behind(pairs, edge, of, volumes)
                ^ touch_behind(pairs, edge, richest, degrees)
                ^ touch(pairs, edge, degrees)
            )
        u, v = pairs[edge, 0], pairs[edge, 1]
        join(u, v, degrees, most, of, volumes, count)
        if _richer(u, v, degrees, richest):
            richest[u] = v
        if _richer(v, u, degrees, richest):
            richest[v] = u
    return seen


@compiled
def _root(parent, cluster):
    """Return the cluster that a cluster has become part of."""
    while parent[cluster] != cluster:
        parent[cluster] = parent[parent[cluster]]
        cluster = parent[cluster]
    return cluster


@compiled
def _represent(of, richest, degrees, clusters):
    """Return the representative of every cluster, int32 `[clusters]`; -1 of an empty one."""
    chosen = np.full(clusters, -1, np.int32)
    for v in range(len(of)):
        r = chosen[of[v]]
        if of[v] and (r < 0 or degrees[richest[r]] < degrees[richest[v]]):
            chosen[of[v]] = v
    return chosen


@compiled
def _merge(of, sizes, richest, degrees, bound):
    """Merge clusters in place: `of` and `sizes`, whose zeros are clusters that are no more.

    Clusters wait in a sorted array; those that grew, in a heap beside it. A key is `size << 32 | cluster`.
    """
    chosen = _represent(of, richest, degrees, len(sizes))
    parent = np.arange(len(sizes)).astype(np.int32)
    waiting = np.sort((sizes[1:] << 32) | np.arange(1, len(sizes)))
    grown, at = [np.int64(0)], 0
    heapq.heappop(grown)
    while at < len(waiting) or len(grown):
        if len(grown) and (at == len(waiting) or grown[0] < waiting[at]):
            key = heapq.heappop(grown)
        else:
            key, at = waiting[at], at + 1
        cluster = key & 0xFFFFFFFF
        if sizes[cluster] == key >> 32 and sizes[cluster] > 0:  # neither merged nor grown since
            target = _root(parent, of[richest[chosen[cluster]]])
            if target != cluster and sizes[cluster] + sizes[target] <= bound:
                parent[cluster] = target
                sizes[target] += sizes[cluster]
                sizes[cluster] = 0
                a, b = chosen[cluster], chosen[target]
                d_a, d_b = degrees[richest[a]], degrees[richest[b]]
                if d_a > d_b or (d_a == d_b and a < b):
                    chosen[target] = a
                heapq.heappush(grown, np.int64((sizes[target] << 32) | target))
    for v in range(len(of)):
        of[v] = _root(parent, of[v])
