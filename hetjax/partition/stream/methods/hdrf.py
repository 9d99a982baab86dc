"""HDRF: high-degree replicated first (Petroni, Querzoni, Daudjee, Kamali and Iacoboni, CIKM 2015), Algorithm 1.

An edge `(u, v)` goes to the partition `p` of the largest score

    g(u, p) + g(v, p) + lambda (most - |p|) / (1 + most - fewest)

of edges `most` and `fewest` in any partition, `g(u, p) = 1 + (1 - d(u) / (d(u) + d(v)))` where `p` has `u`, and 0 elsewhere;
`d` are the degrees as far as the stream has gone, this edge included, unless they are counted before. Of partitions that are
alike it is the one of the lowest number.
"""

import numpy as np

from hetjax.compiled import compiled
from hetjax.partition.stream.partitioner import Graph, Options, Partitioner
from hetjax.partition.stream.state import AHEAD, has, put, touch

EPSILON = 1.0


class Hdrf(Partitioner):
    """High-degree replicated first."""

    name = "hdrf"
    estimates = True

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimate = self.estimated(options)
        self.degrees = np.zeros(graph.nodes, np.uint32) if self.estimate else graph.degrees

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        weight = float(self.options.weight)
        _place(pairs, self.degrees, self.estimate, weight, 2**62, self.replicas, self.loads, out)


@compiled
def best_part(u, v, degrees, weight, bound, replicas, loads, most, fewest):
    """The partition of the largest score among those of fewer than `bound` edges."""
    d_u, d_v = np.float64(degrees[u]), np.float64(degrees[v])
    g_u, g_v = 1 + (1 - d_u / (d_u + d_v)), 1 + (1 - d_v / (d_u + d_v))
    best, largest = -1, -1.0
    for part in range(len(loads)):
        if loads[part] < bound:
            score = g_u * has(replicas, u, part) + g_v * has(replicas, v, part)
            score += weight * (most - loads[part]) / (EPSILON + most - fewest)
            if score > largest:
                best, largest = part, score
    return best


@compiled
def _place(pairs, degrees, estimate, weight, bound, replicas, loads, out):
    most, fewest = loads.max(), loads.min()
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, degrees) ^ touch(pairs, edge, replicas[:, 0])
        u, v = pairs[edge, 0], pairs[edge, 1]
        if estimate:
            degrees[u] += 1
            degrees[v] += 1
        part = best_part(u, v, degrees, weight, bound, replicas, loads, most, fewest)
        out[edge] = part
        put(replicas, loads, u, v, part)
        most = max(most, loads[part])
        if loads[part] == fewest + 1:
            fewest = loads.min()
    return seen
