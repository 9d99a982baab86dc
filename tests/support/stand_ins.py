"""Objects that offer what hetjax reads of PyG's and DGL's, with numpy arrays as tensors, where neither is installed."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np


class Data:
    """PyG's `Data`, or one store of a `HeteroData`."""

    def __init__(self, **given: Any):
        vars(self).update(given)

    def keys(self) -> list[str]:
        return [key for key, value in vars(self).items() if value is not None]

    def __getattr__(self, name: str) -> Any:
        if name == "num_nodes":
            x, index = vars(self).get("x"), vars(self).get("edge_index")
            return len(x) if x is not None else None if index is None else int(np.max(index)) + 1
        raise AttributeError(name)


class HeteroData:
    """PyG's `HeteroData`: stores by node type, and by relation."""

    def __init__(self, stores: Mapping[Any, Mapping[str, Any]], **given: Any):
        self.stores = {key: Data(**store) for key, store in stores.items()}
        self.node_types = [key for key in stores if isinstance(key, str)]
        self.edge_types = [key for key in stores if not isinstance(key, str)]
        vars(self).update(given)

    def __getitem__(self, key: Any) -> Data:
        return self.stores[key]


class Graph:
    """DGL's `DGLGraph`.

    Args:
      edges: sources and targets by relation.
      counts: nodes by type.
      ndata, edata: their data.
    """

    def __init__(
        self, edges: Mapping, counts: Mapping[str, int], ndata: Mapping[str, Mapping], edata: Mapping[Any, Mapping]
    ):
        self.ends, self.counts = edges, counts
        self.ntypes, self.canonical_etypes = list(counts), list(edges)
        self.nodes = {name: SimpleNamespace(data=dict(ndata.get(name, {}))) for name in counts}
        self.link_data = {kind: SimpleNamespace(data=dict(edata.get(kind, {}))) for kind in edges}

    @property
    def edges(self) -> Any:
        return _Edges(self)

    def num_nodes(self, name: str) -> int:
        return self.counts[name]


class _Edges:
    """Called, it gives the ends of a relation's edges; indexed, their data."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def __call__(self, etype: Any, order: str) -> tuple:
        return self.graph.ends[etype]

    def __getitem__(self, kind: Any) -> SimpleNamespace:
        return self.graph.link_data[kind]
