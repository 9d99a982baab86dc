"""The sample of a group of replicas: each samples its own neighbourhood above the cut, and all share what lies below it.

The cut is between the first layer and the second where the first is aggregated on slices of the columns, and below the first layer
where replicas are given whole rows. Below it a node that several replicas read is sampled, gathered and aggregated once: sampling is a
function of the node, so each replica would have sampled the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.sampling.blocks import (
    NO_NODE,
    Block,
    Capacities,
    edges_of,
    pad,
    pad_block,
    relations_of,
    rows_of,
)
from hetjax.sampling.sampler import Role, Sampler

Nodes = Mapping[str, np.ndarray]  # distinct ids per node type
Roles = Callable[[int, Nodes, Nodes], Sequence[Role]]
"""What layer `depth` folds, from the seeds and the nodes whose embeddings the layer above reads."""


class Layers(NamedTuple):
    """Blocks of exact sizes.

    Attributes:
      blocks: a block for each role of each layer, the lowest layer first.
      rows: the number of source rows per layer and node type.
      bottom: the nodes that the lowest layer reads.
    """

    blocks: tuple[tuple[Block, ...], ...]
    rows: tuple[Mapping[str, int], ...]
    bottom: Nodes


class GroupSample(NamedTuple):
    """The sample that the replicas of a group read.

    Attributes:
      seeds: the seeds of each replica.
      above: the layers above the cut, of each replica.
      united: the seeds of all replicas, and the nodes at the cut, ascending.
      below: the layer below the cut, of all replicas together; no blocks where there is none.
    """

    seeds: Sequence[Nodes]
    above: Sequence[Layers]
    united: tuple[Nodes, Nodes]
    below: Layers


def draw_group(
    sampler: Sampler, roles: Roles, seeds: Sequence[Nodes], top: Sequence[Nodes], cut: int, *drawn: tuple
) -> GroupSample:
    """Sample the neighbourhoods of the seeds of a group's replicas.

    Args:
      seeds: the seeds of each replica.
      top: the other nodes of each replica to which the last layer gives embeddings: those whose neighbourhoods are sampled.
      cut: the number of layers below it, 0 or 1.
      *drawn: `(fanouts, stream)`, as of `Sampler.sample`.
    """
    layers = len(drawn[0])
    above = [
        _descend(sampler, roles, own, nodes, range(layers - 1, cut - 1, -1), *drawn) for own, nodes in zip(seeds, top)
    ]
    united = _united(seeds), _united([of.bottom for of in above])
    below = _descend(sampler, roles, *united, range(cut - 1, -1, -1), *drawn)
    return GroupSample(seeds, above, united, below)


def _descend(
    sampler: Sampler, roles: Roles, seeds: Nodes, nodes: Nodes, depths: range, fanouts: Sequence[int], stream: tuple
) -> Layers:
    blocks: list[tuple[Block, ...]] = []
    rows: list[Mapping[str, int]] = []
    for depth in depths:
        hop = len(fanouts) - depth
        folded, nodes = sampler.hop(roles(depth, seeds, nodes), fanouts[hop - 1], (*stream, hop), depth == 0)
        blocks.insert(0, tuple(folded))
        rows.insert(0, {t: len(ids) for t, ids in nodes.items()})
    if sampler.named and blocks and not depths[-1]:
        *others, last = blocks[0]
        blocks[0] = *others, last._replace(sources=nodes)
    return Layers(tuple(blocks), tuple(rows), nodes)


def _united(every: Sequence[Nodes]) -> dict[str, np.ndarray]:
    types = dict.fromkeys(t for nodes in every for t in nodes)
    return {t: np.unique(np.concatenate([nodes[t] for nodes in every if t in nodes])) for t in types}


def measure_layers(use: str, layers: Layers, start: int, graph: HetGraph) -> Iterator[tuple[str, int, int]]:
    """Measure layers from `start` on, as `blocks.measure`."""
    for depth, (roles, rows) in enumerate(zip(layers.blocks, layers.rows), start):
        for t, size in rows.items():
            yield rows_of(use, depth, t), size, graph.schema.nodes[t]
        for role, block in enumerate(roles):
            for relation in relations_of(block.adjacency, graph):
                size = len(block.adjacency[relation.key].indices)
                yield edges_of(f"{use}/{role}", depth, relation), size, graph.relations[relation].edges


def measure_group(use: str, sample: GroupSample, cut: int, graph: HetGraph) -> Iterator[tuple[str, int, int]]:
    """Measure every capacity of the replica that needs most."""
    for layers in sample.above:
        yield from measure_layers(use, layers, cut, graph)
    for t, ids in sample.united[1].items():
        yield f"{use}/united/{t}", len(ids), graph.schema.nodes[t]
    yield from measure_layers(f"{use}/together", sample.below, 0, graph)


class Padded(NamedTuple):
    """A group's sample in its capacities.

    Attributes:
      above: a block for each role of each layer above the cut, of each replica.
      below: the same for the layer below the cut.
      inputs: int32 node ids per type, whose slices the group reads.
      picks: int32 `[replicas, rows]` per type, for the seeds and for the nodes at the cut: the positions of each replica's nodes among all.
    """

    above: list[tuple[tuple[Block, ...], ...]]
    below: tuple[tuple[Block, ...], ...]
    inputs: dict[str, np.ndarray]
    picks: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def pad_group(
    capacities: Capacities,
    use: str,
    sample: GroupSample,
    rooms: Mapping[str, int],
    top: Mapping[str, int],
    graph: HetGraph,
) -> Padded:
    """Pad a sample to capacities, which must hold it.

    Args:
      rooms: the capacities of a replica's seeds, per root type.
      top: the capacities of the nodes that replicas began with besides their seeds.
    """
    fit, layers_below = capacities.by_name, len(sample.below.blocks)
    united = {t: fit[f"{use}/united/{t}"] for t in sample.united[1]}
    above = [_padded(fit, use, layers, layers_below, (rooms, top), graph) for layers in sample.above]
    every = {t: len(sample.above) * room for t, room in rooms.items()}, united
    blocks, bottom = _padded(fit, f"{use}/together", sample.below, 0, every, graph)
    inputs = {t: np.asarray(pad(ids.astype(np.int32), bottom[t], NO_NODE)) for t, ids in sample.below.bottom.items()}
    seeds, nodes = sample.united
    bottoms, tops = [layers.bottom for layers in sample.above], above[0][1]
    picks = (
        {t: np.stack([_places(seeds[t], own[t], room) for own in sample.seeds]) for t, room in rooms.items()},
        {t: np.stack([_places(ids, of.get(t, ids[:0]), tops[t]) for of in bottoms]) for t, ids in nodes.items()},
    )
    return Padded([found for found, _ in above], blocks, inputs, picks)


def _places(united: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(pad(np.searchsorted(united, ids).astype(np.int32), size, NO_NODE))


def _padded(
    capacities: Mapping[str, int],
    use: str,
    layers: Layers,
    start: int,
    targets: tuple[Mapping[str, int], Mapping[str, int]],
    graph: HetGraph,
) -> tuple[tuple[tuple[Block, ...], ...], Mapping[str, int]]:
    """The layers from `start` on, and how many rows the lowest reads.

    Args:
      targets: the capacities of the last layer's seeds and other nodes; a layer's last role is that of the others.
    """
    seeds, nodes = targets
    padded: list[tuple[Block, ...]] = []
    for depth in range(start + len(layers.blocks) - 1, start - 1, -1):
        roles, rows = layers.blocks[depth - start], layers.rows[depth - start]
        sources = {t: capacities[rows_of(use, depth, t)] for t in rows}
        blocks = []
        for role, block in enumerate(roles):
            edges = {r: capacities[edges_of(f"{use}/{role}", depth, r)] for r in relations_of(block.adjacency, graph)}
            blocks.append(pad_block(block, nodes if role == len(roles) - 1 else seeds, sources, edges))
        padded.insert(0, tuple(blocks))
        nodes = sources
    return tuple(padded), nodes
