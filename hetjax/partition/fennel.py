"""Fennel: streaming edge-cuts (Tsourakakis et al., WSDM 2014), one pass over the nodes.

The node `v` goes to the partition `i` that makes

    |N(v) and S_i| - alpha gamma |S_i| ** (gamma - 1)

largest, `S_i` being the nodes that are there already, `N(v)` its neighbours in the graph made homogeneous. The paper's
parameters: `gamma = 1.5`, `alpha = sqrt(k) m / n ** 1.5` for `n` nodes, `m` edges and `k` partitions, and the load limit
`nu = 1.1`. Of partitions that are alike the smaller is taken, then the lower number. The order of the stream is random
and seeded, so that nothing depends on the ids.

Deviation: the load limit holds for every node type, `|S_i of the type| <= nu n_type / k` (and never under the mean, rounded
up), and so for all nodes but for what is rounded. The paper's limit is for all nodes alone. It lets a type gather, the seeds' too: on
a synthetic ogbn-mag in 8, a partition gets 1.6 times the mean of the training nodes (`experiments/partitioning/edge_cuts.py`). On a graph
of one type there is no difference.
"""

import math
from collections.abc import Sequence

import numpy as np

from hetjax.system.compiled import compiled

GAMMA, LOAD = 1.5, (11, 10)  # nu, as a fraction: its limits are whole numbers


def fennel(
    indptr: np.ndarray, neighbours: np.ndarray, counts: Sequence[int], parts: int, order: np.ndarray
) -> np.ndarray:
    """Partition a graph made homogeneous.

    Args:
      indptr, neighbours: as `homogeneous` gives them.
      counts: nodes of every type, whose numbers follow each other.
      parts: number of partitions.
      order: of the stream: the numbers of all nodes, int64 `[nodes]`.

    Returns:
      The partition of every node, uint8 `[nodes]`. Time is edges + nodes x parts.
    """
    nodes, edges = len(indptr) - 1, len(neighbours) // 2
    ends = np.cumsum(np.asarray(counts, np.int64))
    owners = np.full(nodes, parts, np.uint8)  # what is no partition: not placed yet
    price = penalty(nodes, edges, parts)
    _stream(indptr, neighbours, order, ends, limits(counts, parts), price, owners)
    return owners


def random_order(nodes: int, seed: int) -> np.ndarray:
    """Return all nodes in a random order: int64 `[nodes]`."""
    return np.random.Generator(np.random.Philox(seed)).permutation(nodes)


def penalty(nodes: int, edges: int, parts: int) -> float:
    """Return `alpha gamma`, the factor of `sqrt(|S_i|)`."""
    return math.sqrt(parts) * edges / nodes**1.5 * GAMMA


def limits(counts: Sequence[int], parts: int) -> np.ndarray:
    """Return the most nodes of every type that a partition may have; int64 `[types]`."""
    up, down = LOAD
    return np.array([max(up * count // (down * parts), -(-count // parts)) for count in counts], np.int64)


@compiled
def _stream(indptr, neighbours, order, ends, limits, price, owners):
    parts = np.int64(owners[0])
    total = np.zeros(parts, np.int64)
    sizes = np.zeros((len(ends), parts), np.int64)
    shared = np.zeros(parts + 1, np.int64)  # the last: neighbours that are still to come
    for v in order:
        kind = np.searchsorted(ends, v, side="right")
        shared[:] = 0
        for place in range(indptr[v], indptr[v + 1]):
            shared[owners[neighbours[place]]] += 1
        best, most = -1, 0.0
        for part in range(parts):
            if sizes[kind, part] < limits[kind]:
                score = shared[part] - price * math.sqrt(total[part])
                if best < 0 or score > most or (score == most and total[part] < total[best]):
                    best, most = part, score
        owners[v] = best
        total[best] += 1
        sizes[kind, best] += 1
