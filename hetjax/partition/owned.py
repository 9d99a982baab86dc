"""The places of the rows of every node type when an edge-cut divides the nodes: a partition keeps its own, in order of their ids."""

from collections.abc import Mapping

import numpy as np


class Owned:
    """The owner of every node, and its row there.

    Attributes:
      parts: number of partitions.
      owner: per node type the partition of every node, uint8 `[nodes]`.
      local: per node type the row of every node at its owner, int32 `[nodes]`.
      ids: per node type and partition the nodes that it owns, int32, rising.
      rows: per node type the rows that each partition has room for: those of the one that owns most, and at least 1.
    """

    def __init__(self, owner: Mapping[str, np.ndarray], parts: int):
        self.parts, self.owner = parts, dict(owner)
        self.local: dict[str, np.ndarray] = {}
        self.ids: dict[str, list[np.ndarray]] = {}
        self.rows: dict[str, int] = {}
        for name, owners in self.owner.items():
            counts = np.bincount(owners, minlength=parts)
            order = np.argsort(owners, kind="stable").astype(np.int32)
            self.ids[name] = np.split(order, np.cumsum(counts)[:-1])
            self.local[name] = np.empty(len(owners), np.int32)
            self.local[name][order] = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
            self.rows[name] = max(1, int(counts.max()))

    def split(self, name: str, ids: np.ndarray) -> list[np.ndarray]:
        """Return nodes by their owners, of each partition in the order in which they were given."""
        return [ids[self.owner[name][ids] == part] for part in range(self.parts)]

    def take(self, name: str, matrix: np.ndarray, part: int) -> np.ndarray:
        """Return a partition's rows of a matrix `[nodes, ...]`: `[rows, ...]`, with zeros where there is room for more."""
        ids = self.ids[name][part]
        rows = np.zeros((self.rows[name], *matrix.shape[1:]), matrix.dtype)
        rows[: len(ids)] = matrix[ids]
        return rows

    def whole(self, name: str, taken: np.ndarray) -> np.ndarray:
        """Return the inverse of `take`: a matrix `[nodes, ...]` from all partitions' rows, `[parts * rows, ...]`."""
        return taken[self.owner[name] * np.int64(self.rows[name]) + self.local[name]]
