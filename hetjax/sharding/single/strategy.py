"""The strategy of one device."""

from collections.abc import Callable
from typing import Any

import jax

from hetjax.cache import sparse
from hetjax.cache.features import Features
from hetjax.cache.placement import choose_placement
from hetjax.cache.sparse import SparseRows, density
from hetjax.models import orders
from hetjax.models.grouping import with_together
from hetjax.models.known import with_known
from hetjax.sampling.blocks import Batch, Block
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.single import declared
from hetjax.sharding.single.batches import SingleBatches
from hetjax.sharding.single.engine import SingleEngine
from hetjax.sharding.strategy import Setup, Strategy, read_in_place


class Single(declared.Single, Strategy):
    """Nothing is divided, nothing is sent."""

    def engine(self, setup: Setup, partitioning: None = None) -> SingleEngine:
        return engine_on(setup)


def engine_on(setup: Setup, device: jax.Device | None = None) -> SingleEngine:
    """What trains a graph on one device, if not given the first one.

    Raises:
      InputError: features do not fit where they are to live.
    """
    graph, trainer = setup.graph, setup.trainer
    placement = choose_placement(setup.config.cache, graph, trainer.widths, trainer.learnable, [graph])
    features = Features(graph, trainer.widths, trainer.learnable, placement, setup.tables, device, without_zeros(setup))

    def to_device(batch: Batch) -> Batch:
        if not setup.regime.whole:
            return features.send(batch)
        blocks = tuple(
            with_together(layer, block, graph.schema.nodes, trainer.model.sparse(depth, features.static))
            for depth, (layer, block) in enumerate(zip(trainer.model.layers, batch.blocks))
        )
        sent = features.send(batch._replace(blocks=blocks))
        return sent._replace(blocks=known(setup, features, sent.blocks))

    return SingleEngine(setup, make_batches(setup, features, to_device), features)


def without_zeros(setup: Setup) -> frozenset[str]:
    """The types whose features are kept without zeros, if they are mostly zeros.

    All rows of such features are multiplied at every step, by `move` a number that is not zero; with zeros those that a step
    reads are, by `multiply` a number (`orders.Costs`). So in mini-batches it pays where a batch, here the first, reads enough.
    """
    model, graph, costs = setup.trainer.model, setup.graph, orders.costs()
    if setup.regime.whole:
        return model.multiplied
    shares = {t: density(graph.features[t]) for t in model.multiplied & graph.features.keys()}
    shares = {t: share for t, share in shares.items() if share <= sparse.DENSEST}
    if not shares:
        return frozenset()
    sampler = Sampler(graph, frozenset(), frozenset(), model.reads_own)
    seeds = graph.splits["train"][: setup.regime.batch_size]
    drawn = sampler.sample({graph.schema.target: seeds}, setup.regime.fanouts, (setup.config.train.seed,), False)
    read = {t: len(drawn.inputs.get(t, ())) for t in shares}
    nodes = graph.schema.nodes
    return frozenset(t for t, share in shares.items() if read[t] * costs.multiply > nodes[t] * share * costs.move)


def known(setup: Setup, features: Features, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of the whole graph; of what never changes the first layer's sums, in place of edges."""
    read = {t: features.static[t] for t in features.static.keys() & read_in_place(setup, features)}
    static = {t: matrix for t, matrix in read.items() if not isinstance(matrix, SparseRows)}
    return with_known(setup.trainer.model.layers[0], blocks[0], static), *blocks[1:]


def make_batches(setup: Setup, features: Features, to_device: Callable[[Batch], Any]) -> SingleBatches:
    """The batches of one device, or of several that have the same.

    Args:
      to_device: puts a batch of host arrays where it is used.
    """
    model, kept = setup.trainer.model, {t for t, rows in features.static.items() if isinstance(rows, SparseRows)}
    by_id, flowing = read_in_place(setup, features) - kept, setup.flowing | kept  # a gradient flows to their products
    sampler = Sampler(setup.graph, by_id, flowing, model.reads_own, model.drops)
    return SingleBatches(sampler, setup.regime, setup.config.train.seed, to_device)
