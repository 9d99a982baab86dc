"""The strategy dependency: an edge-cut of the nodes, one choice for all processes, and what partitions fetch of each other."""

import os
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import check_digest, sizes
from hetjax.partition import EdgeCut, edge_cut, read
from hetjax.sampling.sampler import Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency.batches import DependencyBatches, Groups
from hetjax.sharding.dependency.engine import DependencyEngine
from hetjax.sharding.dependency.exchange import Group
from hetjax.sharding.dependency.shares import Keep
from hetjax.sharding.single.strategy import flowing
from hetjax.sharding.strategy import Setup, Strategy

FEATURES, LEARNABLE, EMBEDDINGS = "remote_features", "remote_learnable_rows", "remote_embeddings"  # kinds of traffic


@dataclass(frozen=True)
class Options:
    """Dependency: the nodes are divided among mesh.data devices; each fetches, or computes too, what it reads of others' nodes."""

    mode: Literal["cache", "communicate"] = "communicate"
    """cache: compute the embeddings of others' nodes here too; communicate: fetch them from their owners"""
    partitioning: Literal["random", "metis", "metis-vol"] = "random"
    """how nodes are divided; random; metis: few cut edges; metis-vol: little communication (both need pymetis)"""
    schedule: Literal["all_to_all", "ring"] = "all_to_all"
    """how rows are sent; all_to_all: all at once; ring: to one other device after the other"""


class Dependency(Strategy):
    """Partitions of the nodes, one a device."""

    name = "dependency"
    Options = Options

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
        config, graph, trainer, regime = setup.config, setup.graph, setup.trainer, setup.regime
        mesh = meshes.row(meshes.make(config.mesh.relation, config.mesh.data), 0)
        sampler = Sampler(graph, frozenset(), flowing(setup), trainer.model.reads_own, trainer.model.drops)
        mode, learnable = self.mode(config), frozenset(trainer.learnable)
        static_stays = regime.whole and mode == "cache"
        groups = grouped(setup, learnable if static_stays else trainer.widths, mode != "cache")
        keep = everything(graph.features if static_stays else ()) if mode == "cache" else nothing
        ring, seed = self.ring(config), config.train.seed
        batches = DependencyBatches(
            sampler, partitioning, mesh, learnable, groups, keep, ring, regime, seed
        )
        return DependencyEngine(setup, batches, partitioning, mesh)


def grouped(setup: Setup, features: Container[str], embeddings: bool) -> Groups:
    """Per layer the types whose rows are sent.

    Args:
      features: the types of which they are sent before the first layer.
      embeddings: whether they are sent before others.
    """
    layers: list[dict[str, Group]] = []
    for depth, layer in enumerate(setup.trainer.model.layers):
        layers.append({})
        for t, width in layer.widths.items():
            if embeddings if depth else t in features:
                kind, dtype = _kind(setup, depth, t)
                name = f"{kind}_{dtype}_{width}"
                known = layers[-1].get(name, Group(kind, ()))
                layers[-1][name] = known._replace(types=(*known.types, t))
    return layers


def _kind(setup: Setup, depth: int, node_type: str) -> tuple[str, str]:
    """What the rows of a type are before a layer, and their dtype."""
    if depth or setup.config.model.input_projection:
        return EMBEDDINGS, "float32"
    if node_type in setup.trainer.learnable:
        return LEARNABLE, "float32"
    return FEATURES, str(setup.graph.features[node_type].dtype)


def everything(static: Container[str]) -> Keep:
    """Every embedding is computed by whoever reads it; of features those of the types given are copied."""
    return lambda depth, node_type, ids, part: np.full(len(ids), depth > 0 or node_type in static)


def nothing(depth: int, node_type: str, ids: np.ndarray, part: int) -> np.ndarray:
    """No partition computes what others own."""
    return np.zeros(len(ids), bool)


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
