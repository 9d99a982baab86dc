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

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.kernels.grouping import with_together
from hetjax.kernels.orders import forward_only
from hetjax.kernels.sparse import SparseRows
from hetjax.models.hgnn import Stack
from hetjax.models.one_edge import one_edge, with_one_edge
from hetjax.models.packed import stacked
from hetjax.models.traits import width_made
from hetjax.options.config import Train
from hetjax.processes.kept import Kept, Rows, SomeRows
from hetjax.sampling.blocks import Block, Capacities, Sample, edges_of, pad_sample, rows_of
from hetjax.sampling.sampler import ALL, Role, Sampler
from hetjax.sampling.whole import nodes_read
from hetjax.system.arrays import Array
from hetjax.system.mapped import gather, mapping, on_host
from hetjax.system.threads import as_here
from hetjax.tasks.task import Task

MOST_ROWS = 2**18  # whose outputs are computed at a time
Rowing = Callable[[str, np.ndarray], np.ndarray]  # from ids of a node type to rows
ALIGNED = 64  # bytes: jax uses an array that begins at a multiple as it is


class Chunk(NamedTuple):
    """Some nodes, with all of their neighbours.

    Attributes:
      start, count: the range of the chunk's nodes among those that were requested.
      targets: the number of targets of the block, with padding.
      block: padded to as many targets, edges and sources as any chunk has.
      rows: the rows of the sources, `[sources, width]` per node type, or those of all nodes, where they are read in place.
    """

    start: int
    count: int  # type: ignore[assignment]  # a tuple's method of that name is not called
    targets: int
    block: Block
    rows: Mapping[str, Array]


class Chunks:
    """The neighbourhoods of nodes, so many edges at a time; all chunks of one call have the same shapes.

    Args:
      graph: the graph whose edges are aggregated.
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
          relations: the relations into that type whose edges are aggregated.
          x: `[nodes, width]` per node type, in host memory or mapped into it, of which the sources are rows; or on the
            device, where they are read in place, by node id.
          selves: whether blocks say where the nodes' own rows are among the sources.
          share: the chunks that are wanted of so many; all have the shapes that they have where all are wanted.
        """
        self.sampler.read_by_id = frozenset(t for t, matrix in x.items() if isinstance(matrix, (jax.Array, SparseRows)))
        capacities, ranges = self._divided(node_type, nodes, relations, selves and self.sampler.reads_own)
        read_types = {relation.source for relation in relations} | ({node_type} if selves else set())
        in_place = {source: x[source] for source in read_types & self.sampler.read_by_id}
        size = max((stop - start for start, stop in ranges), default=0)
        for start, stop in (ranges[number] for number in share(len(ranges))):
            role = Role({node_type: nodes[start:stop]}, relations, None if selves else ())
            (block,), ids = self.sampler.hop((role,), ALL, (), True, False)
            sample = Sample((block,), ids, ({t: len(source_ids) for t, source_ids in ids.items()},))
            (block,), padded = pad_sample(capacities, node_type, sample, {node_type: size}, self.graph)
            rows = {source: gather(on_host(x[source]), ids[source], len(padded[source])) for source in padded}
            yield Chunk(start, stop - start, size, block, rows | in_place)

    def reached(self, seeds: Mapping[str, np.ndarray], types: Sequence[Collection[str]]) -> list[dict[str, np.ndarray]]:
        """Return the nodes on which the last layer's embeddings of some nodes depend: per layer and type the rising ids of the nodes that it embeds.

        Where nearly all nodes of a type are read, the result has all of them (`sampling.whole.MOST`).

        Args:
          seeds: rising ids per root type.
          types: the types that each layer embeds.
        """
        schema = self.graph.schema
        everyone = {t: np.arange(count, dtype=np.int32) for t, count in schema.nodes.items()}
        found: list[dict[str, np.ndarray]] = [dict(seeds)]
        for read in reversed(types[:-1]):
            own = found[0] if self.sampler.reads_own else {}
            found.insert(0, nodes_read(everyone, read, self._sources(found[0]), own))
        return found

    def _sources(self, targets: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the sources of the edges into some nodes, for every relation, so many edges at a time."""
        for relation in self.graph.schema.relations:
            if relation.target in targets:
                nodes, indptr = targets[relation.target], self.graph.relations[relation].indptr
                for start, stop in edge_ranges(indptr[nodes + 1] - indptr[nodes], self.edges):
                    yield relation.source, self.sampler.everyone([relation], nodes[start:stop])[0].indices

    def _divided(self, node_type: str, nodes: np.ndarray, relations: Sequence[Relation], selves: bool):
        """Return capacities that hold for every chunk, and the nodes of each."""
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
    """The evaluator that computes the last embeddings of any nodes of the root types from all of their neighbours.

    Layer by layer, the embeddings of every node that the next layer needs are computed and kept in host
    memory, `[nodes, hidden]` float32 per type, or where `kept` keeps them; the device holds two chunks of targets with their
    edges and sources, one of which is computed. What is on the device anyway is read in place: static features that live there, and on a CPU, whose
    memory is the host's, features that need no copy for it and embeddings of whole types.
    Every chunk of a type has the same shapes, so there is one program per layer and node type.

    Args:
      model: the model whose layers are applied.
      graph: the graph whose edges are aggregated, all of them.
      edges: as in `Chunks`.
      kept: keeps embeddings and results, and says which chunks are this process's; None: memory, and all of them.
      devices: the devices of this process, which share its chunks; None: the one that jax takes.
      asked: nodes per root type that `embed` will be asked for: their dependencies are found once for all, and programs are compiled for all
        of them. None: only that of nodes that it was asked for.
    """

    def __init__(
        self,
        model: Stack,
        graph: HetGraph,
        edges: int,
        kept: Kept | None = None,
        devices: Sequence[jax.Device] | None = None,
        asked: Mapping[str, np.ndarray] | None = None,
    ):
        self.kept, self.devices = kept or Kept(), devices or [None]
        self.alone = self.kept.folder is None and len(self.devices) == 1
        self.model, self.graph, self.chunks = model, graph, Chunks(graph, edges, model.reads_own)
        self.of_one_edge = one_edge(model.layers, graph)
        self.needed = graph.schema.layer_types(model.roots, len(model.layers), model.reads_own)
        self.asked = dict(asked or {t: np.zeros(0, np.int32) for t in model.roots})
        self.reached: list[dict[str, np.ndarray]] | None = None
        self.embedded = jax.jit(self._embed, static_argnames=("depth", "node_type"))

    @forward_only()
    def _embed(self, params, block, x, depth: int, node_type: str):
        embeddings: Any = self.model.apply(params, depth, block, x, method="embed")
        return embeddings[node_type]

    def embed(
        self, params: Any, features: Mapping[str, np.ndarray], nodes: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the last embeddings of some nodes, float32 `[nodes, width]` per root type.

        Args:
          params: the model's weights.
          features: `[nodes, width]` per input type, static or learnable, on the device, in host memory, or mapped into it.
          nodes: distinct ids per root type.
        """
        some = any(map(len, nodes.values()))
        return self.last(params, self.below(params, features, nodes) if some else {}, nodes)

    def last(self, params: Any, x: Mapping[str, Array], nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the last embeddings of some nodes, as `embed`, from the result of `below`."""
        depth, layer = len(self.model.layers) - 1, self.model.layers[-1]
        rooms = {t: self.kept.rows((len(ids), width_made(layer, t))) for t, ids in nodes.items()}
        return {t: self._layer(params, x, depth, t, ids, rooms[t]) for t, ids in nodes.items()}

    def below(
        self,
        params: Any,
        features: Mapping[str, np.ndarray],
        nodes: Mapping[str, np.ndarray] | None = None,
        start: int = 0,
    ) -> Mapping[str, Array]:
        """Return the input of the last layer: the embeddings of the types that it needs, `[nodes, hidden]`.

        Args:
          features: the inputs of layer `start`.
          nodes: the nodes that the last layer is to embed, per root type; rows that it does not read may be 0. None: all.
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
            targets = sorted(self.targets(depth, nodes).items())
            x = {t: self._embeddings(params, x, depth, t, ids) for t, ids in targets}
        return x

    def _embeddings(self, params, x, depth: int, node_type: str, nodes: np.ndarray) -> Array:
        """Return the embeddings of some nodes, by node id; those of all nodes are read in place if that needs no copy."""
        made = self._layer(params, x, depth, node_type, nodes, self.rows(depth, node_type, nodes))
        return jnp.asarray(made) if len(nodes) == len(made) and jax.default_backend() == "cpu" and self.alone else made

    def targets(self, depth: int, nodes: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Return the rising ids of the nodes that a layer below the last embeds, per type; `nodes` as of `below`."""
        if nodes is None:
            counts = self.graph.schema.nodes
            return {t: np.arange(counts[t], dtype=np.int32) for t in self.needed[1 + depth]}
        if self.reached is None or not all(np.isin(ids, self.asked[t]).all() for t, ids in nodes.items()):
            self.asked |= {t: np.union1d(self.asked[t], ids).astype(np.int32) for t, ids in nodes.items()}
            self.reached = self.chunks.reached(self.asked, self.needed[1:])
        return self.reached[depth]

    def rows(self, depth: int, node_type: str, nodes: np.ndarray) -> Rows:
        """Return the array for the embeddings of some nodes of a type that a layer below the last computes, by node id."""
        shape = self.graph.schema.nodes[node_type], width_made(self.model.layers[depth], node_type)
        return self.kept.rows(shape) if len(nodes) == shape[0] else SomeRows(shape, nodes)

    def _layer(self, params, x, depth: int, node_type: str, nodes: np.ndarray, embeddings: Rows) -> np.ndarray:
        """Compute the embeddings of some nodes; the next chunk is sampled while one is computed."""
        weights = [params if device is None else jax.device_put(params, device) for device in self.devices]
        waiting: deque[tuple[Chunk, Future[jax.Array]]] = deque()
        into, layer = self.graph.schema.into(node_type), self.model.layers[depth]
        embed = as_here(partial(self.embedded, depth=depth, node_type=node_type))
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


class ReadOut:
    """The module that applies the head of a model to embeddings on the host, so many examples at a time.

    Args:
      model: the model with the head.
    """

    def __init__(self, model: Stack):
        self.model = model
        self.compiled = jax.jit(lambda params, *given: model.apply(params, *given, method="read_out"))

    def __call__(self, params: Any, embeddings: Mapping[str, np.ndarray], arrays: Any) -> np.ndarray:
        """Return the outputs of some examples, float32 `[examples, outputs]`.

        Args:
          params: the model's weights.
          embeddings: `[seeds, width]` per root type.
          arrays: the task's.
        """
        head = {"params": {name: jax.device_get(part) for name, part in params["params"].items() if name == "head"}}
        return np.asarray(self.compiled(head, dict(embeddings), arrays), np.float32)

    def examples(
        self,
        params: Any,
        task: Task,
        examples: np.ndarray,
        embeddings: Mapping[str, np.ndarray],
        rows: Rowing | None = None,
    ) -> np.ndarray:
        """Return the outputs of any number of examples, float32 `[examples, outputs]`.

        Args:
          params: the model's weights.
          task: the task that has the examples.
          examples: their numbers.
          embeddings: `[rows, width]` per root type.
          rows: gives for ids of a root type their rows among the embeddings; None: row `i` is node `i`.
        """
        parts = [examples[start : start + MOST_ROWS] for start in range(0, len(examples), MOST_ROWS)] or [examples]
        found = []
        for part in parts:
            seeds = task.seeds(part)
            at = {t: ids if rows is None else rows(t, ids) for t, ids in seeds.nodes.items()}
            found.append(self(params, {t: embeddings[t][of] for t, of in at.items()}, seeds.arrays))
        return np.concatenate(found)


def evaluated_nodes(task: Task, options: Train) -> dict[str, np.ndarray]:
    """Return per root type the rising int32 ids of all nodes that a run evaluates, from first to last."""
    splits = [*evaluated_together(task, options.accuracy_nodes), *[task.examples("test")] * options.test]
    nodes = task.seeds(np.unique(np.concatenate(splits))).nodes
    return {t: np.unique(ids).astype(np.int32) for t, ids in nodes.items()}


def evaluated_together(task: Task, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples that are evaluated after an epoch: all validation examples, and at most so many training examples, evenly spread."""
    training = task.examples("train")
    count = min(most, len(training))
    return task.examples("validation"), training[np.arange(count) * len(training) // max(1, count)]


def _store(embeddings: Rows, chunk: Chunk, h: Future[jax.Array]) -> None:
    """Put a chunk's embeddings in their place, when they are known."""
    embeddings.put(chunk.start, np.asarray(h.result())[: chunk.count])


def _in_place(matrix: Array) -> Array:
    """Return features on the device if they are there, or can be without a copy, and are read as they are; else on the host."""
    if matrix.dtype != np.float32:
        return on_host(matrix)
    if isinstance(matrix, (jax.Array, SparseRows)) or jax.default_backend() != "cpu" or mapping(matrix) is not None:
        return matrix
    aligned = matrix.flags.c_contiguous and matrix.ctypes.data % ALIGNED == 0
    return jnp.asarray(matrix) if aligned else matrix


def edge_ranges(degrees: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of nodes with at most `most` edges and nodes together, or one node with more."""
    ends = np.cumsum(degrees + 1)
    start = 0
    while start < len(degrees):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield start, stop
        start = stop
