"""The share of a step that every partition does: the targets that it computes, layer by layer, and the rows that it lacks.

A node's master is the partition that owns it. A partition computes the embeddings of its own nodes that anybody reads, and of
those of others' nodes that it keeps a copy of (`Keep`). All other nodes that it reads are mirrors, whose embeddings their masters
send: each row once to each partition that reads it. So a node that several partitions reach is computed once, in a mini-batch too: the
sample of its neighbours depends on the node alone, so its master's embedding is that of every partition.
"""

import dataclasses
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hetjax.graph.schema import Relation
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import Block
from hetjax.sampling.sampler import Role, Sampler
from hetjax.system.compiled import compiled

Ids = Mapping[str, np.ndarray]  # per node type, int32


class Keep(Protocol):
    """The choice of the rows that a partition computes although others own them."""

    def __call__(self, depth: int, node_type: str, ids: np.ndarray, part: int) -> np.ndarray:
        """Return a bool for each of `ids`: whether `part` computes it itself.

        Args:
          depth: the depth of the rows: 0 are features, which are copied here or not; `k` the embeddings of layer `k`, counted from 1.
        """


def nothing(depth: int, node_type: str, ids: np.ndarray, part: int) -> np.ndarray:
    """Return False for all rows: no partition computes rows that others own."""
    return np.zeros(len(ids), bool)


class Names(Sampler):
    """The sampler that says who reads whom, and no more: edges have no weights and are not grouped by source, and the same hop of the same nodes
    is sampled once, because ways of dividing one sample differ in a part of it.
    """

    def __init__(self, of: Sampler):
        bare = {relation: csc._replace(weights=None) for relation, csc in of.graph.relations.items()}
        graph = dataclasses.replace(of.graph, relations=bare)
        super().__init__(graph, of.read_by_id, of.learnable, of.reads_own, of.named)
        self._known: dict[tuple, tuple[list[Block], dict[str, np.ndarray]]] = {}

    def hop(
        self,
        roles: Sequence[Role],
        fanout: int,
        stream: tuple,
        outermost: bool,
        gradients: bool = False,
        together: Container[Relation] = (),
    ) -> tuple[list[Block], dict[str, np.ndarray]]:
        nodes = tuple(tuple((t, ids.tobytes()) for t, ids in role.nodes.items()) for role in roles)
        asked = nodes, *((*role.relations, role.selves) for role in roles), fanout, stream, outermost
        if asked not in self._known:
            self._known[asked] = super().hop(roles, fanout, stream, outermost, False)
        return self._known[asked]


class Share(NamedTuple):
    """The share of one partition in one layer.

    Attributes:
      block: the edges of the partition, of exact size; its sources are numbered as `needed` is.
      needed: the nodes of the layer below whose rows the block reads.
      here: the nodes of the layer below whose rows are made on this device.
      origin: the partition that each row of `needed` comes from, uint8 per type; this partition for rows that are here.
      place: the row in `here`, or in the rows that the origin sends of the type, int32 per type of `needed`.
      sent: the rows of `here` that are sent, int32 per type and partition, in the order in which the partition reads them.
    """

    block: Block
    needed: Ids
    here: Ids
    origin: Ids
    place: Ids
    sent: Mapping[str, Sequence[np.ndarray]]


def shares(
    sampler: Sampler,
    owned: Owned,
    seeds: Sequence[Ids],
    fanouts: Sequence[int],
    stream: tuple,
    keep: Keep,
    every: frozenset[str] = frozenset(),
) -> list[tuple[Share, ...]]:
    """Return the shares of every partition, one per layer, the first layer's first.

    Args:
      sampler: the sampler of the whole graph.
      owned: the owner of each node.
      seeds: distinct ids per root type, for every partition; a partition computes the last embeddings of its own seeds, whoever owns them.
      fanouts, stream: as of `Sampler.sample`.
      keep: the rows of others' nodes that partitions compute.
      every: types of which every row is at hand, in the order in which its master holds them, whether it is read or not.
    """
    layers: list[list[Share]] = []
    targets = [dict(own) for own in seeds]
    for hop, fanout in enumerate(fanouts, start=1):
        depth = len(fanouts) - hop
        drawn = [_drawn(sampler, nodes, fanout, (*stream, hop), not depth) for nodes in targets]
        layers.insert(0, divided(owned, drawn, depth, keep, frozenset() if depth else every))
        targets = [dict(share.here) for share in layers[0]]
    if sampler.named:
        layers[0] = [share._replace(block=share.block._replace(sources=share.here)) for share in layers[0]]
    return list(zip(*layers))


def _drawn(sampler: Sampler, nodes: Ids, fanout: int, stream: tuple, outermost: bool) -> tuple[Block, Ids]:
    role = Role({t: np.ascontiguousarray(ids, np.int32) for t, ids in nodes.items()}, sampler.graph.schema.relations)
    (block,), needed = sampler.hop((role,), fanout, stream, outermost)
    return block, needed


def divided(
    owned: Owned, drawn: Sequence[tuple[Block, Ids]], depth: int, keep: Keep, every: frozenset[str]
) -> list[Share]:
    """Return the share of every partition in one layer, from the blocks that they aggregate and the nodes that these read."""
    parts, types = owned.parts, list(drawn[0][1])
    made = [Share(block, needed, {}, {}, {}, {}) for block, needed in drawn]
    for t in types:
        owner = owned.owner[t]
        read = [share.needed[t] for share in made]
        own = [owner[ids] == part for part, ids in enumerate(read)]
        stays = [mine | keep(depth, t, ids, part) for part, (ids, mine) in enumerate(zip(read, own))]
        fetched = [[ids[~stay & (owner[ids] == q)] for q in range(parts)] for ids, stay in zip(read, stays)]
        row = np.full(len(owner), -1, np.int32)
        for part, share in enumerate(made):
            asked = [fetched[other][part] for other in range(parts)]
            first = owned.ids[t][part] if t in every else owned.ids[t][part][:0]
            here = _distinct(row, np.concatenate([first, read[part][stays[part]], *asked]))
            share.here[t] = here  # type: ignore[index]
            share.sent[t] = [row[ids] for ids in asked]  # type: ignore[index]
            share.origin[t] = np.where(stays[part], part, owner[read[part]]).astype(np.uint8)  # type: ignore[index]
            share.place[t] = np.empty(len(read[part]), np.int32)  # type: ignore[index]
            share.place[t][stays[part]] = row[read[part][stays[part]]]
            row[here] = -1
            for q in range(parts):
                lacks = share.origin[t] == q
                if q != part:
                    share.place[t][lacks] = np.arange(np.count_nonzero(lacks), dtype=np.int32)
    return made


def _distinct(row: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the nodes that stand in `ids`, each once, in order; `row` then has their numbers."""
    fresh = np.empty(len(ids), np.int32)
    return fresh[: _number(row, ids, fresh)].copy()


@compiled
def _number(row, ids, fresh):
    count = 0
    for node in ids:
        if row[node] < 0:
            row[node] = count
            fresh[count] = node
            count += 1
    return count
