"""Exact evaluation by the partitions that train: full neighbourhoods, layer by layer, so many edges at a time.

Every partition computes the embeddings of its own nodes and keeps them in the memory of its host; the rows of others' nodes that
a chunk reads are sent by their masters. So no process holds the embeddings or the tables of the whole graph.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.kernels.orders import forward_only
from hetjax.models.hgnn import Stack
from hetjax.models.traits import width_made
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import Capacities
from hetjax.sampling.sampler import ALL, Role, Sampler
from hetjax.sharding.dependency.exchange import Fetch
from hetjax.sharding.dependency.groups import Group, Groups
from hetjax.sharding.dependency.room import divide, measure, room
from hetjax.sharding.dependency.shares import Share, divided, nothing
from hetjax.sharding.evaluate import edge_ranges
from hetjax.sharding.gathered import local_rows
from hetjax.sharding.mesh import DATA, from_shards, positions_here, shard_map
from hetjax.sharding.spmd import to_host
from hetjax.sharding.traffic import Program
from hetjax.system.mapped import gather

Own = Mapping[int, Mapping[str, np.ndarray]]  # per partition that is here, and type, the rows of its own nodes


class DependencyEvaluator:
    """The evaluator that computes the last embeddings of any nodes of the root types from all of their neighbours.

    Args:
      model: the model whose layers are applied.
      sampler: the sampler of the whole graph.
      owned: the owner of each node.
      mesh: the mesh with the axis `data`, a device per partition.
      groups: the rows that are sent per layer, by name.
      edges: the most edges of a chunk of each partition; a node with more is a chunk of its own.
    """

    def __init__(
        self,
        model: Stack,
        sampler: Sampler,
        owned: Owned,
        mesh: Mesh,
        groups: Groups,
        edges: int,
    ):
        self.model, self.owned, self.mesh, self.groups, self.edges = model, owned, mesh, groups, edges
        self.sampler = Sampler(sampler.graph, reads_own=sampler.reads_own)
        self.capacities = Capacities()
        self.programs: dict[tuple[int, str], Program] = {}
        self.graph = sampler.graph

    def embed(self, params: Any, learned: Own, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the last embeddings of some nodes, float32 `[nodes, width]` per root type, in every process.

        Args:
          params: the model's weights, on the mesh.
          learned: rows of learnable features, in memory or mapped.
          nodes: distinct ids per root type.
        """
        model = self.model
        needed = self.graph.schema.layer_types(model.roots, len(model.layers), model.reads_own)
        own, last = learned, len(model.layers) - 1
        for depth in range(last):
            made = {t: self._layer(params, own, depth, t, self.owned.ids[t]) for t in sorted(needed[depth + 1])}
            own = {part: {t: rows[part] for t, rows in made.items()} for part in own}
        return {t: self._last(params, own, last, t, ids) for t, ids in sorted(nodes.items())}

    def _last(self, params: Any, own: Own, depth: int, node_type: str, ids: np.ndarray) -> np.ndarray:
        """Return the last layer's embeddings of some nodes, in every process."""
        made = np.empty((len(ids), width_made(self.model.layers[depth], node_type)), np.float32)
        owner = self.owned.owner[node_type][ids]
        places = [np.flatnonzero(owner == part) for part in range(self.owned.parts)]
        for ranges, h in self._chunks(params, own, depth, node_type, self.owned.split(node_type, ids)):
            for part, rows in enumerate(np.split(to_host(h), self.owned.parts)):
                start, stop = ranges[part]
                made[places[part][start:stop]] = rows[: stop - start]
        return made

    def _layer(
        self, params: Any, own: Own, depth: int, node_type: str, nodes: Sequence[np.ndarray]
    ) -> dict[int, np.ndarray]:
        """Return the embeddings of a type's nodes, for each partition of this process in the order of its own nodes."""
        width = width_made(self.model.layers[depth], node_type)
        made = {part: np.empty((len(nodes[part]), width), np.float32) for part in own}
        for ranges, h in self._chunks(params, own, depth, node_type, nodes):
            for part, rows in local_rows(self.mesh, h).items():
                start, stop = ranges[part]
                made[part][start:stop] = rows[: stop - start]
        return made

    def _chunks(
        self, params: Any, own: Own, depth: int, node_type: str, nodes: Sequence[np.ndarray]
    ) -> Iterator[tuple[list[tuple[int, int]], jax.Array]]:
        """Yield the nodes that every partition computed, and their embeddings, `[parts * targets, width]`."""
        relations = self.graph.schema.into(node_type)
        indptr = [self.graph.relations[relation].indptr for relation in relations]
        every = []
        for ids in nodes:
            degrees = sum((pointers[ids + 1] - pointers[ids] for pointers in indptr), np.zeros(len(ids), np.int64))
            every.append(list(edge_ranges(degrees, self.edges)))
        for number in range(max(map(len, every))):
            ranges = [of[number] if number < len(of) else (0, 0) for of in every]
            drawn = []
            for ids, (start, stop) in zip(nodes, ranges):
                role = Role({node_type: np.ascontiguousarray(ids[start:stop], np.int32)}, relations)
                (block,), read = self.sampler.hop((role,), ALL, (), True, False)
                drawn.append((block, read))
            shares = divided(self.owned, drawn, depth, nothing, frozenset())
            size = max(stop - start for of in every for start, stop in of)
            yield ranges, self._computed(params, own, depth, node_type, size, shares)

    def _computed(
        self, params: Any, own: Own, depth: int, node_type: str, size: int, shares: Sequence[Share]
    ) -> jax.Array:
        """Compute the embeddings of a chunk of at most `size` targets in every partition."""
        groups = {
            name: Group(kind, read)
            for name, (kind, types) in self.groups[depth].items()
            if (read := tuple(t for t in types if t in shares[0].here))
        }
        pieces = divide(shares, groups, False, self.graph)
        for name, most_needed, most in measure(node_type, depth, shares, pieces, groups, self.graph):
            self.capacities.fit(name, most_needed, most)
        shape = room(self.capacities.by_name, node_type, depth, shares[0], pieces[0], groups, False, self.graph)

        def inputs(part: int) -> tuple:
            share = shares[part]
            x = {t: self._rows(own, depth, part, t, ids, shape.here[t]) for t, ids in share.here.items()}
            block, fetched = shape.padded(share, pieces[part], part, {node_type: size})
            return block, x, fetched

        program = self._program(depth, node_type, groups)
        return program(params, *from_shards(self.mesh, [inputs(part) for part in positions_here(self.mesh)]))

    def _rows(self, own: Own, depth: int, part: int, node_type: str, ids: np.ndarray, size: int) -> np.ndarray:
        if not depth and node_type in self.graph.features:
            return gather(self.graph.features[node_type], ids, size)
        return gather(own[part][node_type], self.owned.local[node_type][ids], size)

    def _program(self, depth: int, node_type: str, groups: Mapping[str, Group]) -> Program:
        if (depth, node_type) not in self.programs:
            function = functools.partial(self._embed, depth, node_type, groups)
            mapped = shard_map(function, self.mesh, (P(), P(DATA), P(DATA), P(DATA)), P(DATA))
            self.programs[depth, node_type] = Program("evaluation", mapped, self.mesh)
        return self.programs[depth, node_type]

    @forward_only()
    def _embed(self, depth, node_type, groups, params, block, x, fetched):
        h: Any = self.model.apply(params, depth, block, x, None, Fetch(fetched, groups), method="embed")
        return h[node_type]
