"""PowerGraph's greedy vertex-cut (Gonzalez, Low, Gu, Bickson and Guestrin, OSDI 2012), section 4.2.1.

An edge goes to the least loaded of the partitions that

1. have both ends, if any has;
2. have the end with more edges that are not placed yet (the first of two that are alike), if both ends are somewhere;
3. have the one end that is somewhere;
4. there are, if neither end is anywhere.

Of partitions that are alike it is the one of the lowest number. There is no bound on loads, as in the paper.
"""

import numpy as np

from hetjax.partition.stream.partitioner import Graph, Options, Partitioner
from hetjax.partition.stream.state import AHEAD, has, put, touch
from hetjax.system.compiled import compiled


class Greedy(Partitioner):
    """PowerGraph's greedy placement."""

    name = "greedy"
    takes = frozenset({"seed"})

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimated(options)
        assert graph.degrees is not None
        self.left = graph.degrees.copy()  # edges that are not placed yet, by node

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        _place(pairs, self.left, self.replicas, self.loads, out)


@compiled
def _anywhere(replicas, node):
    bits = np.uint64(0)
    for word in range(replicas.shape[1]):
        bits |= replicas[node, word]
    return bits != 0


@compiled
def _common(replicas, u, v):
    bits = np.uint64(0)
    for word in range(replicas.shape[1]):
        bits |= replicas[u, word] & replicas[v, word]
    return bits != 0


@compiled
def _place(pairs, left, replicas, loads, out):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, left) ^ touch(pairs, edge, replicas[:, 0])
        u, v = pairs[edge, 0], pairs[edge, 1]
        of_u, of_v = _anywhere(replicas, u), _anywhere(replicas, v)
        if of_u and of_v and not _common(replicas, u, v):
            of_u = left[u] >= left[v]
            of_v = not of_u
        best = -1
        for part in range(len(loads)):
            fits = (not of_u or has(replicas, u, part)) and (not of_v or has(replicas, v, part))
            if fits and (best < 0 or loads[part] < loads[best]):
                best = part
        left[u] -= 1
        left[v] -= 1
        out[edge] = best
        put(replicas, loads, u, v, best)
    return seen
