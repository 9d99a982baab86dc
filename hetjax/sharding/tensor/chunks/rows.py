"""Row-by-row computation: some rows of every device at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sharding.tensor.chunks import host
from hetjax.sharding.tensor.chunks.host import divided


class RowBlocks:
    """The blocks of the rows that devices own.

    Args:
      mesh: the mesh with the axis `feature`.
      owned: the owner of each node.
      places: the places of the devices that are here.
      share: the largest share of a type's rows in a block; at least one row.
    """

    def __init__(self, mesh: Mesh, owned: Owned, places: Sequence[int], share: float):
        self.mesh, self.owned, self.places, self.share = mesh, owned, places, share

    def of(self, t: str, rows: Sequence[Any]) -> Iterator[tuple[slice, Any]]:
        """Yield trees of arrays by blocks of as many rows as a chunk has, with their positions."""
        size, count = self.size(t), self.owned.rows[t]
        for start in range(0, count, size):
            at = slice(start, min(start + size, count))
            yield at, divided(self.mesh, [jax.tree.map(lambda x: host.taken(x, at, size), tree) for tree in rows])

    def size(self, t: str) -> int:
        """Return the number of rows of a type that are on a device at once, where they are computed row by row."""
        return min(self.owned.rows[t], max(1, int(np.ceil(self.share * self.owned.rows[t]))))

    def ids(self, t: str) -> Iterator[Any]:
        """Yield the ids of these rows, block by block."""
        count = len(self.owned.owner[t])
        own = [pad(self.owned.ids[t][place], self.owned.rows[t], NO_NODE) for place in self.places]
        size = self.size(t)
        for start in range(0, self.owned.rows[t], size) if count else ():
            yield divided(self.mesh, [pad(ids[start : start + size], size, NO_NODE).copy() for ids in own])
