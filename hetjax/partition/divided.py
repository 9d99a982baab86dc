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


class Given(NamedTuple):
    """The nodes and edges that a partition was given.

    Attributes:
      nodes: per type the ids of its nodes, int32, rising.
      own: likewise, of those that it trains.
      features: of types of a store the rows of these nodes, mapped.
    """

    nodes: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]
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
        about, self._owners = folder.read(path)
        self.parts, self.hops, self.method = about["parts"], about["hops"], about["method"]
        count, start = sum(graph.schema.nodes.values()), offsets(graph.schema.nodes)
        if len(self._owners) != count:
            raise InputError(f"{path}: {len(self._owners)} nodes were divided != {count} of the graph")
        if "types" in about and about["types"] != start:
            raise InputError(f"{path}: types begin at {about['types']} != {start} of the graph")
        if about["directed"]:
            raise InputError(f"{path}: divided with directed true, and its partitions lack edges that are trained on")

    def cut(self, **expected: Any) -> StreamCut:
        """Return which partition trains which node; `expected` is as of `stream_cut`."""
        nodes = split(self.schema, self._owners.astype(PART))
        return StreamCut(self.sizes, nodes, self.parts, self.method, **expected)

    def given(self, part: int) -> Given:
        """Return what a partition has.

        Raises:
          InputError: as `stream.folder.read_part`.
        """
        found, start = folder.read_part(self.path, part), offsets(self.schema.nodes)
        edges = np.searchsorted(found.nodes, [*start.values(), len(self._owners)])
        nodes, own = {}, {}
        for t, first, last in zip(start, edges, edges[1:]):
            nodes[t] = found.nodes[first:last] - np.int32(start[t])
            own[t] = nodes[t][found.own[first:last]]
        names = {f"features_{number}.npy": t for number, t in enumerate(start)}
        return Given(nodes, own, {names[name]: rows for name, rows in found.features.items() if name in names})
