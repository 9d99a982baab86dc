"""Relations that mini-batches aggregate together: their choice, the room of every batch for them, and the graph that is made of them."""

from collections.abc import Container, Iterator, Mapping, Sequence

from hetjax.cache.features import Features
from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels import grouping
from hetjax.kernels.grouping import Group
from hetjax.kernels.together import Bucket
from hetjax.sampling.blocks import Block, Capacities, Sample, rows_of
from hetjax.sharding.single.reading import first_batch
from hetjax.sharding.strategy import Setup

ENDS = "sources", "targets"


class FoldedTogether:
    """The groups of relations of like shapes, per layer.

    Args:
      graph: the graph that is sampled.
      layers: the relations that are aggregated together, per layer.
      flowing: the types whose input rows get a gradient.
      use: as of `Batches`.
    """

    def __init__(self, graph: HetGraph, layers: Sequence[Sequence[Group]], flowing: Container[str], use: str):
        self.graph, self.layers, self.flowing, self.use = graph, layers, flowing, use
        self.relations = [frozenset(relation for group in groups for relation in group.relations) for groups in layers]

    def paired(self, sample: Sample) -> Sample:
        """Return a sample in whose blocks the edges of the groups are `Pairs`."""
        made = [grouping.with_pairs(block, groups) for block, groups in zip(sample.blocks, self.layers, strict=True)]
        return sample._replace(blocks=tuple(made))

    def measure(self, sample: Sample) -> Iterator[tuple[str, int, int]]:
        """Measure the room that a sample needs for its pairs and their edges, as `blocks.measure`."""
        for depth, (groups, block) in enumerate(zip(self.layers, sample.blocks, strict=True)):
            for number, (group, pairs) in enumerate(zip(groups, block.pairs, strict=True)):
                needed = zip(group.sizes(pairs), map(self._most, group.buckets), strict=True)
                for bucket, (size, most) in enumerate(needed):
                    for end in _ends(group):
                        yield self._name(depth, number, bucket, end), getattr(size, end), getattr(most, end)
                edges = sum(self.graph.relations[relation].edges for relation in group.relations)
                yield self._name(depth, number, "edges"), len(pairs.places), edges

    def filled(
        self, capacities: Capacities, blocks: Sequence[Block], sample: Sample, seeds: Mapping[str, int]
    ) -> tuple[Block, ...]:
        """Return padded blocks, with the groups' graphs as large as their capacities.

        Args:
          blocks, seeds: as `pad_sample` gives and takes them.
        """
        made, targets = list(blocks), dict(seeds)
        for depth in reversed(range(len(made))):
            own = {t: capacities.by_name[rows_of(self.use, depth, t)] for t in sample.rows[depth]}
            sources = {**self.graph.schema.nodes, **own}  # all rows of what is read in place
            together = [
                self._graph(capacities, (depth, number), group, pairs, sources, targets)
                for number, (group, pairs) in enumerate(zip(self.layers[depth], sample.blocks[depth].pairs))
            ]
            made[depth], targets = made[depth]._replace(together=tuple(together)), own
        return tuple(made)

    def _graph(self, capacities, place, group, pairs, sources, targets):
        has = capacities.by_name
        buckets = [
            Bucket(
                len(relations),
                **dict.fromkeys(ENDS, 0) | {end: has[self._name(*place, bucket, end)] for end in _ends(group)},
            )
            for bucket, relations in enumerate(group.buckets)
        ]
        flows = place[0] > 0 or any(relation.source in self.flowing for relation in group.relations)
        return grouping.as_one(group, pairs, buckets, has[self._name(*place, "edges")], sources, targets, flows)

    def _most(self, bucket: Sequence) -> Bucket:
        """Return the most pairs that any of these relations can have."""
        nodes, edges = self.graph.schema.nodes, {r: self.graph.relations[r].edges for r in bucket}
        most = [max(min(nodes[getattr(r, end)], edges[r]) for r in bucket) for end in ("source", "target")]
        return Bucket(len(bucket), *most)

    def _name(self, depth: int, number: int, *place: int | str) -> str:
        return "/".join(map(str, (self.use, depth, "together", number, *place)))


def _ends(group: Group) -> tuple[str, ...]:
    """Return the ends of which a group has pairs."""
    return ENDS[:1] if group.joint else ENDS


def folded_together(setup: Setup, features: Features, read_by_id: frozenset[str]) -> FoldedTogether | None:
    """Return the relations that mini-batches aggregate together, by the number of pairs of each in the first batch; None: there are none.

    Args:
      read_by_id: the types that the first layer reads in place, whose relations are aggregated one by one there.
    """
    model, graph = setup.trainer.model, setup.graph
    if setup.regime.whole or len(graph.relations) < grouping.FEWEST:
        return None
    sample, layers = first_batch(setup), []
    for depth, (layer, block, rows) in enumerate(zip(model.layers, sample.blocks, sample.rows)):
        counts = {t: 0 for t in graph.schema.nodes} | dict(rows)
        whole = () if depth else read_by_id  # all of whose rows would be laid beside others'
        layers.append(grouping.groups(layer, block, counts, {*model.sparse(depth, features.static), *whole}))
    return FoldedTogether(graph, layers, setup.flowing, "train") if any(layers) else None
