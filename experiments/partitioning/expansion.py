"""In-memory neighbourhood expansion, NE (Zhang, Wei, Liu, Tang and Li, KDD 2017), in plain Python: the reference for streams.

Partition by partition: a core grows by the node of the boundary with the fewest neighbours outside, whose edges that are left are
taken along, until the partition has `|E| / parts` edges; where the boundary is empty, a random node with edges left begins. Every
edge between two nodes of core and boundary belongs to the partition. The last partition has what is left.
"""

import heapq

import numpy as np


def expansion(pairs: np.ndarray, nodes: int, parts: int, seed: int = 0) -> np.ndarray:
    """Return the partition of every edge, int64 `[edges]`; the balance is that of the paper, alpha = 1.0, but for the last node's edges.

    Args:
      pairs: int32 `[edges, 2]`.
    """
    edges, found = len(pairs), np.full(len(pairs), parts - 1)
    ends = np.concatenate([pairs[:, 0], pairs[:, 1]])
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(nodes + 1)).tolist()
    number = (order % edges).tolist()
    first, second = pairs[:, 0].tolist(), pairs[:, 1].tolist()
    around = [
        [(e, second[e] if first[e] == v else first[e]) for e in number[starts[v] : starts[v + 1]]] for v in range(nodes)
    ]
    left, free = [len(one) for one in around], [True] * edges
    seeds, at = np.random.default_rng(seed).permutation(nodes).tolist(), 0
    for part in range(parts - 1):
        size, inside, core, heap = 0, set(), set(), []
        bound = edges / parts

        def take(v: int) -> None:
            """Move a node into the boundary: its edges to those inside are the partition's."""
            nonlocal size
            inside.add(v)
            for e, u in around[v]:
                if free[e] and u in inside:
                    free[e], found[e] = False, part
                    size += 1
                    left[u] -= 1
                    left[v] -= 1
                    if u != v and u not in core:
                        heapq.heappush(heap, (left[u], u))
            heapq.heappush(heap, (left[v], v))

        while size < bound:
            v = -1
            while heap:
                count, v = heapq.heappop(heap)
                if v not in core and count == left[v]:
                    break
                v = -1
            if v < 0:
                while at < nodes and left[seeds[at]] == 0:
                    at += 1
                if at == nodes:
                    break
                v = seeds[at]
                if v in core:
                    break
                if v not in inside:
                    take(v)
            core.add(v)
            for e, u in around[v]:
                if free[e] and u not in inside:
                    take(u)
                    if size >= bound:
                        break
    return found
