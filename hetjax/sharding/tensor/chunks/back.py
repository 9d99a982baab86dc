"""The backward pass of a layer chunk by chunk: every stage's gradient, in the reverse order, pipelined like the forward pass."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hetjax.sharding.tensor.chunks import host
from hetjax.sharding.tensor.chunks.host import Columns, Rows, divided, each, seen
from hetjax.sharding.tensor.chunks.layers import Summed
from hetjax.sharding.tensor.chunks.runs import Given, Kept, There, padded
from hetjax.sharding.tensor.folds import Folded


class Back(NamedTuple):
    """The state of the backward pass of one layer.

    Attributes:
      given, kept: the inputs and the residuals of the forward pass.
      rows, columns: the gradients of the layer's embeddings, as one or the other.
      to_rows, to_columns: the gradients of the embeddings below so far, which are added to.
      sums: the gradients of each stage's parameters so far, likewise.
    """

    given: Given
    kept: Kept
    rows: Mapping[str, Rows]
    columns: Mapping[str, Columns]
    to_rows: dict[str, Rows]
    to_columns: dict[str, Columns]
    sums: dict[str, Any]


class Run(There):
    """The forward and the backward pass of one layer."""

    def backward(
        self, given: Given, kept: Kept, rows: Mapping[str, Rows], columns: Mapping[str, Columns], sums: dict
    ) -> tuple[dict[str, Rows], dict[str, Columns]]:
        """Return the gradients of the embeddings below, as rows or as columns; embeddings that need none have no entry.

        Args:
          rows, columns: the gradients of the layer's embeddings, as rows or as columns.
          sums: the gradients of each stage's parameters so far, which are added to.
        """
        to_rows = {t: [np.zeros_like(x) for x in of] for t, of in kept.rows.items() if t not in self.layer.still}
        to_columns = {t: each(_zeros, of) for t, of in kept.columns.items() if t not in self.layer.constant}
        way, last = Back(given, kept, rows, columns, to_rows, to_columns, sums), len(self.chunks) - 1
        if last < 0:
            return to_rows, to_columns
        came = self._finish_back(way, last)
        for number in range(last, -1, -1):
            folded = self._begun(self._fold_back(way, came, number))
            if number:
                came = self._finish_back(way, number - 1)
            self._send_back(way, number + 1)
            self._add(to_columns, folded.result(), number)
        self._send_back(way, 0)
        return to_rows, to_columns

    def _called(self, way: Back, stage: str, t: str, *arguments: Any) -> Any:
        """Return the gradients of a stage, whose part of the parameters' is added to the sum."""
        program = getattr(self.programs, f"{stage}_back")
        way.sums[stage], found = program(t, way.sums[stage], way.given.params, way.given.drawn, *arguments)
        return found

    def _finish_back(self, way: Back, number: int) -> Any:
        """Compute the cotangents of the results of a chunk's aggregations."""
        chunk = self.chunks[number]
        t = chunk.node_type
        if not self.layer.finishes:
            pulled = (host.columns_at(of, [0], chunk.ids)[0] for of in way.columns[t])
            return divided(self.mesh, [{"": [Folded([x])]} for x in pulled])  # type: ignore[list-item]
        count = len(chunk.ids) // self.parts
        pulls = divided(self.mesh, [host.taken(g, at, count) for g, at in zip(way.rows[t], self._at(chunk))])
        summed = Summed(self._rows(way.kept.rows, chunk), divided(self.mesh, way.kept.sums[number]))
        (found,) = self._called(way, "finish", t, summed, self._ids(chunk), pulls)
        for rows, of, at in zip(way.to_rows.get(t, []), seen(self.mesh, found.rows), self._at(chunk)):
            if t in of:
                rows[at] += of[t][: at.stop - at.start]
        return found.found

    def _fold_back(self, way: Back, came: Any, number: int) -> Callable[[], Any]:
        read = self._read(way.kept.columns, number) if self.layer.keeps else None
        arguments = self.chunks[number].node_type, read, self._edges(number), came

        def run() -> Any:
            (found,) = self._called(way, "fold", *arguments)
            return found

        return run

    def _add(self, to_columns: Mapping[str, Columns], folded: Any, number: int) -> None:
        chunk = self.chunks[number]
        for i, read in enumerate(seen(self.mesh, folded)):
            for s, found in read.sources.items():
                host.add(to_columns[s][i], chunk.sources[s], found)
            if read.own:
                host.add(to_columns[chunk.node_type][i], chunk.ids, read.own)

    def _send_back(self, way: Back, number: int) -> None:
        """Compute the gradients of the columns that were sent for chunk `number`, which no chunk before it reads: they are complete."""
        for t, rows, ids in self._portions(number, self.layer.constant):
            most = self.most[t]
            at = np.concatenate([padded(some, most) for some in ids])
            pulls = [list(host.columns_at(of, sorted(of), at).values()) for of in way.to_columns[t]]
            own = [rows[place] for place in self.places]
            block = [host.taken(x, at_rows, most) for x, at_rows in zip(way.kept.rows[t], own)]
            found = self._called(way, "send", t, divided(self.mesh, block), divided(self.mesh, pulls))
            for store, some, (of,) in zip(way.to_rows[t], own, seen(self.mesh, found)) if found else ():
                store[some] += of[: len(some)]


def _zeros(columns: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    return {place: np.zeros(array.shape, array.dtype) for place, array in columns.items()}
