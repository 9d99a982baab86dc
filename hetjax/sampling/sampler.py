"""Blocks from seed nodes: the neighbours are sampled hop by hop and renumbered, and the edges are turned around for the gradient."""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sampling import draw
from hetjax.sampling.blocks import NO_NODE, Adjacency, Block, Sample
from hetjax.sampling.drawing import Edges, EdgeSampler, Request
from hetjax.sampling.numbering import Numbering
from hetjax.system.arrays import aligned
from hetjax.system.compiled import compiled
from hetjax.system.pointers import address, array_at

ALL = -1  # a fanout: every neighbour


class Role(NamedTuple):
    """Some nodes, and what is aggregated into them.

    Attributes:
      nodes: distinct ids per node type.
      relations: whose edges are sampled, for the nodes of their target types.
      selves: the types for which the block is to say where the nodes' own embeddings are among the sources; None: all.
      named: the types whose nodes the block is to name, whatever else the sampler names.
    """

    nodes: Mapping[str, np.ndarray]
    relations: Sequence[Relation]
    selves: "Container[str] | None" = None
    named: Container[str] = ()


class Sampler:
    """Sampler of blocks from one graph, in any number of threads, for each of which it keeps scratch memory.

    Attributes:
      read_by_id: node types whose features the first layer reads from the whole matrix, by node id. Of all other types the
        nodes reached are numbered `0..n - 1` in the order in which they were first met, targets first.
      learnable: node types whose feature rows get a gradient.
      reads_own: whether layers read their targets' own embeddings. If not, targets are not among their sources, and blocks say
        that they have no row there.
      named: whether blocks say which nodes their rows are.
      aggregated_together: per layer, relations whose edges are laid out anew (`models.grouping`): they are not grouped by source.
    """

    def __init__(
        self,
        graph: HetGraph,
        read_by_id: frozenset[str] = frozenset(),
        learnable: frozenset[str] = frozenset(),
        reads_own: bool = True,
        named: bool = False,
        aggregated_together: Sequence[Container[Relation]] = (),
    ):
        self.graph, self.read_by_id, self.learnable = graph, read_by_id, learnable
        self.reads_own, self.named, self.aggregated_together = reads_own, named, aggregated_together
        self.edge_sampler, self.numbering = EdgeSampler(graph), Numbering(graph.schema.nodes)

    def sample(
        self, seeds: dict[str, np.ndarray], fanouts: Sequence[int], stream: tuple, gradients: bool = True
    ) -> Sample:
        """Sample what the embeddings of `seeds` after `len(fanouts)` layers depend on.

        Args:
          seeds: distinct node ids per node type.
          fanouts: neighbours per node and relation, the seeds' own hop first; `ALL` takes every one.
          stream: the purpose of the sampling, such as `(seed, epoch, step)`; hop, relation and node are added here.
          gradients: group the edges by source too, where a gradient will flow back along them.

        Raises:
          InputError: a pointer or id of the graph that is out of range, or more edges than int32 counts.
        """
        targets = {node_type: np.ascontiguousarray(ids, np.int32) for node_type, ids in seeds.items()}
        frontier = targets
        blocks: list[Block] = []
        rows: list[dict[str, int]] = []
        for hop, fanout in enumerate(fanouts, start=1):
            role, depth = Role(frontier, self.graph.schema.relations), len(fanouts) - hop
            together = self.aggregated_together[depth] if self.aggregated_together else ()
            (block,), frontier = self.hop((role,), fanout, (*stream, hop), not depth, gradients, together)
            blocks.insert(0, block)
            rows.insert(0, {node_type: len(ids) for node_type, ids in frontier.items()})
        if self.named:
            blocks[0] = blocks[0]._replace(sources=frontier)
        return Sample(tuple(blocks), frontier, tuple(rows), targets)

    def hop(
        self,
        roles: Sequence[Role],
        fanout: int,
        stream: tuple,
        outermost: bool,
        gradients: bool = True,
        together: Container[Relation] = (),
    ) -> tuple[list[Block], dict[str, np.ndarray]]:
        """Sample one hop.

        Args:
          roles: nodes and what is sampled for them; their sources are numbered together.
          fanout: neighbours per node and relation; `ALL` takes every one.
          stream: the purpose of the sampling, such as `(seed, epoch, step, hop)`.
          outermost: whether the sources' features are read, rather than their embeddings.
          gradients: as in `sample`.
          together: relations whose edges are not grouped by source.

        Returns:
          `(a block per role, the source ids per node type)`; of types that are read in place there are no ids.
        """
        read_by_id = self.read_by_id if outermost else frozenset()
        into = [[r for r in role.relations if r.target in role.nodes] for role in roles]
        requests = [
            Request(r, role.nodes[r.target], draw.key(*stream, self._name(r)))
            for role, relations in zip(roles, into)
            for r in relations
        ]
        sampled = self.edge_sampler.sample(requests, fanout)
        selves = [
            {t: self._self_ids(ids) for t, ids in role.nodes.items() if role.selves is None or t in role.selves}
            for role in roles
        ]
        met = [(t, ids) for nodes in selves for t, ids in nodes.items() if self.reads_own]
        met += [(one.relation.source, edges.indices) for one, edges in zip(requests, sampled)]
        below = self.numbering.number([(t, ids) for t, ids in met if t not in read_by_id])
        flowing = {t for t in self.graph.schema.nodes if gradients and (not outermost or t in self.learnable)}
        turned = [one.relation.source in flowing and one.relation not in together for one in requests]
        sources = [len(below[one.relation.source]) if turns else None for one, turns in zip(requests, turned)]
        adjacencies = iter(grouped(sampled, sources))
        blocks = [
            Block({r.key: next(adjacencies) for r in relations}, rows, self._named(role))
            for role, relations, rows in zip(roles, into, selves)
        ]
        return blocks, below

    def _self_ids(self, ids: np.ndarray) -> np.ndarray:
        """Return ids that are to be numbered, or what blocks say where targets are no sources."""
        return np.array(ids, np.int32) if self.reads_own else np.full(len(ids), NO_NODE)

    def _named(self, role: Role) -> dict[str, np.ndarray]:
        return {t: ids for t, ids in role.nodes.items() if self.named or t in role.named}

    def _name(self, relation: Relation) -> str:
        """Return the name by which a relation is sampled: pieces are sampled as the whole relation is."""
        piece = self.graph.relations[relation].piece
        return piece.relation if piece else relation.key

    def everyone(self, relations: Sequence[Relation], targets: np.ndarray) -> list[Edges]:
        """Return all edges of some relations into some targets, by source id."""
        return self.edge_sampler.sample([Request(relation, targets, np.uint64(0)) for relation in relations], ALL)


def grouped(edges: Sequence[Edges], sources: Sequence[int | None]) -> list[Adjacency]:
    """Return adjacencies of sampled edges, each grouped by source too if the number of its sources is given."""
    adjacencies = [Adjacency(one.indptr, one.indices, weights=one.weights, whole=one.whole) for one in edges]
    flowing = [(number, count) for number, count in enumerate(sources) if count is not None]
    if not flowing:
        return adjacencies
    rows = np.cumsum([0, *(count + 1 for _, count in flowing)])
    places = np.cumsum([0, *(len(edges[number].indices) for number, _ in flowing)])
    indptr, targets, reverse_edges = (np.empty(size, np.int32) for size in (rows[-1], places[-1], places[-1]))
    table = [
        (address(edges[number].indptr), len(edges[number].indptr), address(edges[number].indices))
        for number, _ in flowing
    ]
    group_all(np.array(table, np.int64), rows, places, indptr, targets, reverse_edges)
    ends = zip(flowing, rows.tolist(), rows[1:].tolist(), places.tolist(), places[1:].tolist())
    for (number, _), a, b, c, d in ends:
        adjacencies[number] = adjacencies[number]._replace(
            reverse_indptr=indptr[a:b], reverse_indices=targets[c:d], reverse_edges=reverse_edges[c:d]
        )
    return adjacencies


def group(indptr: np.ndarray, indices: np.ndarray, sources: int | None, weights: np.ndarray | None = None) -> Adjacency:
    """Return an adjacency of edges grouped by target; grouped by source too if the number of sources is given."""
    if sources is None:
        return Adjacency(indptr, indices, weights=weights)
    reverse_indptr, reverse_indices, reverse_edges = (
        aligned((size,), np.int32) for size in (sources + 1, len(indices), len(indices))
    )
    group_by_source(indptr, indices, reverse_indptr, reverse_indices, reverse_edges)
    return Adjacency(indptr, indices, reverse_indptr, reverse_indices, reverse_edges, weights)


@compiled
def group_all(table, rows, places, indptr, targets, edges):
    """Group by source, as `group_by_source` does, one relation after the other, each from where `rows` and `places` say."""
    for number in range(len(table)):
        a, b, c, d = rows[number], rows[number + 1], places[number], places[number + 1]
        own_indptr = array_at(table[number, 0], table[number, 1], types.int32)
        own_indices = array_at(table[number, 2], d - c, types.int32)
        group_by_source(own_indptr, own_indices, indptr[a:b], targets[c:d], edges[c:d])


@compiled
def group_by_source(indptr, indices, reverse_indptr, reverse_indices, reverse_edges):
    """Fill the last three, as an `Adjacency` has them, of edges grouped by target; what lies behind the last edge stays."""
    reverse_indptr[:] = 0
    for edge in range(indptr[-1]):
        reverse_indptr[indices[edge] + 1] += 1
    for node in range(len(reverse_indptr) - 1):
        reverse_indptr[node + 1] += reverse_indptr[node]
    for target in range(len(indptr) - 1):
        for edge in range(indptr[target], indptr[target + 1]):
            source = indices[edge]
            reverse_indices[reverse_indptr[source]] = target
            reverse_edges[reverse_indptr[source]] = edge
            reverse_indptr[source] += 1
    for node in range(len(reverse_indptr) - 1, 0, -1):  # each pointer has become the next node's
        reverse_indptr[node] = reverse_indptr[node - 1]
    reverse_indptr[0] = 0
