"""Features and tables in slices of their columns, as many as there are devices along `feature`, one slice after the other.

Columns are padded with zeros, which stay zeros: no weight meets them. Every slice of a table's row has its elements, moments and the
one count, so row-wise Adam updates each slice as it updates a whole row.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from hetjax.kernels.tables import Shape, Table
from hetjax.sharding.columns import slice_of
from hetjax.system.arrays import Array
from hetjax.system.mapped import on_host


def sliced(rows: Mapping[str, Any], parts: int) -> dict[str, Any]:
    """Return the slices, `[parts * nodes, columns of a slice]`, of arrays `[nodes, columns]` or tables per type; counts are copied for each slice."""

    def of(leaf: Array) -> np.ndarray:
        leaf = on_host(leaf)
        if not len(
            leaf
        ):  # of a type without nodes a row that nobody reads: programs forget how what is empty is laid out
            leaf = np.zeros((1, *leaf.shape[1:]), leaf.dtype)
        if leaf.ndim == 1:
            return np.tile(leaf, parts)
        more = slice_of(leaf.shape[1], parts) * parts - leaf.shape[1]
        return np.concatenate(np.split(np.pad(leaf, [(0, 0), (0, more)]), parts, axis=1))

    return jax.tree.map(of, dict(rows))


def joined(tables: Mapping[str, Table], shapes: Mapping[str, Shape], parts: int) -> dict[str, Table]:
    """Return whole tables: the inverse of `sliced`."""

    def of(node_type: str, leaf: np.ndarray) -> np.ndarray:
        shape = shapes[node_type]
        if leaf.ndim == 1:
            return leaf[: shape.nodes]
        return np.concatenate(np.split(leaf, parts), axis=1)[: shape.nodes, : shape.width]

    return {t: Table(*(of(t, np.asarray(leaf)) for leaf in table)) for t, table in tables.items()}
