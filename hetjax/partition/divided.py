"""A graph that `python -m hetjax.partition --stream ... --out` divided: which partition trains which node, and what every partition was given."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.homogeneous import offsets, split
from hetjax.graph.sizes import sizes
from hetjax.partition.edge_cut import PART
from hetjax.partition.stream import folder
from hetjax.partition.stream_cut import StreamCut
from hetjax.system.errors import InputError


class PartitionContent(NamedTuple):
    """The nodes and edges that a partition was given.

    Attributes:
      nodes: per type the ids of its nodes, int32, rising.
      trained: likewise, of those that it trains.
      features: of types of a store the rows of these nodes, mapped.
    """

    nodes: Mapping[str, np.ndarray]
    trained: Mapping[str, np.ndarray]
    features: Mapping[str, np.ndarray]


class Divided:
    """The folder, of a graph.

    Args:
      path: of the folder.
      graph: that was divided, whatever a model has added to its edges.

    Attributes:
      sizes: of the graph.
      parts, hops, method: as the manifest says.

    Raises:
      InputError: as `stream.folder.read`; or it is of another graph, or of a direction of edges that averaging does not know.
    """

    def __init__(self, path: str | os.PathLike, graph: HetGraph):
        self.path, self.schema, self.sizes = path, graph.schema, sizes(graph)
        manifest, self._owners = folder.read(path)
        self.parts, self.hops, self.method = manifest["parts"], manifest["hops"], manifest["method"]
        count, start = sum(graph.schema.nodes.values()), offsets(graph.schema.nodes)
        if len(self._owners) != count:
            raise InputError(f"{path}: {len(self._owners)} nodes were divided != {count} of the graph")
        if "types" in manifest and manifest["types"] != start:
            raise InputError(f"{path}: types begin at {manifest['types']} != {start} of the graph")
        if manifest["directed"]:
            raise InputError(f"{path}: divided with directed true, and its partitions lack edges that are trained on")

    def cut(self, **expected: Any) -> StreamCut:
        """Return which partition trains which node; `expected` is as of `stream_cut`."""
        nodes = split(self.schema, self._owners.astype(PART))
        return StreamCut(self.sizes, nodes, self.parts, self.method, **expected)

    def content(self, part: int) -> PartitionContent:
        """Return what a partition has.

        Raises:
          InputError: as `stream.folder.read_part`.
        """
        found, start = folder.read_part(self.path, part), offsets(self.schema.nodes)
        edges = np.searchsorted(found.nodes, [*start.values(), len(self._owners)])
        nodes, trained = {}, {}
        for t, first, last in zip(start, edges, edges[1:]):
            nodes[t] = found.nodes[first:last] - np.int32(start[t])
            trained[t] = nodes[t][found.own[first:last]]
        names = {f"features_{number}.npy": t for number, t in enumerate(start)}
        return PartitionContent(
            nodes, trained, {names[name]: rows for name, rows in found.features.items() if name in names}
        )
