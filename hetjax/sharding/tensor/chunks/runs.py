"""A layer chunk by chunk: the data that travel, the chunk that is aggregated, and the data that wait on the host.

While a chunk is aggregated, the next one's sources are sent and the last one's sums come back (NeutronTP, section 4.2.2). Programs that run side by side share nothing, so the results are the same to the last bit.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sharding import mesh as meshes
from hetjax.sharding.tensor.chunks import host
from hetjax.sharding.tensor.chunks.host import Columns, Repeated, Rows, divided, each, fetched, seen
from hetjax.sharding.tensor.chunks.layers import Read, Summed
from hetjax.sharding.tensor.chunks.plan import Chunk, Edges, Sending, rows_between
from hetjax.sharding.tensor.chunks.programs import Drawn, Programs
from hetjax.system.threads import as_here

FOLDING = ThreadPoolExecutor(1, "folding")  # one, so that folds keep their order


class Given(NamedTuple):
    """The inputs that the programs of a step share.

    Attributes:
      params: the parameters of this layer.
      drawn: the seed and the step from which dropout is sampled.
      training: whether this is a training step.
    """

    params: Any
    drawn: Drawn
    training: bool


class Kept(NamedTuple):
    """The residuals of the forward pass that the backward pass needs, on the host.

    Attributes:
      rows: the embeddings of the layer below, per type.
      columns: the columns that were sent, per type; without values if aggregations are linear.
      sums: the gathered results of the aggregations, of every chunk.
    """

    rows: Mapping[str, Rows]
    columns: Mapping[str, Columns]
    sums: Sequence[Any]


class There:
    """The forward pass of one layer.

    Args:
      programs: the programs of the layer.
      chunks: the chunks of all types that it makes embeddings of, in their order.
      sendings: the portions that are sent before each.
      most: the number of nodes of a device that are sent at once, padding included, per type.
      slots: the shapes of the columns that are sent, or of the columns below, per type.
      nodes: the number of nodes of every type.
      edges: the chunks', on the devices of the mesh.
      pipelined: whether programs that need nothing of each other may run side by side.

    Attributes:
      constants: the columns that never change, once they were sent.
    """

    def __init__(
        self,
        programs: Programs,
        chunks: Sequence[Chunk],
        sendings: Sequence[Sequence[Sending]],
        most: Mapping[str, int],
        slots: Mapping[str, Any],
        nodes: Mapping[str, int],
        edges: Repeated,
        pipelined: bool,
    ):
        self.programs, self.layer, self.edges, self.pipelined = programs, programs.layer, edges, pipelined
        self.chunks, self.sendings, self.nodes, self.mesh = chunks, sendings, nodes, edges.mesh
        self.parts, self.places = self.mesh.size, meshes.positions_here(self.mesh)
        self.most, self.slots = most, slots
        self.constants: dict[str, Columns] = {}

    def forward(self, given: Given, x: Mapping[str, Rows], columns: dict[str, Columns]) -> tuple[dict, dict, Kept]:
        """Return the embeddings of all targets, as rows or as columns.

        Args:
          x: the embeddings below, per type each device's own rows; nothing if they are columns.
          columns: these, or an empty dict.

        Returns:
          `(rows, columns, residuals)`.
        """
        out: dict[str, Rows] = {}
        made: dict[str, Columns] = {}
        sums: list[Any] = []
        before: Any = None
        columns = columns | self.constants
        for t, shapes in self.slots.items():  # those of a type of which nothing is read stay zeros
            if t not in columns:
                rows = max(1, self.nodes[t])
                columns[t] = [
                    {i: np.zeros((rows, *a.shape[1:]), a.dtype) for i, a in enumerate(shapes)} for _ in self.places
                ]
        self._send(given, x, columns, 0)
        for number in range(len(self.chunks)):
            folded = self._begun(self._fold(given, columns, number))
            self._send(given, x, columns, number + 1)
            if number:
                sums.append(self._finish(given, x, before, number - 1, out, made))
            before = folded.result()
        if self.chunks:
            sums.append(self._finish(given, x, before, len(sums), out, made))
        self.constants = {t: columns[t] for t in self.layer.constant}
        if not self.layer.keeps:
            columns = {t: each(_nothing, of) for t, of in columns.items()}
        return out, made, Kept(x, columns, sums)

    def _begun(self, fold: Callable[[], Any]) -> Future:
        """Start an aggregation; other programs may run beside it.

        The CPU backend computes cheap operations, and all kernels that are not its own, in the thread that calls it. So
        another thread calls it, except for aggregations in which all devices sum logits: these wait for each other, in one order everywhere.
        """
        if self.pipelined and not self.layer.sums_logits:
            return FOLDING.submit(as_here(fold))
        done: Future = Future()
        done.set_result(fold() if self.pipelined else jax.block_until_ready(fold()))
        return done

    def _send(self, given: Given, x: Mapping[str, Rows], columns: dict[str, Columns], number: int) -> None:
        """Send the rows that chunk `number` reads and no chunk before it did."""
        for t, rows, ids in self._portions(number, self.constants):
            most = self.most[t]
            block = divided(self.mesh, [host.taken(x[t][i], rows[place], most) for i, place in enumerate(self.places)])
            found = seen(self.mesh, self.programs.send(given.training, t, given.params, given.drawn, block))
            at = np.concatenate([padded(some, most) for some in ids])
            for store, arrays in zip(columns[t], found):
                host.write(store, at, dict(enumerate(arrays)))

    def _portions(self, number: int, but: Container[str]) -> list[Sending]:
        """Return the portions that are sent for chunk `number`, except for some types."""
        if not self.layer.sends or number >= len(self.chunks):
            return []
        return [portion for portion in self.sendings[number] if portion.node_type not in but]

    def _read(self, columns: Mapping[str, Columns], number: int) -> Read:
        """Return the inputs of a chunk's aggregation, on the devices."""
        chunk = self.chunks[number]
        of_sources, of_targets = self.layer.wants(chunk.node_type)
        trees = []
        for i in range(len(self.places)):
            sources = {s: host.columns_at(columns[s][i], of, chunk.sources[s]) for s, of in of_sources.items()}
            own = host.columns_at(columns[chunk.node_type][i], of_targets, chunk.ids) if of_targets else {}
            trees.append(Read(sources, own))
        found: Read = divided(self.mesh, trees)
        return found

    def _edges(self, number: int) -> Edges:
        chunk = self.chunks[number]
        found: Edges = self.edges.on_devices((chunk.node_type, chunk.begin), chunk.edges)
        return found

    def _fold(self, given: Given, columns: Mapping[str, Columns], number: int) -> Callable[[], Any]:
        """Return the function that computes a chunk's aggregations."""
        arguments = given.params, given.drawn, self._read(columns, number), self._edges(number)
        return partial(self.programs.fold, given.training, self.chunks[number].node_type, *arguments)

    def _finish(
        self,
        given: Given,
        x: Mapping[str, Rows],
        sums: Any,
        number: int,
        out: dict[str, Rows],
        made: dict[str, Columns],
    ) -> Any:
        """Finish a chunk's targets, as rows, or if nothing becomes rows after this layer, as columns.

        Returns:
          The entry of `Kept.sums` for the chunk.
        """
        chunk = self.chunks[number]
        t = chunk.node_type
        if not self.layer.finishes:
            arrays = [of[""][0].columns[0] for of in seen(self.mesh, sums)]
            stores = made.setdefault(t, [{0: np.zeros((self.nodes[t], *a.shape[1:]), a.dtype)} for a in arrays])
            for store, array in zip(stores, arrays):
                host.write(store, chunk.ids, {0: array})
            return None
        arguments = Summed(self._rows(x, chunk), sums), self._ids(chunk)
        finished, gathered = self.programs.finish(given.training, t, given.params, given.drawn, *arguments)
        found = seen(self.mesh, finished)
        count = -(-self.nodes[t] // self.parts)
        whole = out.setdefault(t, [np.zeros((count, *a.shape[1:]), a.dtype) for a in found])
        for rows, array, at in zip(whole, found, self._at(chunk)):
            rows[at] = array[: at.stop - at.start]
        return fetched(self.mesh, gathered)

    def _at(self, chunk: Chunk) -> list[slice]:
        """Return the positions of a chunk's targets among the rows of each device."""
        return [rows_between(self.parts, place, chunk.begin, chunk.end) for place in self.places]

    def _rows(self, x: Mapping[str, Rows], chunk: Chunk) -> Any:
        """Return the targets' own embeddings of the layer below."""
        t, count = chunk.node_type, len(chunk.ids) // self.parts
        if t not in self.layer.widths or t not in x:
            return {}
        return divided(self.mesh, [{t: host.taken(rows, at, count)} for rows, at in zip(x[t], self._at(chunk))])

    def _ids(self, chunk: Chunk) -> Any:
        own = np.split(chunk.ids, self.parts)
        return divided(self.mesh, [own[place].copy() for place in self.places])


def padded(ids: np.ndarray, count: int) -> np.ndarray:
    """Return ids, padded with `NO_NODE` up to `count`."""
    return np.asarray(pad(ids, count, NO_NODE))


def _nothing(columns: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return arrays of the same shapes that take no memory."""
    return {place: np.broadcast_to(np.zeros((), array.dtype), array.shape) for place, array in columns.items()}
