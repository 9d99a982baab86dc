"""Exact evaluation: full neighbourhoods, layer by layer, so many edges at a time.

A device holds two chunks; host memory, or files, hold the embeddings of two layers, whatever the number of edges.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.cache.mapped import gather, mapping, on_host
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.kernels.grouping import with_together
from hetjax.kernels.orders import forward_only
from hetjax.kernels.sparse import SparseRows
from hetjax.models.hgnn import Stack
from hetjax.models.one_edge import one_edge, with_one_edge
from hetjax.models.packed import stacked
from hetjax.options.config import Train
from hetjax.processes.kept import Kept, Rows, SomeRows
from hetjax.sampling.blocks import Block, Capacities, Sample, edges_of, pad_sample, rows_of
from hetjax.sampling.sampler import ALL, Role, Sampler
from hetjax.sampling.whole import nodes_read
from hetjax.system.arrays import Array
from hetjax.system.threads import as_here

ALIGNED = 64  # bytes: jax uses an array that begins at a multiple as it is


class Chunk(NamedTuple):
    """Some nodes, with all of their neighbours.

    Attributes:
      start, count: which of the nodes that were asked for.
      targets: as many as the block has, with padding.
      block: padded to as many targets, edges and sources as any chunk has.
      rows: of the sources, `[sources, width]` per node type, or of all nodes, where they are read in place.
    """

    start: int
    count: int  # type: ignore[assignment]  # a tuple's method of that name is not called
    targets: int
    block: Block
    rows: Mapping[str, Array]


class Chunks:
    """The neighbourhoods of nodes, so many edges at a time; all chunks of one call have the same shapes.

    Args:
      graph: whose edges are folded.
      edges: most edges of a chunk; a single node with more is a chunk of its own.
      reads_own: as in `Sampler`.
    """

    def __init__(self, graph: HetGraph, edges: int, reads_own: bool = True):
        self.graph, self.edges, self.sampler = graph, edges, Sampler(graph, reads_own=reads_own)

    def each(
        self,
        node_type: str,
        nodes: np.ndarray,
        relations: Sequence[Relation],
        x: Mapping[str, Array],
        selves: bool = True,
        share: Callable[[int], range] = range,
    ) -> Iterator[Chunk]:
        """The nodes in order.

        Args:
          node_type, nodes: distinct ids of one type.
          relations: into that type, whose edges are folded.
          x: `[nodes, width]` per node type, in host memory or mapped into it, of which the sources are rows; or on the
            device, where they are read in place, by node id.
          selves: whether blocks say where the nodes' own rows are among the sources.
          share: which of so many chunks are wanted; all have the shapes that they have where all are wanted.
        """
        self.sampler.read_by_id = frozenset(t for t, matrix in x.items() if isinstance(matrix, (jax.Array, SparseRows)))
        capacities, ranges = self._divided(node_type, nodes, relations, selves and self.sampler.reads_own)
        read_types = {relation.source for relation in relations} | ({node_type} if selves else set())
        in_place = {source: x[source] for source in read_types & self.sampler.read_by_id}
        size = max((stop - start for start, stop in ranges), default=0)
        for start, stop in (ranges[number] for number in share(len(ranges))):
            role = Role({node_type: nodes[start:stop]}, relations, selves)
            (block,), ids = self.sampler.hop((role,), ALL, (), True, False)
            sample = Sample((block,), ids, ({t: len(source_ids) for t, source_ids in ids.items()},))
            (block,), padded = pad_sample(capacities, node_type, sample, {node_type: size}, self.graph)
            rows = {source: gather(on_host(x[source]), ids[source], len(padded[source])) for source in padded}
            yield Chunk(start, stop - start, size, block, rows | in_place)

    def reached(self, seeds: np.ndarray, types: Sequence[Collection[str]]) -> list[dict[str, np.ndarray]]:
        """What the last layer's embeddings of some target nodes depend on: per layer and type the rising ids of the nodes that it embeds.

        Where nearly all of a type are read they are all (`sampling.whole.MOST`).

        Args:
          seeds: rising ids of the target type.
          types: per layer, those that it embeds.
        """
        schema = self.graph.schema
        everyone = {t: np.arange(count, dtype=np.int32) for t, count in schema.nodes.items()}
        found: list[dict[str, np.ndarray]] = [{schema.target: seeds}]
        for read in reversed(types[:-1]):
            own = found[0] if self.sampler.reads_own else {}
            found.insert(0, nodes_read(everyone, read, self._sources(found[0]), own))
        return found

    def _sources(self, targets: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Of every relation the sources of the edges into some nodes, so many edges at a time."""
        for relation in self.graph.schema.relations:
            if relation.target in targets:
                nodes, indptr = targets[relation.target], self.graph.relations[relation].indptr
                for start, stop in edge_ranges(indptr[nodes + 1] - indptr[nodes], self.edges):
                    yield relation.source, self.sampler.everyone([relation], nodes[start:stop])[0].indices

    def _divided(self, node_type: str, nodes: np.ndarray, relations: Sequence[Relation], selves: bool):
        """Capacities that hold for every chunk, and which nodes each has."""
        schema, degrees = self.graph.schema, {}
        for relation in relations:
            indptr = self.graph.relations[relation].indptr
            degrees[relation] = indptr[nodes + 1] - indptr[nodes]
        ranges = list(edge_ranges(sum(degrees.values(), np.zeros(len(nodes), np.int64)), self.edges))
        capacities, sources = (
            Capacities(),
            {node_type: max((stop - start for start, stop in ranges), default=0)} if selves else {},
        )
        for relation, degree in degrees.items():
            most = max((int(degree[start:stop].sum()) for start, stop in ranges), default=0)
            capacities.fit(edges_of(node_type, 0, relation), most, most)
            sources[relation.source] = sources.get(relation.source, 0) + most
        for source, most in sources.items():
            capacities.fit(rows_of(node_type, 0, source), min(most, schema.nodes[source]), schema.nodes[source])
        return capacities, ranges


class Evaluator:
    """Computes the logits of any target nodes from all of their neighbours.

    Layer by layer, the embeddings of every node that the next layer needs are computed and kept in host
    memory, `[nodes, hidden]` float32 per type, or where `kept` keeps them; the device holds two chunks of targets with their
    edges and sources, one of which is computed. What is on the device anyway is read in place: static features that live there, and on a CPU, whose
    memory is the host's, what needs no copy for it and embeddings of whole types.
    Every chunk of a type has the same shapes, so there is one program per layer and node type.

    Args:
      model: whose layers are applied.
      graph: whose edges are folded, all of them.
      edges: as in `Chunks`.
      kept: keeps embeddings and results, and says which chunks are this process's; None: memory, and all of them.
      devices: of this process, which share its chunks; None: the one that jax takes.
      asked: ids of target nodes that `logits` will be asked for: what they depend on is found once for all, and programs are compiled for all
        of them. None: only that of nodes that it was asked for.
    """

    def __init__(
        self,
        model: Stack,
        graph: HetGraph,
        edges: int,
        kept: Kept | None = None,
        devices: Sequence[jax.Device] | None = None,
        asked: np.ndarray | None = None,
    ):
        self.kept, self.devices = kept or Kept(), devices or [None]
        self.alone = self.kept.folder is None and len(self.devices) == 1
        self.model, self.graph, self.chunks = model, graph, Chunks(graph, edges, model.reads_own)
        self.of_one_edge = one_edge(model.layers, graph)
        self.needed = graph.schema.layer_types(len(model.layers), model.reads_own)
        self.asked = np.zeros(0, np.int32) if asked is None else asked
        self.reached: list[dict[str, np.ndarray]] | None = None
        self.embed = jax.jit(self._embed, static_argnames=("depth", "node_type", "classify"))

    @forward_only()
    def _embed(self, params, block, x, depth: int, node_type: str, classify: bool):
        embeddings: Any = self.model.apply(params, depth, block, x, method="embed")
        h = embeddings[node_type]
        return self.model.apply(params, h, method="classify") if classify else h

    def logits(self, params: Any, features: Mapping[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
        """Logits float32 `[len(ids), classes]` of the target nodes `ids`.

        Args:
          params: the model's weights.
          features: `[nodes, width]` per input type, static or learnable, on the device, in host memory, or mapped into it.
          ids: distinct.
        """
        return self.last(params, self.below(params, features, ids) if len(ids) else {}, ids)

    def last(self, params: Any, x: Mapping[str, Array], ids: np.ndarray, classify: bool = True) -> np.ndarray:
        """Of what `below` gives the logits of the target nodes `ids`; or the last layer's embeddings, float32 `[len(ids), width]`."""
        depth, target = len(self.model.layers) - 1, self.graph.schema.target
        width = self.model.classes if classify else self.model.layers[depth].makes(target)
        return self._layer(params, x, depth, target, ids, classify, self.kept.rows((len(ids), width)))

    def below(
        self, params: Any, features: Mapping[str, np.ndarray], ids: np.ndarray | None = None, start: int = 0
    ) -> Mapping[str, Array]:
        """What the last layer reads: the embeddings of the types that it needs, `[nodes, hidden]`.

        Args:
          features: what layer `start` reads.
          ids: of the target nodes that the last layer is to embed; rows that it does not read then may be 0. None: all.
          start: the first layer that is computed.
        """
        first = self.model.layers[0]
        changed = not start and bool(self.model.transforms or getattr(first, "one_hot", False))
        changed |= not self.alone  # all rows of what is read, in every chunk
        x = {
            t: on_host(matrix) if changed and not isinstance(matrix, SparseRows) else _in_place(matrix)
            for t, matrix in features.items()
        }
        for depth in range(start, len(self.model.layers) - 1):
            targets = sorted(self.targets(depth, ids).items())
            x = {t: self._embeddings(params, x, depth, t, nodes) for t, nodes in targets}
        return x

    def _embeddings(self, params, x, depth: int, node_type: str, nodes: np.ndarray) -> Array:
        """Of some nodes, by node id; those of all are read in place if that needs no copy."""
        made = self._layer(params, x, depth, node_type, nodes, False, self.rows(depth, node_type, nodes))
        return jnp.asarray(made) if len(nodes) == len(made) and jax.default_backend() == "cpu" and self.alone else made

    def targets(self, depth: int, ids: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Per type the rising ids of the nodes that a layer below the last embeds; `ids` as of `below`."""
        if ids is None:
            nodes = self.graph.schema.nodes
            return {t: np.arange(nodes[t], dtype=np.int32) for t in self.needed[1 + depth]}
        if self.reached is None or not np.isin(ids, self.asked).all():
            asked = np.union1d(self.asked, ids).astype(np.int32)
            self.reached, self.asked = self.chunks.reached(asked, self.needed[1:]), asked
        return self.reached[depth]

    def rows(self, depth: int, node_type: str, nodes: np.ndarray) -> Rows:
        """Room for what a layer below the last makes of some nodes of a type, by node id."""
        shape = self.graph.schema.nodes[node_type], self.model.layers[depth].makes(node_type)
        return self.kept.rows(shape) if len(nodes) == shape[0] else SomeRows(shape, nodes)

    def _layer(
        self, params, x, depth: int, node_type: str, nodes: np.ndarray, classify: bool, embeddings: Rows
    ) -> np.ndarray:
        """The embeddings of some nodes, or their logits; the next chunk is drawn while one is computed."""
        weights = [params if device is None else jax.device_put(params, device) for device in self.devices]
        waiting: deque[tuple[Chunk, Future[jax.Array]]] = deque()
        into, layer = self.graph.schema.into(node_type), self.model.layers[depth]
        embed = as_here(partial(self.embed, depth=depth, node_type=node_type, classify=classify))
        with ThreadPoolExecutor(1, "embedding") as thread:  # a CPU may compute in the one that asks it to
            for number, chunk in enumerate(self.chunks.each(node_type, nodes, into, x, share=self.kept.share)):
                turn = number % len(self.devices)
                block, rows = (chunk.block, chunk.rows)
                if chunk.count == len(nodes):  # the only one, so that shapes are its own
                    sizes, sparse = {t: len(own) for t, own in rows.items()}, self.model.sparse(depth, rows)
                    block = stacked(params, layer, depth, with_together(layer, block, sizes, sparse))
                block = with_one_edge(block, self.of_one_edge[depth])
                if self.devices[turn] is not None:
                    block, rows = jax.device_put((block, rows), self.devices[turn])
                waiting.append((chunk, thread.submit(embed, weights[turn], block, rows)))
                if len(waiting) > len(self.devices):
                    _store(embeddings, *waiting.popleft())
            for chunk, h in waiting:
                _store(embeddings, chunk, h)
        return embeddings.done()


def evaluated_nodes(graph: HetGraph, options: Train) -> np.ndarray:
    """All target nodes that a run evaluates, from first to last: rising int32 ids."""
    splits = [*evaluated_together(graph, options.accuracy_nodes), *[graph.splits["test"]] * options.test]
    return np.unique(np.concatenate(splits)).astype(np.int32)


def evaluated_together(graph: HetGraph, most: int) -> tuple[np.ndarray, np.ndarray]:
    """What an epoch ends with: all validation nodes, and at most so many training nodes, evenly spread."""
    training = graph.splits["train"]
    count = min(most, len(training))
    return graph.splits["validation"], training[np.arange(count) * len(training) // max(1, count)]


def _store(embeddings: Rows, chunk: Chunk, h: Future[jax.Array]) -> None:
    """Put a chunk's embeddings in their place, when they are known."""
    embeddings.put(chunk.start, np.asarray(h.result())[: chunk.count])


def _in_place(matrix: Array) -> Array:
    """Features on the device if they are there, or can be without a copy, and are read as they are; else on the host."""
    if matrix.dtype != np.float32:
        return on_host(matrix)
    if isinstance(matrix, (jax.Array, SparseRows)) or jax.default_backend() != "cpu" or mapping(matrix) is not None:
        return matrix
    aligned = matrix.flags.c_contiguous and matrix.ctypes.data % ALIGNED == 0
    return jnp.asarray(matrix) if aligned else matrix


def edge_ranges(degrees: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of nodes with at most `most` edges and nodes together, or one node with more."""
    ends = np.cumsum(degrees + 1)
    start = 0
    while start < len(degrees):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield start, stop
        start = stop
