"""HDRF: high-degree replicated first (Petroni, Querzoni, Daudjee, Kamali and Iacoboni, CIKM 2015), Algorithm 1.

An edge `(u, v)` goes to the partition `p` of the largest score

    g(u, p) + g(v, p) + lambda (most - |p|) / (1 + most - fewest)

of edges `most` and `fewest` in any partition, `g(u, p) = 1 + (1 - d(u) / (d(u) + d(v)))` where `p` has `u`, and 0 elsewhere;
`d` are the degrees as far as the stream has gone, this edge included, unless they are counted before. Of partitions that are
alike it is the one of the lowest number.
"""

import numpy as np

from hetjax.partition.stream.partitioner import Graph, Options, Partitioner
from hetjax.partition.stream.state import AHEAD, ONE, WORD, lowest, put, touch
from hetjax.system.compiled import compiled

EPSILON = (
    1.0  # no score divides by zero, so kernels need not look (`error_model`), and may divide several numbers at once
)


class Hdrf(Partitioner):
    """High-degree replicated first."""

    name = "hdrf"
    takes = frozenset({"seed", "weight"})
    estimates = True

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimate = self.estimated(options)
        self.degrees = np.zeros(graph.nodes, np.uint32) if self.estimate else graph.degrees

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        weight = float(self.options.weight)
        _place(pairs, self.degrees, self.estimate, weight, 2**62, self.replicas, self.loads, out)


@compiled
def best_part(d_u, d_v, u, v, replicas, balance, light):
    """Return the partition of the largest score, -1 if all are full.

    Args:
      d_u, d_v: degrees of the ends.
      balance: the third term of every partition's score, as `weigh` makes it.
      light: whether the weight is at most 1. Then this term is below 1, and as `g` is at least 1 for an end, and 3 for both, partitions
        with both ends are ahead of those with one, and these of all others; so few are looked at.
    """
    d_u, d_v = np.float64(d_u), np.float64(d_v)
    g_u, g_v = 1 + (1 - d_u / (d_u + d_v)), 1 + (1 - d_v / (d_u + d_v))
    best, largest = -1, -1.0
    if light:
        for word in range(replicas.shape[1]):
            both = replicas[u, word] & replicas[v, word]
            while both:
                part = WORD * word + lowest(both)
                both &= both - ONE
                score = g_u + g_v + balance[part]
                if score > largest:
                    best, largest = part, score
        if best >= 0:
            return best
        for word in range(replicas.shape[1]):
            has_u = replicas[u, word]
            either = has_u ^ replicas[v, word]
            while either:
                bit = lowest(either)
                part = WORD * word + bit
                either &= either - ONE
                score = (g_u if (has_u >> np.uint64(bit)) & ONE else g_v) + balance[part]
                if score > largest:
                    best, largest = part, score
        if best >= 0:
            return best
    for word in range(replicas.shape[1]):
        has_u, has_v = replicas[u, word], replicas[v, word]
        for part in range(WORD * word, min(WORD * (word + 1), len(balance))):
            score = (g_u if has_u & ONE else 0.0) + (g_v if has_v & ONE else 0.0) + balance[part]
            has_u, has_v = has_u >> ONE, has_v >> ONE
            if score > largest:
                best, largest = part, score
    return best


@compiled
def weigh(loads, weight, bound, balance):
    """Set `balance`, float64 `[parts]`, minus infinity where a partition has `bound` edges; return the most and the fewest of any."""
    most, fewest = loads.max(), loads.min()
    _weigh(loads, weight, bound, balance, most, fewest)
    return most, fewest


@compiled
def weigh_again(part, loads, weight, bound, balance, most, fewest):
    """Set `balance` as `weigh` does, when a partition has one edge more than it had."""
    now_most, now_fewest = max(most, loads[part]), fewest
    if loads[part] == fewest + 1:
        now_fewest = _fewest(loads)
    if now_most != most or now_fewest != fewest:
        _weigh(loads, weight, bound, balance, now_most, now_fewest)
    else:
        balance[part] = _term(loads[part], weight, bound, most, EPSILON + most - fewest)
    return now_most, now_fewest


@compiled
def _fewest(loads):
    fewest = loads[0]
    for load in loads:
        fewest = min(fewest, load)
    return fewest


@compiled(error_model="numpy")
def _weigh(loads, weight, bound, balance, most, fewest):
    span = EPSILON + most - fewest
    for part in range(len(loads)):
        balance[part] = _term(loads[part], weight, bound, most, span)


@compiled(error_model="numpy")
def _term(load, weight, bound, most, span):
    return -np.inf if load >= bound else weight * (most - load) / span


@compiled
def _place(pairs, degrees, estimate, weight, bound, replicas, loads, out):
    balance = np.empty(len(loads))
    most, fewest = weigh(loads, weight, bound, balance)
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, degrees) ^ touch(pairs, edge, replicas[:, 0])
        u, v = pairs[edge, 0], pairs[edge, 1]
        if estimate:
            degrees[u] += 1
            degrees[v] += 1
        part = best_part(degrees[u], degrees[v], u, v, replicas, balance, weight <= 1)
        out[edge] = part
        put(replicas, loads, u, v, part)
        most, fewest = weigh_again(part, loads, weight, bound, balance, most, fewest)
    return seen
