"""DBH: degree-based hashing (Xie, Yan, Li and Zhang, NIPS 2014), Algorithm 1; Libra is another name.

An edge goes where the hash of its end of lower degree says: nodes of high degree are cut, the others stay whole.
Of ends of one degree it is the second, as the paper's comparison is strict.
"""

import numpy as np

from hetjax.partition.stream.partitioner import Graph, Options, Partitioner
from hetjax.partition.stream.state import AHEAD, hashed, put, touch
from hetjax.system.compiled import compiled


class Dbh(Partitioner):
    """Degree-based hashing."""

    name = "dbh"
    takes = frozenset({"seed"})
    estimates = False

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimate = self.estimated(options)
        self.degrees = np.zeros(graph.nodes, np.uint32) if self.estimate else graph.degrees

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        _place(pairs, self.degrees, self.estimate, self.options.seed, self.replicas, self.loads, out)


@compiled
def _place(pairs, degrees, estimate, seed, replicas, loads, out):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, degrees) ^ touch(pairs, edge, replicas[:, 0])
        u, v = pairs[edge, 0], pairs[edge, 1]
        if estimate:
            degrees[u] += 1
            degrees[v] += 1
        part = hashed(u if degrees[u] < degrees[v] else v, seed) % len(loads)
        out[edge] = part
        put(replicas, loads, u, v, part)
    return seen
