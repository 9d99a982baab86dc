"""From seed nodes to blocks: draw the neighbours hop by hop, renumber them, and turn the edges around for the gradient."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.compiled import compiled
from hetjax.errors import InputError
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.prefetch import prefetch
from hetjax.sampling import draw
from hetjax.sampling.blocks import MOST_EDGES, NO_NODE, Adjacency, Block, Sample, Whole

ALL = -1  # a fanout: every neighbour


class Role(NamedTuple):
    """Some nodes, and what is folded into them.

    Attributes:
      nodes: distinct ids per node type.
      relations: whose edges are drawn, for the nodes of their target types.
      selves: whether the block is to say where the nodes' own embeddings are among the sources.
    """

    nodes: Mapping[str, np.ndarray]
    relations: Sequence[Relation]
    selves: bool = True


class Edges(NamedTuple):
    """Edges that were drawn, grouped by target: int32 pointers and sources, float32 weights if they have any, and of a piece `whole`."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: "np.ndarray | None" = None
    whole: "Whole | None" = None


class Sampler:
    """Draws blocks from one graph. It keeps scratch memory, so one sampler serves one thread.

    Attributes:
      read_by_id: node types whose features the first layer reads from the whole matrix, by node id. Of all other types the
        nodes reached are numbered `0..n - 1` in the order in which they were first met, targets first.
      learnable: node types whose feature rows get a gradient.
      reads_own: whether layers read their targets' own embeddings. If not, targets are not among their sources, and blocks say
        that they have no row there.
      named: whether blocks say which nodes their rows are.
    """

    def __init__(
        self,
        graph: HetGraph,
        read_by_id: frozenset[str] = frozenset(),
        learnable: frozenset[str] = frozenset(),
        reads_own: bool = True,
        named: bool = False,
    ):
        self.graph, self.read_by_id, self.learnable = graph, read_by_id, learnable
        self.reads_own, self.named = reads_own, named
        self._row: dict[str, np.ndarray] = {}  # of every node, its row among those reached, or -1

    def sample(
        self, seeds: dict[str, np.ndarray], fanouts: Sequence[int], stream: tuple, gradients: bool = True
    ) -> Sample:
        """What the embeddings of `seeds` after `len(fanouts)` layers depend on.

        Args:
          seeds: distinct node ids per node type.
          fanouts: neighbours per node and relation, the seeds' own hop first; `ALL` takes every one.
          stream: what the draw is for, such as `(seed, epoch, step)`; hop, relation and node are added here.
          gradients: group the edges by source too, where a gradient will flow back along them.

        Raises:
          InputError: a pointer or id of the graph that is out of range, or more edges than int32 counts.
        """
        frontier = {node_type: np.ascontiguousarray(ids, np.int32) for node_type, ids in seeds.items()}
        blocks: list[Block] = []
        rows: list[dict[str, int]] = []
        for hop, fanout in enumerate(fanouts, start=1):
            role = Role(frontier, self.graph.schema.relations)
            (block,), frontier = self.hop((role,), fanout, (*stream, hop), hop == len(fanouts), gradients)
            blocks.insert(0, block)
            rows.insert(0, {node_type: len(ids) for node_type, ids in frontier.items()})
        if self.named:
            blocks[0] = blocks[0]._replace(sources=frontier)
        return Sample(tuple(blocks), frontier, tuple(rows))

    def hop(
        self, roles: Sequence[Role], fanout: int, stream: tuple, outermost: bool, gradients: bool = True
    ) -> tuple[list[Block], dict[str, np.ndarray]]:
        """Draw one hop.

        Args:
          roles: nodes and what is drawn for them; their sources are numbered together.
          fanout: neighbours per node and relation; `ALL` takes every one.
          stream: what the draw is for, such as `(seed, epoch, step, hop)`.
          outermost: whether the sources' features are read, rather than their embeddings.
          gradients: as in `sample`.

        Returns:
          `(a block per role, the source ids per node type)`; of types that are read in place there are no ids.
        """
        read_by_id = self.read_by_id if outermost else frozenset()
        reached: dict[str, list[np.ndarray]] = {}

        def number(node_type: str, ids: np.ndarray) -> np.ndarray:
            if node_type in read_by_id:
                return ids
            numbered = reached.setdefault(node_type, [])
            rows, fresh = self._number(node_type, ids, sum(map(len, numbered)))
            numbered.append(fresh)
            return rows

        def self_rows(node_type: str, ids: np.ndarray) -> np.ndarray:
            return number(node_type, ids) if self.reads_own else np.full(len(ids), NO_NODE)

        selves = [{t: self_rows(t, ids) for t, ids in role.nodes.items()} if role.selves else {} for role in roles]
        drawn: list[dict[Relation, Edges]] = []
        for role in roles:
            drawn.append({})
            for relation in role.relations:
                if relation.target in role.nodes:
                    piece = self.graph.relations[relation].piece
                    key = draw.key(*stream, piece.relation if piece else relation.key)
                    edges = self._draw(relation, role.nodes[relation.target], fanout, key)
                    drawn[-1][relation] = edges._replace(indices=number(relation.source, edges.indices))
        below = {node_type: np.concatenate(parts) for node_type, parts in reached.items()}

        def turned(relation: Relation, edges: Edges) -> Adjacency:
            flows = gradients and (not outermost or relation.source in self.learnable)
            return grouped(edges, len(below[relation.source]) if flows else None)

        blocks = [
            Block({r.key: turned(r, e) for r, e in into.items()}, own, role.nodes if self.named else {})
            for role, into, own in zip(roles, drawn, selves)
        ]
        for node_type, ids in below.items():
            _forget(self._row[node_type], ids)
        return blocks, below

    def everyone(self, relation: Relation, targets: np.ndarray) -> Edges:
        """All edges into some targets, by source id."""
        return self._draw(relation, np.ascontiguousarray(targets, np.int32), ALL, np.uint64(0))

    def _draw(self, relation: Relation, targets: np.ndarray, fanout: int, key: np.uint64) -> Edges:
        csc, sources = self.graph.relations[relation], self.graph.schema.nodes[relation.source]
        if csc.piece:
            return drawn_of_piece(csc, relation, sources, targets, fanout, key)
        indptr, always = np.empty(len(targets) + 1, np.int64), int(csc.loops)
        targets = targets.view()
        targets.flags.writeable = False  # always: numba compiles once more for arrays that may be written
        wrong = draw.count_neighbours(csc.indptr, targets, fanout, indptr, always)
        if wrong >= 0:
            raise InputError(f"relation {relation}: pointers fall after target {targets[wrong]}")
        if indptr[-1] > MOST_EDGES:
            raise InputError(
                f"relation {relation}: a batch has {indptr[-1]} edges, over {MOST_EDGES}; lower the batch size or the fanout"
            )
        indptr = indptr.astype(np.int32)
        indices = np.empty(indptr[-1], np.int32)
        wrong = draw.draw_neighbours(csc.indptr, csc.indices, sources, targets, key, indptr, indices, always)
        if wrong >= 0:
            node = csc.indices[wrong] if wrong < csc.edges else "beyond the last"
            raise InputError(
                f"relation {relation}: source of edge {wrong} is node {node}, but type {relation.source!r} has {sources} nodes"
            )
        if csc.weights is None:
            return Edges(indptr, indices)
        weights = np.empty(indptr[-1], np.float32)
        draw.draw_weights(csc.indptr, csc.weights, targets, key, indptr, weights, always)
        return Edges(indptr, indices, weights)

    def _number(self, node_type: str, ids: np.ndarray, known: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Number nodes in the order in which they are first met, from `known` on.

        Returns:
          `(the row of every id, the ids that were new)`.
        """
        if node_type not in self._row:
            self._row[node_type] = np.full(self.graph.schema.nodes[node_type], -1, np.int32)
        rows, fresh = np.empty(len(ids), np.int32), np.empty(len(ids), np.int32)
        count = _number_rows(self._row[node_type], ids, known, rows, fresh)
        return rows, fresh[:count].copy()


def drawn_of_piece(
    csc: CSC, relation: Relation, sources: int, targets: np.ndarray, fanout: int, key: np.uint64
) -> Edges:
    """Of the edges that are drawn of the whole relation those that a piece has, each with its place among its target's.

    Raises:
      InputError: a pointer or id out of range.
    """
    assert csc.piece
    piece = csc.piece.number, csc.piece.of
    indptr, totals = np.zeros(len(targets) + 1, np.int32), np.zeros(len(targets), np.int32)
    none = np.empty(0, np.int32)
    count = draw.draw_piece(csc.indptr, csc.indices, piece, targets, fanout, key, indptr, totals, none, none)
    if count > MOST_EDGES:
        raise InputError(f"relation {relation}: a batch has {count} edges, over {MOST_EDGES}; cut it into more pieces")
    indices, places = np.empty(max(0, count), np.int32), np.empty(max(0, count), np.int32)
    if count > 0:
        draw.draw_piece(csc.indptr, csc.indices, piece, targets, fanout, key, indptr, totals, indices, places)
    if count < 0 or (len(indices) and not 0 <= indices.min() <= indices.max() < sources):
        raise InputError(f"relation {relation}: a pointer or a source out of range, of {sources} nodes")
    return Edges(indptr, indices, None, Whole(totals, places))


def grouped(edges: Edges, sources: int | None) -> Adjacency:
    """An adjacency from edges that were drawn; arguments as of `group`."""
    return group(edges.indptr, edges.indices, sources, edges.weights)._replace(whole=edges.whole)


def group(indptr: np.ndarray, indices: np.ndarray, sources: int | None, weights: np.ndarray | None = None) -> Adjacency:
    """An adjacency from edges grouped by target; grouped by source too if the number of sources is given."""
    if sources is None:
        return Adjacency(indptr, indices, weights=weights)
    reverse_indptr, reverse_indices = np.empty(sources + 1, np.int32), np.empty(len(indices), np.int32)
    reverse_edges = np.empty(len(indices), np.int32)
    group_by_source(indptr, indices, reverse_indptr, reverse_indices, reverse_edges)
    return Adjacency(indptr, indices, reverse_indptr, reverse_indices, reverse_edges, weights)


@compiled
def _number_rows(row, ids, known, rows, fresh):
    count = 0
    for i in range(len(ids)):
        if i + draw.AHEAD < len(ids):
            prefetch(row, ids[i + draw.AHEAD])
        node = ids[i]
        if row[node] < 0:
            row[node] = known + count
            fresh[count] = node
            count += 1
        rows[i] = row[node]
    return count


@compiled
def _forget(row, ids):
    for i in range(len(ids)):
        row[ids[i]] = -1


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
