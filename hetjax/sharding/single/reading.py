"""How the first layer reads static features in mini-batches, by what that costs: without zeros, in place, or the rows of the batch alone."""

from collections.abc import Iterable

import jax

from hetjax import native
from hetjax.cache import sparse
from hetjax.cache.sparse import density
from hetjax.models import orders
from hetjax.models.one_edge import one_edge
from hetjax.models.orders import Work
from hetjax.sampling.blocks import Sample
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.strategy import Setup

WORTH = 0.9  # counts are not exact enough for less


def first_batch(setup: Setup) -> Sample:
    """What a batch of the first training nodes reads, of each type the rows of its own; costs are counted by that."""
    model, graph = setup.trainer.model, setup.graph
    sampler = Sampler(graph, frozenset(), frozenset(), model.reads_own)
    seeds = graph.splits["train"][: setup.regime.batch_size]
    return sampler.sample({graph.schema.target: seeds}, setup.regime.fanouts, (setup.config.train.seed,), False)


def without_zeros(setup: Setup) -> frozenset[str]:
    """The types whose features are kept without zeros, if they are mostly zeros.

    Such features are multiplied by `move` a number that is not zero; with zeros by `multiply` a number (`orders.Costs`). The rows
    that a step reads are, and without zeros elsewhere than on a CPU all (`models.sums_at`): there it pays where a batch reads enough.
    """
    model, graph, costs = setup.trainer.model, setup.graph, orders.costs()
    if setup.regime.whole:
        return model.multiplied
    shares = {t: density(graph.features[t]) for t in model.multiplied & graph.features.keys()}
    shares = {t: share for t, share in shares.items() if share <= sparse.DENSEST}
    if not shares or (jax.default_backend() == "cpu" and native.usable()):
        return frozenset(t for t, share in shares.items() if costs.multiply > share * costs.move)
    inputs, nodes = first_batch(setup).inputs, graph.schema.nodes
    read = {t: len(inputs.get(t, ())) for t in shares}
    return frozenset(t for t, share in shares.items() if read[t] * costs.multiply > nodes[t] * share * costs.move)


def gathered(setup: Setup, in_place: Iterable[str]) -> frozenset[str]:
    """The types of which a step copies the rows that it reads, once each, before it folds them, as that costs less than to read all in place.

    Relations that fold first read as much either way. Those that multiply first multiply every row, whether the batch reads it or not.

    Args:
      in_place: the types that could be read in place.
    """
    layer, graph = setup.trainer.model.layers[0], setup.graph
    if setup.regime.whole or not layer.products or not in_place:
        return frozenset()
    sample, chosen = first_batch(setup), set()
    edges, alone = sample.blocks[0].adjacency, one_edge([layer], graph)[0]

    def work(key: str, rows: int, width: int) -> Work:
        shape = rows, edges[key].targets, len(edges[key].indices), width, layer.features
        attention = (0, 1) if key in alone else (getattr(layer, "heads", 0), layer.products)
        return Work(*shape, *attention, trained=True, grouped=False)

    for t in in_place:
        relations = [relation for relation in layer.relations if relation.source == t and relation.key in edges]
        width, read = graph.features[t].shape[1], len(sample.inputs.get(t, ()))

        def cost(rows: int) -> float:
            works = {r.key: work(r.key, rows, width) for r in relations}
            others = {key: own for key, own in works.items() if key not in alone}
            apart = orders.least({key: works[key] for key in works.keys() - others}, False)
            return apart + orders.least(others, layer.shares_products)

        copied = cost(read) + orders.costs().copy * read * width
        if relations and copied < WORTH * cost(graph.schema.nodes[t]):
            chosen.add(t)
    return frozenset(chosen)
