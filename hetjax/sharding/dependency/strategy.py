"""The strategy dependency: an edge-cut of the nodes, one choice for all processes, and what partitions fetch of each other."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from jax.sharding import Mesh

from hetjax.config import UNBOUNDED, Bytes, Config
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import check_digest, sizes
from hetjax.partition import EdgeCut, edge_cut, read
from hetjax.partition.owned import Owned
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency.batches import DependencyBatches
from hetjax.sharding.dependency.costs import Costs, read_or_measure
from hetjax.sharding.dependency.engine import DependencyEngine
from hetjax.sharding.dependency.groups import grouped
from hetjax.sharding.dependency.hybrid import NODE_BYTES, Copies, Prices, choose
from hetjax.sharding.dependency.shares import Keep, nothing, shares
from hetjax.sharding.dependency.work import seconds, work
from hetjax.sharding.single.strategy import flowing
from hetjax.sharding.strategy import Setup, Strategy


@dataclass(frozen=True)
class Options:
    """Dependency: the nodes are divided among mesh.data devices; each fetches, or computes too, what it reads of others' nodes."""

    mode: Literal["cache", "communicate", "hybrid"] = "hybrid"
    """cache: compute the embeddings of others' nodes here too; communicate: fetch them from their owners; hybrid: each as what costs less, measured at the start"""
    partitioning: Literal["random", "metis", "metis-vol", "contiguous", "fennel"] = "contiguous"
    """how nodes are divided; random; metis: few cut edges; metis-vol: little communication (both need pymetis); contiguous: ranges of ids; fennel: few cut edges, in one pass"""
    schedule: Literal["all_to_all", "ring"] = "all_to_all"
    """how rows are sent; all_to_all: all at once; ring: to one other device after the other"""
    memory: Bytes = UNBOUNDED
    """cache, hybrid: bytes of each device for what it keeps of others' nodes, features included, such as 2GB; -1: no bound"""
    cached: float = -1.0
    """hybrid: share of every layer's dependencies to compute, the cheapest, whatever they cost; -1: as measured costs say"""

    def __post_init__(self):
        object.__setattr__(self, "memory", int(Bytes(self.memory)))
        if self.memory < -1:
            raise InputError(f"dependency.memory is {self.memory}, and must be at least -1")
        if self.cached != -1 and not 0 <= self.cached <= 1:
            raise InputError(f"dependency.cached is {self.cached}, and must be in [0, 1], or -1")
        if self.cached != -1 and self.mode != "hybrid":
            raise InputError(
                f"dependency.cached is {self.cached}, and is for dependency.mode hybrid; it is {self.mode}"
            )


class Dependency(Strategy):
    """Partitions of the nodes, one a device."""

    name = "dependency"
    Options: ClassVar[type | None] = Options

    def mode(self, config: Config) -> str:
        """One of the modes."""
        return self.options(config).mode

    def ring(self, config: Config) -> bool:
        """Whether rows are sent around a ring."""
        return self.options(config).schedule == "ring"

    def partition_name(self, config: Config) -> str:
        return f"partition_{self.name}_{self.options(config).partitioning}_{config.mesh.data}"

    def partition(self, setup: Setup, saved: Path | None = None) -> EdgeCut:
        config, graph, processes = setup.config, setup.graph, setup.processes
        meshes.make(config.mesh.relation, config.mesh.data)  # says what is missing before METIS takes its minutes
        parts, method, hops = config.mesh.data, self.options(config).partitioning, config.model.layers
        workload, reads_own, cut = setup.workload, setup.trainer.model.reads_own, None
        if processes.first and saved and os.path.exists(saved):
            cut = saved_cut(saved, graph, parts, method)
        elif processes.first:
            cut = edge_cut(graph, parts, method, hops=hops, workload=workload, reads_own=reads_own)
        nodes = processes.broadcast("edge-cut", dict(cut.nodes) if cut else {})
        return EdgeCut(sizes(graph), nodes, parts, method, hops, workload, reads_own)

    def engine(self, setup: Setup, partitioning: EdgeCut) -> DependencyEngine:
        config, graph, trainer = setup.config, setup.graph, setup.trainer
        mesh = meshes.row(meshes.make(config.mesh.relation, config.mesh.data), 0)
        sampler = Sampler(graph, frozenset(), flowing(setup), trainer.model.reads_own, trainer.model.drops)
        mode, groups = self.mode(config), grouped(setup, self.mode(config) != "cache")
        keep = everything(setup) if mode == "cache" else nothing
        if mode == "hybrid":
            keep = Copies(self._chosen(setup, partitioning, sampler, mesh))
        batches = DependencyBatches(sampler, partitioning, mesh, setup, groups, keep, self.ring(config))
        return DependencyEngine(setup, batches, partitioning, mesh)

    def _chosen(self, setup: Setup, cut: EdgeCut, sampler: Sampler, mesh: Mesh) -> list[dict[str, np.ndarray]]:
        """What partitions compute of others' nodes, by costs that are measured unless a share is given."""
        options = self.options(setup.config)
        prices = priced(setup, options, read_or_measure(setup, mesh) if options.cached < 0 else None)
        return chosen(setup, cut.owned, sampler, prices)


def chosen(setup: Setup, owned: Owned, sampler: Sampler, prices: Prices) -> list[dict[str, np.ndarray]]:
    """What `choose` says; on the whole graph nothing or everything instead, if costs say that this is less.

    Algorithm 4 takes one dependency after the other, each partition for itself. It does not see that fetching a few rows
    takes as long as a collective does, and that what one node's subtree needs another's may need too.
    """
    graph, model, fanouts = setup.graph, setup.trainer.model, setup.regime.fanouts
    nodes, hops = graph.splits["train"], (ALL,) * len(fanouts)
    seeds = {graph.schema.target: nodes}
    layers = shares(sampler, owned, seeds, hops, (0,), nothing)
    found = choose(graph, owned, layers, prices, fanouts, model.reads_own)
    if prices.share >= 0 or not setup.regime.whole:
        return found
    everything = choose(graph, owned, layers, prices._replace(share=1.0), fanouts, model.reads_own)
    features = [found[0], *({t: np.zeros_like(of) for t, of in one.items()} for one in found[1:])]
    own = [nodes[owned.owner[graph.schema.target][nodes] == part] for part in range(owned.parts)]

    def takes(copies: list[dict[str, np.ndarray]]) -> float:
        return seconds(
            graph, work(graph, owned, shares(sampler, owned, seeds, hops, (0,), Copies(copies)), own), prices
        )

    return min((found, everything, features), key=takes)


def priced(setup: Setup, options: Options, costs: Costs | None) -> Prices:
    """What Algorithm 4 compares; without costs the widths of rows alone."""
    graph, trainer = setup.graph, setup.trainer
    layers, types = trainer.model.layers, list(graph.schema.nodes)
    widths = [dict(trainer.widths), *(layer.widths for layer in layers[1:])]
    copied = np.array([setup.regime.whole and t in graph.features for t in types])
    size = np.array([[NODE_BYTES * width.get(t, 0) for t in types] for width in widths], float)
    size[0] = [graph.features[t].nbytes / max(1, len(graph.features[t])) if t in graph.features else 0 for t in types]
    vertex, source, edge = np.zeros(size.shape), np.zeros(size.shape), np.zeros((len(layers), len(graph.relations)))
    sent = np.array([[float(width.get(t, 0)) for t in types] for width in widths])
    if not setup.config.model.input_projection:  # static features come in their own dtype, and nothing goes back
        sent[0] = [size[0, n] / NODE_BYTES if t in graph.features else sent[0, n] for n, t in enumerate(types)]
    start = 0.0
    if costs:
        vertex[1:] = [[of.get(t, 0) for t in types] for of in costs.vertex]
        source[:-1] = [[of.get(t, 0) for t in types] for of in costs.source]
        edge[1:] = [[of.get(relation.key, 0) for relation in graph.relations] for of in costs.edge]
        sent *= costs.sent
        start = costs.start
    limit = np.inf if options.memory < 0 else float(options.memory)
    return Prices(vertex, edge, source, sent, copied, size, limit, options.cached, start)


def everything(setup: Setup) -> Keep:
    """Whoever reads an embedding computes it; static features are copied on the whole graph, and fetched in mini-batches."""
    static = setup.graph.features if setup.regime.whole else {}
    return lambda depth, node_type, ids, part: np.full(len(ids), depth > 0 or node_type in static)


def saved_cut(folder: Path, graph: HetGraph, parts: int, method: str) -> EdgeCut:
    """The edge-cut of a run that is resumed.

    Raises:
      InputError: it is of another graph, or made otherwise.
    """
    cut = read(folder)
    if not isinstance(cut, EdgeCut) or (cut.parts, cut.method) != (parts, method):
        raise InputError(f"{folder}: {cut.method} there != {method} in {parts} parts; move it away")
    check_digest(sizes(graph), cut.sizes, str(folder))
    return cut
