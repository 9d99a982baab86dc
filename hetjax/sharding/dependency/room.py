"""The shapes of one layer's arrays, which all partitions share, and its arrays padded to them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import Block, edges_of, pad_adjacency, pad_block, relations_of, rows_of
from hetjax.sharding.dependency.exchange import Fetched, counts, mirrors
from hetjax.sharding.dependency.groups import Group
from hetjax.sharding.dependency.pieces import Piece, divided, own_rows, reads_own_elsewhere, whole
from hetjax.sharding.dependency.schedule import Schedule, schedule
from hetjax.sharding.dependency.shares import Share


class Room(NamedTuple):
    """Capacities of one layer.

    Attributes:
      needed: capacities of the rows that every piece reads, per type.
      here: capacities of the rows that are made on a device, per type.
      edges: capacities of the edges of every piece, per relation.
      groups: the types whose rows are sent, by name.
      schedules: the schedules of their collectives.
      own_here: as in `Fetched`.
    """

    needed: Sequence[Mapping[str, int]]
    here: Mapping[str, int]
    edges: Sequence[Mapping[Relation, int]]
    groups: Mapping[str, Group]
    schedules: Mapping[str, Schedule]
    own_here: bool

    def padded(
        self, share: Share, pieces: Sequence[Piece], part: int, targets: Mapping[str, int]
    ) -> tuple[Block, Fetched]:
        """Return a partition's block and the rows that it fetches, padded; there is room for `targets` per type. Source ids are left out."""
        own = own_rows(share, pieces, self.needed)
        block = share.block._replace(sources={}, adjacency=pieces[0].adjacency, self_rows=own)
        more = tuple(
            {r.key: pad_adjacency(piece.adjacency[r.key], targets[r.target], rows[r.source], edges[r]) for r in edges}
            for piece, rows, edges in zip(pieces[1:], self.needed[1:], self.edges[1:])
        )
        sent = {
            name: mirrors(share, pieces, part, group.types, self.schedules[name], self.here, self.needed)
            for name, group in self.groups.items()
        }
        return pad_block(block, targets, self.needed[0], self.edges[0]), Fetched(sent, more, self.own_here)


def divide(shares: Sequence[Share], groups: Mapping[str, Group], in_steps: bool, graph: HetGraph) -> list[list[Piece]]:
    """Return the pieces of one layer's shares.

    Args:
      in_steps: whether there is one for every step of a ring.
    """
    types = {t for group in groups.values() for t in group.types}
    source = {relation.key: relation.source for relation in graph.relations}
    if not in_steps or not types:
        return [whole(share) for share in shares]
    return [divided(share, part, len(shares), types, source) for part, share in enumerate(shares)]


def measure(
    use: str,
    depth: int,
    shares: Sequence[Share],
    pieces: Sequence[Sequence[Piece]],
    groups: Mapping[str, Group],
    graph: HetGraph,
) -> Iterator[tuple[str, int, int]]:
    """Measure one layer of all partitions, as `blocks.measure`: the needs of the partition that needs most."""
    for t, nodes in graph.schema.nodes.items():
        if t in shares[0].here:
            yield here_of(use, depth, t), max(len(share.here[t]) for share in shares), nodes
    for number, of in enumerate(zip(*pieces)):
        named = f"{use}/{number}"
        for t in of[0].rows:
            yield rows_of(named, depth, t), max(len(piece.rows[t]) for piece in of), graph.schema.nodes[t]
        for relation in relations_of(of[0].adjacency, graph):
            edges = max(len(piece.adjacency[relation.key].indices) for piece in of)
            yield edges_of(named, depth, relation), edges, graph.relations[relation].edges
    elsewhere = any(reads_own_elsewhere(share, part) for part, share in enumerate(shares))
    yield _own(use, depth), int(len(pieces[0]) > 1 and elsewhere), 1
    for name, (_, types) in groups.items():
        most = sum(graph.schema.nodes[t] for t in types)
        for (sender, receiver), size in np.ndenumerate(counts(shares, types)):
            yield _sent(use, depth, name, sender, receiver), int(size), most


def room(
    capacities: Mapping[str, int],
    use: str,
    depth: int,
    share: Share,
    pieces: Sequence[Piece],
    groups: Mapping[str, Group],
    ring: bool,
    graph: HetGraph,
) -> Room:
    """Return the room that capacities have for a layer, by the names of `measure`.

    Args:
      share, pieces: those of any partition; all have the same types and relations.
    """
    parts = range(next((len(sent) for sent in share.sent.values()), 0))
    schedules = {
        name: schedule(np.array([[capacities[_sent(use, depth, name, i, j)] for j in parts] for i in parts]), ring)
        for name in groups
    }
    needed = [{t: capacities[rows_of(f"{use}/{n}", depth, t)] for t in piece.rows} for n, piece in enumerate(pieces)]
    edges = [
        {r: capacities[edges_of(f"{use}/{n}", depth, r)] for r in relations_of(piece.adjacency, graph)}
        for n, piece in enumerate(pieces)
    ]
    edges[1:] = [{relation: size for relation, size in of.items() if size} for of in edges[1:]]
    here = {t: capacities[here_of(use, depth, t)] for t in share.here}
    return Room(needed, here, edges, groups, schedules, not capacities[_own(use, depth)])


def here_of(use: str, depth: int, node_type: str) -> str:
    """Return the name of the capacity of the rows that are made on a device."""
    return f"{use}/{depth}/here/{node_type}"


def _own(use: str, depth: int) -> str:
    return f"{use}/{depth}/own"


def _sent(use: str, depth: int, name: str, sender: int, receiver: int) -> str:
    return f"{use}/{depth}/sent/{name}/{sender}-{receiver}"
