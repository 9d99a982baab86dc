"""Partitioning of a stream of edges, in memory that grows with the nodes and not with the edges; no jax.

CATGNN's way (Huang et al., section 3.2): a graph that does not fit in memory is read edge by edge, as often as a method asks for,
and every edge goes to a partition. `methods` has a file per method, `source` what can be read.
"""

from hetjax.partition.stream.partitioner import Graph, Options, Partitioner
from hetjax.partition.stream.run import Streamed, partition_stream
from hetjax.partition.stream.source import EdgeStream, Held, open_stream

__all__ = ["EdgeStream", "Graph", "Held", "Options", "Partitioner", "Streamed", "open_stream", "partition_stream"]
