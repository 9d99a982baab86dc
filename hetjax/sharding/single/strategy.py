"""The strategy of one device."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from hetjax.cache.features import Features
from hetjax.cache.placement import choose_placement
from hetjax.kernels.grouping import with_together
from hetjax.kernels.sparse import SparseRows
from hetjax.models.known import with_known
from hetjax.models.one_edge import one_edge, with_one_edge
from hetjax.sampling.blocks import Batch, Block
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.single import declared
from hetjax.sharding.single.batches import SingleBatches
from hetjax.sharding.single.engine import SingleEngine
from hetjax.sharding.single.evaluate import Blocks
from hetjax.sharding.single.folded_together import folded_together
from hetjax.sharding.single.reading import gathered, without_zeros
from hetjax.sharding.strategy import Setup, Strategy, read_in_place


class Single(declared.Single, Strategy):
    """The strategy of one device: it divides nothing and sends nothing."""

    def engine(self, setup: Setup, partitioning: None = None) -> SingleEngine:
        return engine_on(setup)


def engine_on(setup: Setup, device: jax.Device | None = None, packs: bool = True) -> SingleEngine:
    """Make the engine that trains a graph on one device, by default the first one; `packs` as of `SingleEngine`.

    Raises:
      InputError: features do not fit where they are to live.
    """
    graph, trainer = setup.graph, setup.trainer
    placement = choose_placement(setup.config.cache, graph, trainer.widths, trainer.learnable, [graph])
    features = Features(graph, trainer.widths, trainer.learnable, placement, setup.tables, device, without_zeros(setup))

    keys = one_edge(trainer.model.layers, graph)
    to_device = partial(whole_blocks, setup, features, keys)

    def send(batch: Batch) -> Batch:
        blocks = tuple(with_one_edge(*each) for each in zip(batch.blocks, keys, strict=True))
        return features.send(batch._replace(blocks=blocks))

    def send_whole(batch: Batch) -> Batch:
        return jax.device_put(batch._replace(blocks=to_device(batch.blocks, known_sums=True)), features.device)

    batches = make_batches(setup, features, send_whole if setup.regime.whole else send)
    return SingleEngine(setup, batches, features, to_device if at_once(setup, features) else None, packs)


def at_once(setup: Setup, features: Features) -> bool:
    """Return whether all nodes that a run evaluates may be evaluated by one program.

    They may where training is on the whole graph, or the graph has no more edges than a chunk and all features live on the device.
    """
    small = setup.graph.edges <= setup.config.sampling.evaluation_edges
    return setup.regime.whole or (small and set(features.placement.values()) <= {"device"})


def whole_blocks(
    setup: Setup, features: Features, one_edges: Sequence[frozenset[str]], blocks: Blocks, known_sums: bool = False
) -> Blocks:
    """Return the blocks of the whole graph, on the device.

    Args:
      one_edges: as of `models.one_edge`.
      blocks: the blocks in host memory.
      known_sums: whether sums of features that never change stand for edges: they save time at every step, and may take more memory.
    """
    made, sources = [], setup.graph.schema.nodes
    for depth, (layer, block, keys) in enumerate(zip(setup.trainer.model.layers, blocks, one_edges, strict=True)):
        together = with_together(layer, block, sources, folded_alone(setup, features, depth, known_sums))
        made.append(with_one_edge(together, keys))
        sources = targets_of(block, sources)
    sent = jax.device_put(tuple(made), features.device)
    return known(setup, features, sent) if known_sums else sent


def targets_of(block: Block, sources: Mapping[str, int]) -> dict[str, int]:
    """Return the number of targets that a block of exact size has, per node type, for so many sources."""
    return {t: sources[t] if rows is None else len(rows) for t, rows in block.self_rows.items()}


def folded_alone(setup: Setup, features: Features, depth: int, known_sums: bool) -> set[str]:
    """Return the types of which a layer of the whole graph aggregates no relations together."""
    model = setup.trainer.model
    summed = features.static if known_sums and not depth and model.layers[0].traits.linear_fold else ()
    return {*model.sparse(depth, features.static), *summed}


def known(setup: Setup, features: Features, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks of the whole graph; the first layer's sums of static features stand in place of edges."""
    read = {t: features.static[t] for t in features.static.keys() & read_in_place(setup, features)}
    static = {t: matrix for t, matrix in read.items() if not isinstance(matrix, SparseRows)}
    return with_known(setup.trainer.model.layers[0], blocks[0], static, setup.costs.orders), *blocks[1:]


def make_batches(setup: Setup, features: Features, to_device: Callable[[Batch], Any]) -> SingleBatches:
    """Return the batches of one device, or of several that have the same.

    Args:
      to_device: puts a batch of host arrays where it is used.
    """
    model, kept = setup.trainer.model, {t for t, rows in features.static.items() if isinstance(rows, SparseRows)}
    by_id, flowing = read_in_place(setup, features) - kept, setup.flowing | kept  # a gradient flows to their products
    by_id -= gathered(setup, by_id)
    together = folded_together(setup, features, by_id)
    relations = together.relations if together else ()
    sampler = Sampler(setup.graph, by_id, flowing, model.reads_own, model.drops, relations)
    return SingleBatches(sampler, setup.task, setup.regime, setup.config.train.seed, to_device, together)
