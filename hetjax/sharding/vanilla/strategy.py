"""The strategy vanilla: an edge-cut of the nodes, one choice for all processes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import check_digest, sizes
from hetjax.partition import EdgeCut, edge_cut, read
from hetjax.sampling.sampler import Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.single.strategy import flowing
from hetjax.sharding.strategy import Setup, Strategy
from hetjax.sharding.vanilla.batches import VanillaBatches
from hetjax.sharding.vanilla.engine import VanillaEngine


@dataclass(frozen=True)
class Options:
    """Vanilla: the nodes are divided among mesh.data devices, which fetch features from each other."""

    partitioning: Literal["random", "metis", "metis-vol", "contiguous", "fennel"] = "random"
    """how nodes are divided; random; metis: few cut edges; metis-vol: little communication (both need pymetis); contiguous: ranges of ids; fennel: few cut edges, in one pass"""


class Vanilla(Strategy):
    """Partitions of the nodes, one a device."""

    name = "vanilla"
    Options = Options

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

    def engine(self, setup: Setup, partitioning: EdgeCut) -> VanillaEngine:
        config, graph, trainer, regime = setup.config, setup.graph, setup.trainer, setup.regime
        mesh = meshes.row(meshes.make(config.mesh.relation, config.mesh.data), 0)
        flows = frozenset(graph.schema.nodes) if regime.whole else flowing(setup)
        sampler = Sampler(graph, frozenset(), flows, trainer.model.reads_own, trainer.model.drops)
        learnable = frozenset(trainer.learnable)
        batches = VanillaBatches(sampler, partitioning, mesh, learnable, regime, config.train.seed)
        return VanillaEngine(setup, batches, partitioning, mesh)


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
