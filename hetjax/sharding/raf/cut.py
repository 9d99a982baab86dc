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
    own: Mapping[str, jax.Array],
    selves: Sequence[str],
    masks: Masks | None = None,
    exchange: Exchange = LOCAL,
    roots: Sequence[str] | None = None,
) -> dict[str, Partial]:
    """Return the partial aggregates that a partition's relations, and pieces of relations, give the seeds; inside a method of the model.

    A root type has some if any partition aggregates anything into its seeds. A partition that does not gives the neutral element of
    a sum, a mean or a softmax; of other monoids it counts for nothing (`across`).

    Args:
      block: the block of the seeds; it names those into which the partition aggregates nothing.
      sources: the source inputs of the layer.
      own: the seeds' embeddings below, per root type; types at which nothing looks may be absent.
      selves, masks: as in `aggregate.aggregate`.
      exchange: the exchange of a layer whose columns are divided, by which whole relations are aggregated.
      roots: the root types that are wanted, into one of which the partition aggregates; None: all.
    """
    groups = Pieces(share).pieces(block, sources)
    whole = block._replace(adjacency=groups[0][0])
    totals = aggregate.aggregate(layer, whole, sources, own, selves, masks, exchange)
    made = {}
    wanted = [t for t in share.roots if share.owners[t] and (roots is None or t in roots)]
    for root in wanted:
        cut = {
            r: [(of[r.key], of_sources[r.source]) for of, of_sources in groups[1:] if r.key in of]
            for r, _ in share.cuts
            if r.target == root
        }
        here, targets = [relation for relation, edges in cut.items() if edges], None
        if layer.traits.reads_target and root in own:
            targets = aggregate.target_inputs(layer, root, own[root], here)
        pieces = [
            aggregate.aggregate_edges(layer, r, edges, block, targets, masks) if edges else None
            for r, edges in cut.items()
        ]
        made[root] = totals.get(root), pieces
    known = next(one for total, pieces in made.values() for one in (total, *pieces) if one is not None)
    return {t: _filled(layer, *made[t], known, block.targets.get(t)) for t in wanted}


def _filled(layer: Layer, total: Any, pieces: Sequence[Any], known: Any, seeds: Any) -> Partial:
    """Return the partial aggregates of seeds of one type, with neutral elements for those that are None.

    Args:
      known: a partial aggregate of the layer, of any root type.
      seeds: the ids of the seeds; None will do if anything is aggregated into them.
    """
    own = next((one for one in (total, *pieces) if one is not None), None)
    dtype, rows = jax.tree.leaves(known)[-1].dtype, len(seeds if own is None else jax.tree.leaves(own)[-1])
    edges = [without_edges(layer, rows, dtype) if one is None else one for one in pieces]
    if total is None:
        like = aggregate.relation_total(layer, edges[0]) if edges else known
        total = partials.neutral(jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape[1:]), leaf.dtype), like))
    return Partial(total, tuple(edges))


def without_edges(layer: Layer, targets: int, dtype: DTypeLike) -> Any:
    """Return the partial aggregate of no edges, for a layer with an `edge_monoid`."""
    traits = layer.traits
    if is_softmax(traits.edge_monoid):
        return partials.unattended(targets, traits.heads, traits.head_width, dtype)
    return jnp.zeros((targets, layer.features), dtype)


def united(
    layer: Layer, share: PartitionModel, partial: Mapping[str, Partial], combine: Callable[[Monoid, Any, Any], Any]
) -> dict[str, Any]:
    """Return the combined aggregates of all partitions, per root type.

    Args:
      combine: maps a monoid, the partial aggregates of every partition and the numbers of those that have any to their combination.
    """
    return {t: _united(layer, share, t, own, combine) for t, own in partial.items()}


def _united(
    layer: Layer, share: PartitionModel, root: str, partial: Partial, combine: Callable[[Monoid, Any, Any], Any]
) -> Any:
    traits, owners = layer.traits, share.owners[root]
    total = combine(traits.monoid, partial.total, owners)
    for edges in partial.pieces:
        assert traits.edge_monoid
        together = aggregate.relation_total(layer, combine(traits.edge_monoid, edges, owners))
        total = traits.monoid.combine(total, together)
    return total
