"""A layer chunk by chunk on the way back: every stage's gradient, in the reverse order, pipelined as on the way there."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hetjax.sharding.tensor.chunks import host
from hetjax.sharding.tensor.chunks.host import Columns, Rows, alike, divided, each, fetched
from hetjax.sharding.tensor.chunks.plan import Sending
from hetjax.sharding.tensor.chunks.runs import Given, Kept, There, padded
from hetjax.sharding.tensor.folds import Folded


class Run(There):
    """Of one layer, there and back."""

    def backward(
        self, given: Given, kept: Kept, gradients: Mapping[str, Rows], by_columns: Mapping[str, Columns], sums: dict
    ) -> tuple[dict[str, Rows], dict[str, Columns]]:
        """The gradients of the embeddings below, as rows or as columns.

        Args:
          gradients, by_columns: those of the layer's embeddings, as rows or as columns.
          sums: of each stage the gradients of parameters so far, which are added to.
        """
        to_rows = {t: [np.zeros_like(rows) for rows in of] for t, of in kept.rows.items()}
        to_columns = {t: each(_zeros, of) for t, of in kept.columns.items()}
        last = len(self.chunks) - 1
        if last < 0:
            return to_rows, to_columns
        came = self._finish_back(given, kept, gradients, by_columns, last, to_rows, sums)
        for number in range(last, -1, -1):
            folded = self._wait(self._fold_back(given, kept, came, number, sums))
            if number:
                came = self._finish_back(given, kept, gradients, by_columns, number - 1, to_rows, sums)
            self._send_back(given, kept, to_columns, number + 1, to_rows, sums)
            self._add(to_columns, folded, number)
        self._send_back(given, kept, to_columns, 0, to_rows, sums)
        return to_rows, to_columns

    def _finish_back(
        self,
        given: Given,
        kept: Kept,
        gradients: Mapping[str, Rows],
        by_columns: Mapping[str, Columns],
        number: int,
        to_rows: dict[str, Rows],
        sums: dict,
    ) -> Any:
        """The gradient of what the folds of a chunk gave."""
        chunk = self.chunks[number]
        t = chunk.node_type
        if not self.layer.finishes:
            pulled = (host.columns_at(of, [0], chunk.ids)[0] for of in by_columns[t])
            return divided(self.mesh, [{"": [Folded([x])]} for x in pulled])  # type: ignore[list-item]
        count = len(chunk.ids) // self.parts
        pulls = divided(self.mesh, [host.taken(g, at, count) for g, at in zip(gradients[t], self._at(chunk))])
        arguments = self._rows(kept.rows, chunk), divided(self.mesh, kept.sums[number]), self._ids(chunk), pulls
        sums["finish"], (own, folded) = self.programs.finish_back(
            t, sums["finish"], given.params, given.drawn, *arguments
        )
        for rows, of, at in zip(to_rows.get(t, []), fetched(self.mesh, own), self._at(chunk)):
            if t in of:
                rows[at] += of[t][: at.stop - at.start]
        return folded

    def _fold_back(self, given: Given, kept: Kept, came: Any, number: int, sums: dict) -> Any:
        chunk = self.chunks[number]
        fixed = alike(self.mesh, (dict(chunk.adjacency), chunk.ids))
        arguments = *self._read(kept.columns, number), *fixed, came
        sums["fold"], found = self.programs.fold_back(
            chunk.node_type, sums["fold"], given.params, given.drawn, *arguments
        )
        return found

    def _add(self, to_columns: Mapping[str, Columns], folded: Any, number: int) -> None:
        chunk = self.chunks[number]
        for i, (sources, own) in enumerate(fetched(self.mesh, folded)):
            for s, found in sources.items():
                host.add(to_columns[s][i], chunk.sources[s], found)
            host.add(to_columns[chunk.node_type][i] if own else {}, chunk.ids, own)

    def _send_back(
        self,
        given: Given,
        kept: Kept,
        to_columns: Mapping[str, Columns],
        number: int,
        to_rows: dict[str, Rows],
        sums: dict,
    ) -> None:
        """The gradients of what was sent for chunk `number`, which no chunk before it reads: they are complete."""
        if not self.layer.sends or number >= len(self.chunks):
            return
        for portion in self.sendings[number]:
            self._send_some_back(given, kept, to_columns, portion, to_rows, sums)

    def _send_some_back(
        self,
        given: Given,
        kept: Kept,
        to_columns: Mapping[str, Columns],
        portion: Sending,
        to_rows: dict[str, Rows],
        sums: dict,
    ) -> None:
        t, rows, ids = portion
        most = self.most[t]
        at = np.concatenate([padded(some, most) for some in ids])
        pulls = [list(host.columns_at(of, sorted(of), at).values()) for of in to_columns[t]]
        own = [rows[place] for place in self.places]
        block = divided(self.mesh, [host.taken(x, at_rows, most) for x, at_rows in zip(kept.rows[t], own)])
        arguments = block, divided(self.mesh, pulls)
        sums["send"], (found,) = self.programs.send_back(t, sums["send"], given.params, given.drawn, *arguments)
        for store, some, of in zip(to_rows[t], own, fetched(self.mesh, found)):
            store[some] += of[: len(some)]


def _zeros(columns: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    return {place: np.zeros(array.shape, array.dtype) for place, array in columns.items()}
