"""Division of a graph: meta-partitioning by the schema, edge-cuts of the nodes, their manifest and their report; no jax.

The package can be called: `hetjax.partition(graph, 4)` is `hetjax.partition.partition(graph, 4)`.
"""

from hetjax.partition.cost import Workload
from hetjax.partition.edge_cut import EdgeCut, edge_cut
from hetjax.partition.manifest import open_part, read, save
from hetjax.partition.meta import partition
from hetjax.partition.meta_partitioning import MetaPartitioning, Part
from hetjax.partition.partitioning import Partitioning
from hetjax.system.callables import call_as

__all__ = [
    "EdgeCut",
    "MetaPartitioning",
    "Part",
    "Partitioning",
    "Workload",
    "edge_cut",
    "open_part",
    "partition",
    "read",
    "save",
]

call_as(__name__, "hetjax.partition.meta", "partition", partition.__doc__)
