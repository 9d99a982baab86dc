"""2PS-L: two-phase streaming at linear run-time (Mayer, Orujzade and Jacobsen, ICDE 2022).

Phase 1 clusters the stream as Hollocou et al. do, but compares volumes without the node itself, and moves a node only where the
cluster stays within `2 |E| / parts` (`volume` scales it). Then the clusters, that of the largest volume first, go to the
partition of the least volume. Phase 2 places edges, in two passes: first those within a partition; then every other one in the
partition of either end's cluster, by a score as HDRF's with the clusters' volumes in place of loads:

    g(u, p) + g(v, p) + s(u, p) + s(v, p)

`s(u, p) = vol(c_u) / (vol(c_u) + vol(c_v))` where the cluster of `u` lies in `p`, and 0 elsewhere; `g` as in `hdrf`, by degrees that
are counted. If that partition has `balance * edges / parts` edges already, the edge goes by the hash of its end of higher degree,
and, if that one is full as well, to the one with the fewest.

Here edges are written in one pass, so the first pass of phase 2 only counts, and is played again beside the second, edge by edge.
Of ends or partitions that are alike the first is taken, as the authors' code does where it says so.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from hetjax.partition.stream.methods.clustering import Clusters, enter, largest_volume
from hetjax.partition.stream.partitioner import Graph, Options, Partitioner, Pass
from hetjax.partition.stream.state import AHEAD, has, hashed, least, mark, touch, touch_behind
from hetjax.system.compiled import compiled

VOLUME = 2.0


class TwoPhase(Partitioner):
    """Two-phase streaming."""

    name = "2ps-l"
    takes = frozenset({"seed", "balance", "volume"})
    learns = ("clusters", "edges within")

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimated(options)
        self.most = largest_volume(graph, options, VOLUME)
        assert graph.edges is not None
        self.bound = options.balance * graph.edges / options.parts
        self.within = np.zeros(
            options.parts, np.int64
        )  # edges within a partition that are placed, as they are played again

    def learn(self) -> Iterator[Pass]:
        clusters, degrees = Clusters(self.graph.nodes), self.graph.degrees
        yield partial(_cluster, degrees=degrees, most=self.most, **vars(clusters))
        self.of, self.volumes = clusters.of, clusters.volumes[: clusters.count[0] + 1].copy()
        del clusters
        order = 1 + np.argsort(-self.volumes[1:], kind="stable")
        self.part_of = np.zeros(len(self.volumes), np.uint16)
        _schedule(self.volumes, order, np.zeros(self.options.parts, np.int64), self.part_of)
        seed = self.options.seed
        yield lambda pairs: _within(pairs, degrees, self.of, self.part_of, self.bound, seed, self.replicas, self.loads)

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        where = self.of, self.part_of, self.volumes
        loads = self.within, self.loads
        _place(pairs, self.graph.degrees, where, self.bound, self.options.seed, self.replicas, loads, out)


@compiled
def _cluster(pairs, degrees, most, of, volumes, count):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch_behind(pairs, edge, of, volumes) ^ touch(pairs, edge, degrees)
        u, v = pairs[edge, 0], pairs[edge, 1]
        enter(u, degrees, of, volumes, count)
        enter(v, degrees, of, volumes, count)
        if of[u] != of[v] and volumes[of[u]] <= most and volumes[of[v]] <= most:
            small, large = u, v
            if volumes[of[v]] - degrees[v] < volumes[of[u]] - degrees[u]:
                small, large = v, u
            if volumes[of[large]] + degrees[small] <= most:
                volumes[of[small]] -= degrees[small]
                volumes[of[large]] += degrees[small]
                of[small] = of[large]
    return seen


@compiled
def _schedule(volumes, order, totals, part_of):
    for cluster in order:
        if volumes[cluster]:
            part = least(totals)
            part_of[cluster] = part
            totals[part] += volumes[cluster]


@compiled
def _fallback(part, u, v, degrees, bound, seed, loads):
    """Return the partition, or where an edge goes if it is full."""
    if loads[part] >= bound:
        part = hashed(u if degrees[u] >= degrees[v] else v, seed) % len(loads)
        if loads[part] >= bound:
            part = least(loads)
    return part


@compiled
def _within(pairs, degrees, of, part_of, bound, seed, replicas, loads):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= (
                touch_behind(pairs, edge, of, part_of)
                ^ touch(pairs, edge, degrees)
                ^ touch(pairs, edge, replicas[:, 0])
            )
        u, v = pairs[edge, 0], pairs[edge, 1]
        if part_of[of[u]] == part_of[of[v]]:
            part = _fallback(np.int64(part_of[of[u]]), u, v, degrees, bound, seed, loads)
            mark(replicas, u, part)
            mark(replicas, v, part)
            loads[part] += 1
    return seen


@compiled
def _score(u, v, a, b, part, degrees, volumes, part_of, replicas):
    d_u, d_v = np.float64(degrees[u]), np.float64(degrees[v])
    vol_u, vol_v = np.float64(volumes[a]), np.float64(volumes[b])
    score = 0.0
    if has(replicas, u, part):
        score += 1 + (1 - d_u / (d_u + d_v))
    if has(replicas, v, part):
        score += 1 + (1 - d_v / (d_u + d_v))
    if part_of[a] == part:
        score += vol_u / (vol_u + vol_v)
    if part_of[b] == part:
        score += vol_v / (vol_u + vol_v)
    return score


@compiled
def _place(pairs, degrees, where, bound, seed, replicas, both, out):
    (of, part_of, volumes), (within, loads) = where, both
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= (
                touch_behind(pairs, edge, of, part_of)
                ^ touch(pairs, edge, degrees)
                ^ touch(pairs, edge, replicas[:, 0])
            )
        u, v = pairs[edge, 0], pairs[edge, 1]
        a, b = of[u], of[v]
        if part_of[a] == part_of[b]:
            part = _fallback(np.int64(part_of[a]), u, v, degrees, bound, seed, within)
            within[part] += 1
        else:
            part, other = np.int64(part_of[a]), np.int64(part_of[b])
            first = _score(u, v, a, b, part, degrees, volumes, part_of, replicas)
            if _score(u, v, a, b, other, degrees, volumes, part_of, replicas) > first:
                part = other
            part = _fallback(part, u, v, degrees, bound, seed, loads)
            mark(replicas, u, part)
            mark(replicas, v, part)
            loads[part] += 1
        out[edge] = part
    return seen
