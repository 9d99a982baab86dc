"""Chunk-based partitioning: the node ids of every type are cut into contiguous ranges (Gemini, Zhu et al., OSDI 2016, section 4).

NeutronStar (SIGMOD 2022, section 3) divides its graphs so. A node weighs `alpha` plus its in-degree, over all relations
into its type, and the ranges of a type weigh nearly the same. Gemini's released code has `alpha = 8 (P - 1)` for `P`
partitions, a version of NeutronStar's `12 (P + 1)`: what a node costs those systems in messages, whatever the graph, so
that with many partitions edges hardly count. Here `alpha` is the mean in-degree of the type, so that its nodes and its
edges weigh alike in total. Then a range of the mean weight has at most `2 / P` of the nodes and at most `2 / P` of the
edges, for any `P`.

What else differs from Gemini: a range ends at the node where its weight is nearest to the mean of what is left, not before
it; no range is empty while there are nodes for all (Gemini's first ones are, where the first node weighs more than a
share); in-edges are counted, which lie with their target here; ranges are not aligned with pages of memory. Every type is
divided on its own, so that each partition has a share of all types.

Nothing is drawn. What comes of it depends on the ids alone: where near ids are near in the graph, as pages of a web crawl
are, few edges are cut; where ids are shuffled, as many as at random.
"""

import numpy as np

from hetjax.graph.hetgraph import HetGraph

MOST = 2**62  # a weight of all nodes that int64 holds


def contiguous(graph: HetGraph, parts: int) -> dict[str, np.ndarray]:
    """Cut the ids of every node type into ranges.

    Returns:
      Per type the first id of every range, and the end: int64 `[parts + 1]`, from 0 to the number of nodes.
    """
    return {name: ranges(cumulative(graph, name), parts) for name in graph.schema.nodes}


def cumulative(graph: HetGraph, node_type: str) -> np.ndarray:
    """Return what the nodes before each id weigh together: `[nodes + 1]`, int64, or float64 where that would overflow.

    A weight is multiplied by the number of nodes, so that all are whole numbers: `edges + nodes x in-degree`.
    """
    count = graph.schema.nodes[node_type]
    edges = np.zeros(count + 1, np.int64)
    for relation in graph.schema.into(node_type):
        edges += graph.relations[relation].indptr
    total = max(1, int(edges[-1]))  # nodes without edges weigh alike
    dtype = np.int64 if 2 * count * total < MOST else np.float64
    before = np.arange(count + 1).astype(dtype)
    return before * total + edges.astype(dtype) * count


def ranges(weights: np.ndarray, parts: int) -> np.ndarray:
    """Cut nodes into ranges, each nearest to the mean weight of those that are still to come; of two alike, the shorter.

    Args:
      weights: of the nodes before each id, together: `[nodes + 1]`, rising.

    Returns:
      int64 `[parts + 1]`. A range has at least a node if there are as many nodes as ranges; otherwise the first ranges
      have one each. The heaviest weighs at most the mean and `(2 + ln parts) / 2` times the heaviest node.
    """
    count = len(weights) - 1
    starts = np.zeros(parts + 1, np.int64)
    for part in range(parts):
        start, left = int(starts[part]), parts - part
        begins = weights[start].item()  # Python's integers, which do not overflow
        remaining = (weights[-1] - weights[start]).item()
        end = int(np.searchsorted(weights, begins + remaining // left, "right")) - 1
        if end < count and 2 * remaining > left * sum(weights[i].item() - begins for i in (end, end + 1)):
            end += 1
        starts[part + 1] = max(min(start + 1, count), min(end, count - left + 1))
    return starts
