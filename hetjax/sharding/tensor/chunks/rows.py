"""What is computed row by row: some rows of every device at a time."""

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
    """Blocks of the rows that devices own.

    Args:
      mesh: with the axis `feature`.
      owned: who has which nodes.
      places: of the devices that are here.
      share: of a type's rows, the most in a block; at least one.
    """

    def __init__(self, mesh: Mesh, owned: Owned, places: Sequence[int], share: float):
        self.mesh, self.owned, self.places, self.share = mesh, owned, places, share

    def of(self, t: str, rows: Sequence[Any]) -> Iterator[tuple[slice, Any]]:
        """Trees of arrays by blocks of as many rows as a chunk has, with where they stand."""
        size, count = self.size(t), self.owned.rows[t]
        for start in range(0, count, size):
            at = slice(start, min(start + size, count))
            yield at, divided(self.mesh, [jax.tree.map(lambda x: host.taken(x, at, size), tree) for tree in rows])

    def size(self, t: str) -> int:
        """Rows of a type that are on a device at once, where they are computed row by row."""
        return min(self.owned.rows[t], max(1, int(np.ceil(self.share * self.owned.rows[t]))))

    def ids(self, t: str) -> Iterator[Any]:
        """The ids of these rows, block by block."""
        count = len(self.owned.owner[t])
        own = [pad(self.owned.ids[t][place], self.owned.rows[t], NO_NODE) for place in self.places]
        size = self.size(t)
        for start in range(0, self.owned.rows[t], size) if count else ():
            yield divided(self.mesh, [pad(ids[start : start + size], size, NO_NODE).copy() for ids in own])
