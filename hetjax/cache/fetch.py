"""One call for feature rows, wherever they live."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hetjax.cache import table_files
from hetjax.cache.features import Features
from hetjax.cache.host import HostMatrix
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.store import open as open_store
from hetjax.kernels.tables import Table
from hetjax.system.errors import InputError

Source = str | os.PathLike | HetGraph | Features | Mapping[str, Any]


def fetch_features(store: Source, node_type: str, ids: np.ndarray | slice) -> np.ndarray | jax.Array:
    """Return feature rows `[len(ids), width]` of a node type, without a copy that is not needed.

    Args:
      store: the path of a store, or of a run's folder or one of its checkpoints (learnable features; of a run, as its last
        checkpoint has them); a `HetGraph`, a run's `Features` (static ones), or the `tables` of its state.
      ids: node ids, `[n]`, or a slice, of which an array in host memory gives a view.

    Returns:
      An array in host memory, or on the device if the features live there.

    Raises:
      InputError: the type has no features there, or the ids are no integers or none of its nodes'.
    """
    features = _features_of(store)
    if node_type not in features:
        raise InputError(f"no features of {node_type!r}; there are those of {sorted(features)}")
    matrix = features[node_type]
    if isinstance(matrix, Table):
        matrix = matrix.rows
    nodes = matrix.nodes if isinstance(matrix, HostMatrix) else len(matrix)
    if not isinstance(ids, slice):
        ids = np.asarray(ids, None if np.size(ids) else np.int32)
        if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
            raise InputError(f"ids of {node_type!r} are {ids.dtype} {ids.shape}, and must be a list of integers")
        if len(ids) and not (ids.min() >= 0 and ids.max() < nodes):
            raise InputError(f"ids {ids.min()} to {ids.max()} of {node_type!r}, which has {nodes} nodes")
    if isinstance(matrix, HostMatrix):
        return matrix.rows(np.arange(nodes)[ids] if isinstance(ids, slice) else ids)
    return matrix[ids]


def _features_of(store: Source) -> Mapping[str, Any]:
    if isinstance(store, Features):
        return store.static | store.away
    if isinstance(store, str | os.PathLike):
        path = Path(store)
        checkpoints = sorted(folder for folder in (path / "checkpoints").glob("[0-9]*") if folder.is_dir())
        checkpoint = checkpoints[-1] if checkpoints else path
        if (checkpoint / table_files.FOLDER).is_dir():
            return table_files.learned(checkpoint)
        store = open_store(path, relations=())
    return store.features if isinstance(store, HetGraph) else store
