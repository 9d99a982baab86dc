"""One call for feature rows, wherever they live."""

import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from hetjax.cache.features import Features
from hetjax.cache.host import Hosted
from hetjax.cache.tables import Table
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.store import open as open_store

Source = str | os.PathLike | HetGraph | Features | Mapping[str, Any]


def fetch_features(store: Source, node_type: str, ids: np.ndarray | slice) -> np.ndarray | jax.Array:
    """Feature rows `[len(ids), width]` of a node type, without a copy that is not needed.

    Args:
      store: the path of a store, a `HetGraph`, a run's `Features` (static ones), or the `tables` of a run's state.
      ids: node ids, or a slice, of which an array in host memory gives a view.

    Returns:
      An array in host memory, or on the device if the features live there.

    Raises:
      InputError: the type has no features there, or an id is none of its nodes'.
    """
    held = _held(store)
    if node_type not in held:
        raise InputError(f"no features of {node_type!r}; there are those of {sorted(held)}")
    found = held[node_type]
    nodes = found.nodes if isinstance(found, Hosted) else len(found.rows if isinstance(found, Table) else found)
    if not isinstance(ids, slice):
        ids = np.asarray(ids)
        if len(ids) and not (ids.min() >= 0 and ids.max() < nodes):
            raise InputError(f"ids {ids.min()} to {ids.max()} of {node_type!r}, which has {nodes} nodes")
    if isinstance(found, Hosted):
        return found.rows(np.arange(nodes)[ids] if isinstance(ids, slice) else ids)
    return (found.rows if isinstance(found, Table) else found)[ids]


def _held(store: Source) -> Mapping[str, Any]:
    if isinstance(store, Features):
        return store.static | store.away
    if isinstance(store, str | os.PathLike):
        store = open_store(store, relations=())
    return store.features if isinstance(store, HetGraph) else store
