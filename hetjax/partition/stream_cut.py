"""The partition that trains each node, as a partitioning of the stream of a graph's edges has it (CATGNN, section 3.2)."""

from typing import Any, ClassVar

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.homogeneous import split
from hetjax.graph.sizes import sizes
from hetjax.partition.checks import is_whole, require
from hetjax.partition.edge_cut import MOST_PARTS, PART, EdgeCut
from hetjax.partition.stream.partitioner import Options
from hetjax.partition.stream.registry import BUILT_IN
from hetjax.partition.stream.run import partition_stream
from hetjax.partition.stream.source import Relations
from hetjax.system.errors import InputError


class StreamCut(EdgeCut):
    """A vertex-cut: edges were divided, and of the partitions that have a node's edges one trains it."""

    methods: ClassVar[tuple[str, ...]] = tuple(BUILT_IN)


def stream_cut(graph: HetGraph, parts: int, method: str, seed: int = 0, **expected: Any) -> StreamCut:
    """Put every node into one of `parts` partitions, by the stream of all edges, relation by relation, with ids made global.

    Args:
      method: one of `StreamCut.methods`.
      seed: of whatever the method draws.
      **expected: what costs are expected of, `hops` and so on, as in `EdgeCut`.

    Raises:
      InputError: another method, more partitions than nodes or than `MOST_PARTS`, or no edges.
    """
    require(is_whole(parts), "parts", parts, "a whole number")
    count = sum(graph.schema.nodes.values())
    if not 1 <= parts <= min(MOST_PARTS, count):
        raise InputError(f"{parts} partitions of {count} nodes, outside 1..{min(MOST_PARTS, count)}")
    if method not in BUILT_IN:
        raise InputError(f"method {method!r}, and a stream is divided by one of {', '.join(BUILT_IN)}")
    owners = partition_stream(Relations(graph), BUILT_IN[method], Options(parts, seed), count).owners
    nodes = split(graph.schema, owners.astype(PART))
    return StreamCut(sizes(graph), nodes, parts, method, **expected)
