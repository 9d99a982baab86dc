"""Who owns what: meta-partitioning by the schema, edge-cuts of the nodes, their manifest and their report; no jax.

The package can be called: `hetjax.partition(graph, 4)` is `hetjax.partition.partition(graph, 4)`.
"""

import sys
from types import ModuleType

from hetjax.partition.cost import Workload
from hetjax.partition.edge_cut import EdgeCut, edge_cut
from hetjax.partition.manifest import open_part, read, save
from hetjax.partition.meta import partition
from hetjax.partition.meta_partitioning import MetaPartitioning, Part
from hetjax.partition.partitioning import Partitioning

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


class _Callable(ModuleType):
    """A module that is called as its function `partition` is."""

    def __call__(self, *args, **kwargs) -> MetaPartitioning:
        return self.partition(*args, **kwargs)

    __call__.__doc__ = partition.__doc__


sys.modules[__name__].__class__ = _Callable
