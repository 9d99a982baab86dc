"""The edges of one relation that arrive in pieces: each is sorted as it arrives, so that the whole edge list is never in memory."""

import numpy as np

from hetjax.graph import grouping
from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.grouping import Piece
from hetjax.system.errors import InputError

FIRST = (
    2**26
)  # bytes: so much is mapped as large pages, which it keeps as it grows, and what is not written to takes no memory


class Pieces:
    """The pieces of a `CSC`, which equals that of `from_edges` for all edges together, to the last bit.

    Args:
      sources, targets: number of nodes on either side.
      weighted: whether edges have weights.
    """

    def __init__(self, sources: int, targets: int, weighted: bool):
        self.counts, self.ranges = (sources, targets), grouping.ranges_of(targets)
        self.dtypes = [index_dtype(sources), np.dtype(np.float32)][: 1 + weighted]
        self.ends: list[np.ndarray] = []
        self.starts = [0]
        self.places, *self.values = (np.empty(FIRST // d.itemsize, d) for d in (self.ranges.place, *self.dtypes))

    def spread(self, source: np.ndarray, target: np.ndarray, *weights: np.ndarray) -> Piece:
        """Return a piece, in order; in any thread. Arguments as in `from_edges`, but ids are checked here.

        Raises:
          InputError: an id of no node.
        """
        for ids, count in zip((source, target), self.counts):
            if len(ids) and not 0 <= ids.min() <= ids.max() < count:
                raise InputError(f"edges of nodes {ids.min()}..{ids.max()}, and there are {count}")
        return grouping.spread(target, self.ranges, [source, *weights], self.dtypes)

    def add(self, piece: Piece) -> None:
        """Add the next piece."""
        start, end = self.starts[-1], self.starts[-1] + len(piece.places)
        for whole, part in zip((self.places, *self.values), (piece.places, *piece.values)):
            if end > len(whole):  # where it lies, as nothing else knows it
                whole.resize(end + end // 8, refcheck=False)
            whole[start:end] = part
        self.ends.append(piece.ends)
        self.starts.append(end)

    def csc(self) -> CSC:
        """Return all edges that were added, by target."""
        ends = np.array(self.ends, np.uint32).reshape(len(self.ends), self.ranges.number)
        starts, made = np.array(self.starts[:-1]), [np.empty(self.starts[-1], dtype) for dtype in self.dtypes]
        for given, out in zip(self.values, made):
            indptr = grouping.gather(ends, starts, self.ranges, self.places, given, out)
        return CSC(indptr, made[0], made[1] if len(made) > 1 else None)
