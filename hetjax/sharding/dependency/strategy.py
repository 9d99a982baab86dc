"""The strategy dependency: an edge-cut of the nodes, one choice for all processes, and the rows that partitions fetch from each other."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jax.sharding import Mesh

from hetjax.cache.placement import choose_placement
from hetjax.graph.sizes import sizes
from hetjax.options.config import Config
from hetjax.partition import EdgeCut, edge_cut
from hetjax.partition.manifest import read_cut
from hetjax.partition.owned import Owned
from hetjax.sampling.loader import by_owner
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency import declared
from hetjax.sharding.dependency.batches import DependencyBatches
from hetjax.sharding.dependency.costs import read_or_measure
from hetjax.sharding.dependency.engine import DependencyEngine
from hetjax.sharding.dependency.features import PartitionFeatures, row_counts
from hetjax.sharding.dependency.groups import grouped
from hetjax.sharding.dependency.hybrid import Copies, choose
from hetjax.sharding.dependency.prices import Prices, kept_bytes, priced, slowest
from hetjax.sharding.dependency.shares import Keep, Names, Share, nothing, shares
from hetjax.sharding.dependency.work import work
from hetjax.sharding.strategy import Setup, Strategy
from hetjax.system.errors import InputError
from hetjax.system.logs import log

NOTABLE = 0.95  # of the time of computing all or fetching all: costs are not known so well that less would be a gain


class Dependency(declared.Dependency, Strategy):
    """Training on partitions of the nodes, one a device."""

    def partition_name(self, config: Config) -> str:
        return f"partition_{self.name}_{self.options(config).partitioning}_{config.mesh.data}"

    def partition(self, setup: Setup, saved: Path | None = None) -> EdgeCut:
        config, graph, processes = setup.config, setup.graph, setup.processes
        meshes.make(config.mesh.relation, config.mesh.data)  # says what is missing before METIS takes its minutes
        parts, method, hops = config.mesh.data, self.options(config).partitioning, config.model.layers
        workload, reads_own, cut = setup.workload, setup.trainer.model.reads_own, None
        if processes.first and saved and os.path.exists(saved):
            cut = read_cut(saved, graph, parts, method)
        elif processes.first:
            cut = edge_cut(graph, parts, method, hops=hops, workload=workload, reads_own=reads_own)
        nodes = processes.broadcast("edge-cut", dict(cut.nodes) if cut else {})
        return EdgeCut(sizes(graph), nodes, parts, method, hops, workload, reads_own)

    def engine(self, setup: Setup, partitioning: EdgeCut) -> DependencyEngine:
        config = setup.config
        mesh = meshes.row(meshes.make(config.mesh.relation, config.mesh.data), 0)
        sampler = sampler_of(setup)
        options = self.options(config)
        costs, names = None, Names(sampler)
        if options.mode == "hybrid" and options.cached < 0:
            costs = read_or_measure(setup, mesh, message(setup, partitioning.owned, names))
        prices = priced(setup, costs, options.memory, options.cached)
        keep = everything(setup) if options.mode == "cache" else nothing
        if options.mode == "hybrid":
            keep = chosen(setup, partitioning.owned, names, prices)
        groups = grouped(setup, options.mode != "cache")
        features = placed(setup, partitioning.owned, mesh)
        batches = DependencyBatches(sampler, partitioning, mesh, setup, groups, keep, options.schedule, features)
        if options.mode == "cache" and options.memory >= 0:
            require_room(batches, prices, options.memory)
        of_costs = ("measured" if costs.measured else "reckoned") if costs else ""
        return DependencyEngine(setup, batches, partitioning, mesh, prices, of_costs)


def placed(setup: Setup, owned: Owned, mesh: Mesh) -> PartitionFeatures:
    """Return the features of the partitions that are here, in the places that the section `cache` says."""
    graph, trainer, mine = setup.graph, setup.trainer, row_counts(owned, mesh)
    cache = setup.config.cache
    placement = choose_placement(cache, graph, trainer.widths, trainer.learnable, [graph], rows=mine)
    return PartitionFeatures(graph, owned, mesh, trainer.learnable, placement, setup.tables)


def sampler_of(setup: Setup) -> Sampler:
    """Return the sampler of the whole graph."""
    model = setup.trainer.model
    return Sampler(setup.graph, frozenset(), setup.flowing, model.reads_own, model.drops)


def reading(setup: Setup, owned: Owned, names: Names, keep: Keep) -> list[tuple[Share, ...]]:
    """Return the shares of every partition in a step on all training nodes and all their neighbours."""
    return shares(names, owned, training_seeds(setup, owned), (ALL,) * len(setup.regime.fanouts), (0,), keep)


def training_seeds(setup: Setup, owned: Owned) -> list[Mapping[str, np.ndarray]]:
    """Return the seeds of the training examples of every partition."""
    task = setup.task
    return [task.seeds(own).nodes for own in by_owner(task, task.examples("train"), owned.owner, owned.parts)]


def message(setup: Setup, owned: Owned, names: Names) -> int:
    """Return the number of elements that a partition sends to another before the layer that reads most, if all embeddings are fetched; a mean over the others."""
    types, width = list(setup.graph.schema.nodes), priced(setup, None).sent
    rows = [
        [
            sum(np.count_nonzero(ids != part) * width[depth, types.index(t)] for t, ids in share.origin.items())
            for depth, share in enumerate(layers)
        ]
        for part, layers in enumerate(reading(setup, owned, names, nothing))
    ]
    drawn = 1.0 if setup.regime.whole else min(1.0, setup.regime.batch_size / len(setup.task.examples("train")))
    return max(1, round(drawn * np.max(rows) / max(1, owned.parts - 1)))


def chosen(setup: Setup, owned: Owned, names: Names, prices: Prices) -> Keep:
    """Return the copies that `choose` finds; on the whole graph none or all of the embeddings, unless costs say that a step then takes notably longer.

    Algorithm 4 takes one dependency after the other, each partition for itself. It does not see that fetching a few rows
    takes as long as a collective does, that subtrees of several nodes may need the same rows, and that a step takes as
    long as the partition that has most to do.
    """
    graph, own, fanouts = setup.graph, setup.trainer.model.reads_own, setup.regime.fanouts
    layers = reading(setup, owned, names, nothing)
    found = choose(graph, owned, layers, prices, fanouts, own)
    if prices.share >= 0 or not setup.regime.whole:
        return Copies(found)
    features = [found[0], *({t: np.zeros_like(of) for t, of in one.items()} for one in found[1:])]
    every = everything(setup)
    if prices.limit < np.inf:
        every = Copies(choose(graph, owned, layers, prices._replace(share=1.0), fanouts, own))
    seeds = training_seeds(setup, owned)

    def takes(keep: Keep) -> float:
        return slowest(graph, work(graph, owned, reading(setup, owned, names, keep), seeds), prices, own=True)

    mixed = "partly computed, partly fetched"
    ways: dict[str, Keep] = {"computed": every, "fetched": Copies(features), mixed: Copies(found)}
    times = {how: takes(keep) for how, keep in ways.items()}
    best = min(("computed", "fetched"), key=times.__getitem__)
    if times[mixed] < NOTABLE * times[best]:
        best = mixed
    if setup.processes.first:
        foreseen = ", ".join(f"{how} {1000 * seconds:.3g}" for how, seconds in times.items())
        log.info(
            f"dependency.mode hybrid: others' embeddings are {best}; predicted milliseconds of a step, without its last layer: {foreseen}"
        )
    return ways[best]


def require_room(batches: DependencyBatches, prices: Prices, memory: int) -> None:
    """Raise an InputError where a partition keeps more of others' nodes than it may."""
    types = list(batches.graph.schema.nodes)
    kept = kept_bytes(batches.work(batches.sample(batches.train, (0, 0, 0))), prices, types)
    if kept.max() > memory:
        part, most = int(kept.argmax()), int(kept.max())
        raise InputError(
            f"dependency.memory is {memory:,} bytes, and with dependency.mode cache partition {part} keeps {most:,} of others' nodes: give it more, or dependency.mode hybrid"
        )


def everything(setup: Setup) -> Keep:
    """Return the rule by which every reader of an embedding computes it; static features are copied on the whole graph, and fetched in mini-batches."""
    static = setup.graph.features if setup.regime.whole else {}
    return lambda depth, node_type, ids, part: np.full(len(ids), depth > 0 or node_type in static)
