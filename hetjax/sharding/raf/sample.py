"""The sample of one partition: the relations that it owns for the seeds, and all relations that are needed for the nodes below them.

Seeds and inner nodes are different roles, with a block each in every layer. An inner node has all of its relations in
the partition, so its embeddings are complete; a seed has only those that the partition owns, so its partial aggregates are
partial. A node that is both keeps both roles: sampling is a function of the node, so both sample the same neighbours.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.partition.metatree import LocalModel
from hetjax.sampling.blocks import NO_NODE, Block, Capacities, edges_of, pad, pad_block, relations_of, rows_of
from hetjax.sampling.sampler import Role, Sampler, grouped
from hetjax.sampling.whole import whole_relation
from hetjax.system.arrays import Array


class Roles(NamedTuple):
    """The two roles of one layer of a partition; both read the same source rows.

    Attributes:
      seeds: into the seeds; `self_rows` says where their own rows are, and is empty where the partition's sources do not
        have them: then they are known from the exchange, or nothing looks at them.
      inner: into all other nodes; the first layer's says which nodes the sources of both are.
    """

    seeds: Block
    inner: Block


class Local(NamedTuple):
    """A partition's part of a batch.

    Attributes:
      blocks: one per layer, the first layer's first.
      inputs: int32 node ids per node type whose feature rows are gathered; as in `Batch`.
      rows: as in `Batch`.
      picks: the picks of the seeds and of the other nodes where columns are divided, as of `push_pull.exchange.Push`.
    """

    blocks: tuple[Roles, ...]
    inputs: Mapping[str, Array]
    rows: Mapping[str, jax.Array] = {}
    picks: tuple[Mapping[str, Array], Mapping[str, Array]] = ({}, {})


class LocalSample(NamedTuple):
    """A `Local` of exact sizes, per layer and node type the number of source rows, and the seeds per root type."""

    blocks: tuple[Roles, ...]
    inputs: Mapping[str, np.ndarray]
    rows: tuple[Mapping[str, int], ...]
    seeds: Mapping[str, np.ndarray]


class PartitionModel(NamedTuple):
    """The part of the model that a partition computes.

    Attributes:
      local_model: the relations that are aggregated, from the plan.
      roots: the seeds' types.
      owners: per root type the numbers of the partitions that aggregate anything into its seeds.
      exchanged: whether the seeds' partial aggregates are combined after every layer, rather than after the last alone.
      reads_own: whether layers read their targets' own embeddings.
      cuts: the relations that are cut, each with the keys of its pieces.
    """

    local_model: LocalModel
    roots: tuple[str, ...]
    owners: Mapping[str, tuple[int, ...]]
    exchanged: bool
    reads_own: bool
    cuts: tuple[tuple[Relation, tuple[str, ...]], ...] = ()

    @property
    def lacks(self) -> frozenset[str]:
        """Return the root types into whose seeds the partition aggregates nothing."""
        seeds = self.local_model.layers[-1].seeds
        return frozenset(self.roots).difference([r.target for r in seeds.relations], seeds.selves)

    def reads_seeds(self, depth: int) -> tuple[str, ...]:
        """Return the root types whose seeds' own rows are among the sources of layer `depth`.

        They are where their features are, if they look at themselves; above that they come from the exchange. Without
        an exchange only the owner of their self term reads them, in the last layer.
        """
        if self.exchanged:
            return () if depth else self.roots
        return self.local_model.layers[depth].seeds.selves


def draw_local(
    sampler: Sampler, share: PartitionModel, seeds: Mapping[str, np.ndarray], fanouts: Sequence[int], stream: tuple
) -> LocalSample:
    """Sample a partition's neighbours of `seeds`: the same that one device samples, those of its relations.

    Args:
      sampler: the sampler of the partition's graph.
      seeds, fanouts, stream: as in `Sampler.sample`.
    """
    inner: dict[str, np.ndarray] = {}
    blocks: list[Roles] = []
    rows: list[dict[str, int]] = []
    for hop, fanout in enumerate(fanouts, start=1):
        depth = len(fanouts) - hop
        layer = share.local_model.layers[depth]
        roles = (
            Role(seeds, layer.seeds.relations, share.reads_seeds(depth), share.lacks),
            Role(inner, layer.inner.relations),
        )
        folded, inner = sampler.hop(roles, fanout, (*stream, hop), depth == 0)
        blocks.insert(0, Roles(*folded))
        rows.insert(0, {node_type: len(ids) for node_type, ids in inner.items()})
    if sampler.named:
        blocks[0] = blocks[0]._replace(inner=blocks[0].inner._replace(sources=inner))
    return LocalSample(tuple(blocks), inner, tuple(rows), seeds)


def whole_local(sampler: Sampler, share: PartitionModel, seeds: Mapping[str, np.ndarray]) -> LocalSample:
    """Return all edges that a partition aggregates for `seeds`; inner nodes are all of their types, each the row of its id."""
    graph, program = sampler.graph, share.local_model
    adjacency = {r: whole_relation(graph, r) for layer in program.layers for r in layer.inner.relations}
    blocks, rows = [], []
    for depth, layer in enumerate(program.layers):
        relations = layer.seeds.relations
        found = [sampler.everyone([r], seeds[r.target])[0] for r in relations]
        edges = grouped(found, [graph.schema.nodes[r.source] for r in relations])
        folded = {r.key: into for r, into in zip(relations, edges)}
        own = {t: seeds[t] for t in share.reads_seeds(depth)}
        self_rows = {
            t: None if share.reads_own else np.full(graph.schema.nodes[t], NO_NODE) for t in program.types[depth + 1]
        }
        named = dict.fromkeys(program.types[depth + 1]), dict.fromkeys(graph.schema.nodes)
        inner = Block({r.key: adjacency[r] for r in layer.inner.relations}, self_rows, *named)
        blocks.append(Roles(Block(folded, own, seeds), inner))
        rows.append({t: graph.schema.nodes[t] for t in (program.types[depth] if depth else program.reads)})
    return LocalSample(tuple(blocks), {}, tuple(rows), seeds)


def measure_local(use: str, sample: LocalSample, graph: HetGraph) -> Iterator[tuple[str, int, int]]:
    """Measure a partition's sample, as `blocks.measure`."""
    for depth, (roles, rows) in enumerate(zip(sample.blocks, sample.rows)):
        for node_type, size in rows.items():
            yield rows_of(use, depth, node_type), size, graph.schema.nodes[node_type]
        for role, block in zip(Roles._fields, roles):
            for relation in relations_of(block.adjacency, graph):
                size = len(block.adjacency[relation.key].indices)
                yield edges_of(f"{use}/{role}", depth, relation), size, graph.relations[relation].edges


def pad_local(
    capacities: Capacities, use: str, sample: LocalSample, seeds: Mapping[str, int], graph: HetGraph
) -> Local:
    """Pad a sample to the plan's capacities, which must hold it.

    Args:
      seeds: the capacity of the seeds, per root type.
    """
    blocks: list[Roles] = []
    inner: Mapping[str, int] = {}
    for depth in reversed(range(len(sample.blocks))):
        sources = {t: capacities.by_name[rows_of(use, depth, t)] for t in sample.rows[depth]}
        roles = []
        for role, block, targets in zip(Roles._fields, sample.blocks[depth], (seeds, inner)):
            edges = {
                r: capacities.by_name[edges_of(f"{use}/{role}", depth, r)] for r in relations_of(block.adjacency, graph)
            }
            roles.append(pad_block(block, targets, sources, edges))
        blocks.insert(0, Roles(*roles))
        inner = sources
    return Local(tuple(blocks), {t: pad(ids, inner[t], NO_NODE) for t, ids in sample.inputs.items()})
