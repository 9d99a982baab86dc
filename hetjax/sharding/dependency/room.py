"""The shapes of one layer's arrays, which all partitions share, and its arrays padded to them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import Block, edges_of, pad_block, relations_of, rows_of
from hetjax.sharding.dependency.exchange import Mirrors, counts, mirrors
from hetjax.sharding.dependency.groups import Group
from hetjax.sharding.dependency.schedule import Schedule, schedule
from hetjax.sharding.dependency.shares import Share


class Room(NamedTuple):
    """Capacities of one layer.

    Attributes:
      needed, here: of the rows that blocks read, and of those that are made on a device, per type.
      edges: per relation.
      groups: the types whose rows are sent, by name.
      schedules: of their collectives.
    """

    needed: Mapping[str, int]
    here: Mapping[str, int]
    edges: Mapping[Relation, int]
    groups: Mapping[str, Group]
    schedules: Mapping[str, Schedule]

    def block(self, share: Share, targets: Mapping[str, int]) -> Block:
        """A partition's block; of `targets` there is room for so many, per type. Sources are named by none."""
        return pad_block(share.block._replace(sources={}), targets, self.needed, self.edges)

    def mirrors(self, share: Share, part: int) -> dict[str, Mirrors]:
        """What a partition sends and reads of every group."""
        return {
            name: mirrors(share, part, group.types, self.schedules[name], self.here, self.needed)
            for name, group in self.groups.items()
        }


def measure(
    use: str, depth: int, shares: Sequence[Share], groups: Mapping[str, Group], graph: HetGraph
) -> Iterator[tuple[str, int, int]]:
    """As `blocks.measure`, of one layer of all partitions: what the one that needs most needs."""
    for t, nodes in graph.schema.nodes.items():
        if t in shares[0].here:
            yield rows_of(use, depth, t), max(len(share.needed[t]) for share in shares), nodes
            yield here_of(use, depth, t), max(len(share.here[t]) for share in shares), nodes
    for relation in relations_of(shares[0].block, graph):
        edges = max(len(share.block.adjacency[relation.key].indices) for share in shares)
        yield edges_of(use, depth, relation), edges, graph.relations[relation].edges
    for name, (_, types) in groups.items():
        most = sum(graph.schema.nodes[t] for t in types)
        for (sender, receiver), size in np.ndenumerate(counts(shares, types)):
            yield _sent(use, depth, name, sender, receiver), int(size), most


def room(
    capacities: Mapping[str, int],
    use: str,
    depth: int,
    share: Share,
    groups: Mapping[str, Group],
    ring: bool,
    graph: HetGraph,
) -> Room:
    """What capacities have for a layer, by the names of `measure`.

    Args:
      share: any partition's; all have the same types and relations.
    """
    parts = range(next((len(sent) for sent in share.sent.values()), 0))
    schedules = {
        name: schedule(np.array([[capacities[_sent(use, depth, name, i, j)] for j in parts] for i in parts]), ring)
        for name in groups
    }
    return Room(
        {t: capacities[rows_of(use, depth, t)] for t in share.here},
        {t: capacities[here_of(use, depth, t)] for t in share.here},
        {relation: capacities[edges_of(use, depth, relation)] for relation in relations_of(share.block, graph)},
        groups,
        schedules,
    )


def here_of(use: str, depth: int, node_type: str) -> str:
    """The name of the capacity of the rows that are made on a device."""
    return f"{use}/{depth}/here/{node_type}"


def _sent(use: str, depth: int, name: str, sender: int, receiver: int) -> str:
    return f"{use}/{depth}/sent/{name}/{sender}-{receiver}"
