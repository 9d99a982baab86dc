"""Relations whose edges several partitions aggregate: the partial aggregates that each gives the seeds, and their combination into one relation.

For a whole relation a partition gives the combined aggregate: a mean, or the result of a softmax. For a piece it gives the aggregate of its edges,
edge by edge, which `edge_monoid` combines over partitions (a mean's share of the sum over all edges; a softmax's maximum,
denominator and numerator); only then `aggregate.relation_total` makes of it the aggregate that relations combine.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hetjax.kernels import partials
from hetjax.kernels.partials import Monoid, is_softmax
from hetjax.models import aggregate
from hetjax.models.dropout import Masks
from hetjax.models.exchange import LOCAL, Exchange
from hetjax.models.layer import Layer
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.sharding.raf.sample import PartitionModel


class Partial(NamedTuple):
    """The partial aggregates that a partition gives the seeds.

    Attributes:
      total: the aggregate of the relations that it has whole, and of the self term.
      pieces: the partial aggregate of the partition's own edges, per relation that is cut; none for a relation without edges here.
    """

    total: Any
    pieces: tuple[Any, ...] = ()


class Pieces(Exchange):
    """The pieces of relations that a partition has, each aggregated on its own: an inner node has all of its pieces here."""

    def __init__(self, share: PartitionModel):
        self.cuts = share.cuts

    def pieces(self, block: Block, sources: Any) -> Sequence[tuple[Mapping[str, Adjacency], Mapping[str, Any]]]:
        here = [
            {relation.key: block.adjacency[keys[number]]}
            for relation, keys in self.cuts
            for number in range(len(keys))
            if keys[number] in block.adjacency
        ]
        cut = {key for _, keys in self.cuts for key in keys}
        whole = {key: edges for key, edges in block.adjacency.items() if key not in cut}
        return [(whole, sources), *((edges, sources) for edges in here)]


def fold_seeds(
    layer: Layer,
    share: PartitionModel,
    block: Block,
    sources: Any,
    own: jax.Array | None,
    selves: Sequence[str],
    masks: Masks | None = None,
    exchange: Exchange = LOCAL,
) -> Partial:
    """Return the partial aggregates that a partition's relations, and pieces of relations, give the seeds; inside a method of the model.

    Args:
      block: the block of the seeds.
      sources: the source inputs of the layer.
      own: the seeds' embeddings below; None where nothing looks at them.
      selves, masks: as in `aggregate.aggregate`.
      exchange: the exchange of a layer whose columns are divided, by which whole relations are aggregated.
    """
    seeds_own = {} if own is None else {share.target: own}
    groups = Pieces(share).pieces(block, sources)
    whole = block._replace(adjacency=groups[0][0])
    total = aggregate.aggregate(layer, whole, sources, seeds_own, selves, masks, exchange).get(share.target)
    if not share.cuts:
        return Partial(total)
    cut = {
        r: [(of[r.key], of_sources[r.source]) for of, of_sources in groups[1:] if r.key in of] for r, _ in share.cuts
    }
    here = [relation for relation, edges in cut.items() if edges]
    targets = None
    if layer.traits.reads_target and own is not None:
        targets = aggregate.target_inputs(layer, share.target, own, here)
    folded = []
    for relation, keys in share.cuts:
        edges = cut[relation]
        folded.append(aggregate.aggregate_edges(layer, relation, edges, block, targets, masks) if edges else None)
        assert edges or not set(keys) & block.adjacency.keys()
    known = next(one for one in (total, *folded) if one is not None)
    count, dtype = jax.tree.leaves(known)[-1].shape[0], jax.tree.leaves(known)[-1].dtype
    folded = [without_edges(layer, count, dtype) if one is None else one for one in folded]
    if total is None:
        total = partials.neutral(aggregate.relation_total(layer, folded[0]))
    return Partial(total, tuple(folded))


def without_edges(layer: Layer, targets: int, dtype: DTypeLike) -> Any:
    """Return the partial aggregate of no edges, for a layer with an `edge_monoid`."""
    traits = layer.traits
    if is_softmax(traits.edge_monoid):
        return partials.unattended(targets, traits.heads, traits.head_width, dtype)
    return jnp.zeros((targets, layer.features), dtype)


def united(layer: Layer, share: PartitionModel, partial: Partial, combine: Callable[[Monoid, Any], Any]) -> Any:
    """Return the combined aggregate of all partitions.

    Args:
      combine: maps a monoid and the partial aggregates of every partition to their combination.
    """
    traits = layer.traits
    total = combine(traits.monoid, partial.total)
    for _, edges in zip(share.cuts, partial.pieces, strict=True):
        assert traits.edge_monoid
        together = aggregate.relation_total(layer, combine(traits.edge_monoid, edges))
        total = traits.monoid.combine(total, together)
    return total
