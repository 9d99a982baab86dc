"""The choice of how the first layer reads static features, by cost: without zeros, and in mini-batches in place or the rows of the batch alone."""

from collections.abc import Iterable
from dataclasses import replace

from hetjax.kernels import native, orders, sparse
from hetjax.kernels.orders import Work
from hetjax.kernels.sparse import density
from hetjax.models.one_edge import one_edge
from hetjax.sampling.blocks import Sample
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.strategy import Setup

WORTH = 0.9  # counts are not exact enough for less


def first_batch(setup: Setup) -> Sample:
    """Return the sample of a batch of the first training nodes, with the rows of each type; costs are counted by it."""
    model, graph = setup.trainer.model, setup.graph
    sampler = Sampler(graph, frozenset(), frozenset(), model.reads_own)
    examples = setup.task.examples("train")[: setup.regime.batch_size]
    return sampler.sample(
        dict(setup.task.seeds(examples).nodes), setup.regime.fanouts, (setup.config.train.seed,), False
    )


class Reads:
    """The costs of the first layer's work on a type's features, in a batch of the first training nodes, by how the features are read."""

    def __init__(self, setup: Setup):
        self.layer, self.graph, self.costs = setup.trainer.model.layers[0], setup.graph, setup.costs
        self.sample = first_batch(setup)
        self.alone = one_edge([self.layer], self.graph)[0]

    def rows(self, t: str) -> int:
        """Return the number of rows of the type that the batch reads."""
        return len(self.sample.inputs.get(t, ()))

    def own(self, t: str) -> int:
        """Return the number of nodes of the type that read their own features."""
        rows = self.sample.blocks[0].self_rows
        if t not in rows or not (t in self.layer.selves or self.layer.traits.reads_target):
            return 0
        return self.rows(t) if (own := rows[t]) is None else len(own)

    def relations(self, t: str) -> list[str]:
        """Return the keys of the relations out of the type whose edges the batch has."""
        edges = self.sample.blocks[0].adjacency
        return [r.key for r in self.layer.relations if r.source == t and r.key in edges]

    def works(self, t: str, rows: int, width: float) -> dict[str, Work]:
        """Return the work of each relation, if there are so many sources of such a width."""
        layer, edges = self.layer, self.sample.blocks[0].adjacency

        def work(key: str) -> Work:
            shape = rows, edges[key].targets, len(edges[key].indices), width, layer.features
            attention = (0, 1) if key in self.alone else (layer.traits.heads, layer.traits.products)
            return Work(*shape, *attention, trained=True, grouped=False)

        return {key: work(key) for key in self.relations(t)}

    def dense(self, t: str, rows: int) -> float:
        """Return the cost of the relations with zeros, where so many sources are in place."""
        works = self.works(t, rows, self.graph.features[t].shape[1])
        others = {key: own for key, own in works.items() if key not in self.alone}
        apart = orders.least({key: works[key] for key in works.keys() - others}, False, self.costs)
        return apart + orders.least(others, self.layer.traits.shared_inputs is not None, self.costs)

    def copied(self, t: str) -> float:
        """Return the cost of the relations with zeros, where the rows that the batch reads are copied first."""
        rows = self.rows(t)
        return self.dense(t, rows) + self.costs.orders.copy * rows * self.graph.features[t].shape[1]

    def sparse(self, t: str, rows: int, share: float) -> float:
        """Return the cost of the relations without zeros, where so many sources are multiplied, and a share of their elements is not zero.

        Each element is read as an element at an edge is. Edges are then grouped by source outside the program (`single.strategy.make_batches`).
        """
        costs, width = self.costs.orders, share * self.graph.features[t].shape[1]
        entry = replace(self.costs, orders=costs._replace(multiply=costs.move, group=0))
        return sum(orders.multiplied_first(work, entry) for work in self.works(t, rows, width).values())


def without_zeros(setup: Setup) -> frozenset[str]:
    """Return the types whose features are kept without zeros, if they are mostly zeros, as that costs less.

    In mini-batches hetjax's kernels multiply the rows that a batch reads (`models.sums_at`). Without these, and where dropout samples
    masks for all entries, all rows are multiplied at every step: then a batch has to read enough.
    """
    model, graph, costs = setup.trainer.model, setup.graph, setup.costs.orders
    shares = {t: density(graph.features[t]) for t in model.multiplied & graph.features.keys()}
    shares = {t: share for t, share in shares.items() if share <= sparse.DENSEST}
    if setup.regime.whole:
        return frozenset(t for t, share in shares.items() if share * costs.move < costs.multiply)
    if not shares:
        return frozenset()
    reads, nodes = Reads(setup), graph.schema.nodes
    picked = native.taken() and not model.input_dropout

    def pays(t: str, share: float) -> bool:
        read, own = reads.rows(t), reads.own(t)
        numbers = 2 * graph.features[t].shape[1] * reads.layer.features  # there, and the gradient of the matrix
        if model.transforms or not reads.layer.traits.products:
            return (read if picked else nodes[t]) * share * costs.move < read * costs.multiply
        rows, others = (read, own) if picked else (nodes[t], nodes[t] if own else 0)
        apart = reads.sparse(t, rows, share) + others * numbers * share * costs.move
        return apart <= min(reads.copied(t), reads.dense(t, nodes[t])) + own * numbers * costs.multiply

    return frozenset(t for t, share in shares.items() if pays(t, share))


def gathered(setup: Setup, in_place: Iterable[str]) -> frozenset[str]:
    """Return the types of which a step copies the rows that it reads, once each, before it aggregates them, because that costs less than reading all in place.

    Relations that aggregate first read as much either way. Those that multiply first multiply every row, whether the batch reads it or not.

    Args:
      in_place: the types that could be read in place.
    """
    if setup.regime.whole or not setup.trainer.model.layers[0].traits.products or not in_place:
        return frozenset()
    reads, nodes = Reads(setup), setup.graph.schema.nodes
    return frozenset(t for t in in_place if reads.relations(t) and reads.copied(t) < WORTH * reads.dense(t, nodes[t]))
