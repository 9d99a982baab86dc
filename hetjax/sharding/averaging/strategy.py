"""The strategy averaging: who trains which nodes, on subgraphs of their own, and how often the models are averaged."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import sizes
from hetjax.partition import EdgeCut, edge_cut
from hetjax.partition.neighbourhood import Subgraph, subgraphs
from hetjax.partition.stream_cut import StreamCut, stream_cut
from hetjax.processes.group import ProcessGroup
from hetjax.sharding import mesh as meshes
from hetjax.sharding.averaging.average import Averages, shared_rows
from hetjax.sharding.averaging.batches import AveragingBatches
from hetjax.sharding.averaging.engine import AveragingEngine
from hetjax.sharding.averaging.member import make_member, regime_of
from hetjax.sharding.averaging.turns import Turns
from hetjax.sharding.dependency.strategy import saved_cut
from hetjax.sharding.strategy import Setup, Strategy


@dataclass(frozen=True)
class Options:
    """Averaging: partitions are trained on their own, on mesh.data devices, and their parameters are averaged now and then."""

    every: int = 1
    """epochs from one average to the next"""
    partitions: int = 0
    """number of partitions; more than mesh.data take turns; 0: one per device"""
    partitioning: Literal[
        "auto", "spring", "slim", "hollocou", "2ps-l", "hdrf", "greedy", "dbh",
        "random", "metis", "metis-vol", "contiguous", "fennel",
    ] = "auto"  # fmt: skip
    """who trains which nodes; spring to dbh: by a stream of the edges; random to fennel: as for vanilla; auto: spring for graphs of one node type, fennel for others, as it divides every type evenly"""
    hops: int = 1
    """a partition also has what lies within so many edges of the nodes that it trains"""
    moments: bool = True
    """average Adam's moments too; false: every partition keeps its own"""

    def __post_init__(self):
        for name, least in (("every", 1), ("partitions", 0), ("hops", 1)):
            if getattr(self, name) < least:
                raise InputError(f"averaging.{name} is {getattr(self, name)}, and must be at least {least}")


class Averaging(Strategy):
    """Subgraphs, one or more a device (CATGNN: Huang et al., sections 3.2 and 3.3)."""

    name = "averaging"
    Options = Options
    plain_alone = False

    def check(self, config: Config) -> None:
        super().check(config)
        parts, devices = self.options(config).partitions, config.mesh.data
        if parts and parts < devices:
            raise InputError(f"averaging.partitions is {parts}, fewer than the {devices} devices of mesh.data")

    def _parts(self, config: Config) -> int:
        return self.options(config).partitions or config.mesh.data

    def _method(self, graph: HetGraph, chosen: str) -> str:
        if chosen != "auto":
            return chosen
        return "spring" if len(graph.schema.nodes) == 1 else "fennel"

    def partition_name(self, config: Config) -> str:
        return f"partition_{self.name}_{self.options(config).partitioning}_{self._parts(config)}"

    def partition(self, setup: Setup, saved: Path | None = None) -> EdgeCut:
        config, graph, processes = setup.config, setup.graph, setup.processes
        meshes.make(config.mesh.relation, config.mesh.data)  # says what is missing before the edges are read
        parts, method = self._parts(config), self._method(graph, self.options(config).partitioning)
        hops, reads_own, cut = config.model.layers, setup.trainer.model.reads_own, None
        divide = stream_cut if method in StreamCut.methods else edge_cut
        if processes.first and saved and os.path.exists(saved):
            cut = saved_cut(saved, graph, parts, method)
        elif processes.first:
            cut = divide(graph, parts, method, hops=hops, workload=setup.workload, reads_own=reads_own)
        nodes = processes.broadcast("partition", dict(cut.nodes) if cut else {})
        kind = StreamCut if method in StreamCut.methods else EdgeCut
        made = kind(sizes(graph), nodes, parts, method, hops, setup.workload, reads_own)
        train = seeds_of(graph, made)
        if 0 in train:
            raise InputError(
                f"partition {train.index(0)} of {parts} (averaging.partitioning {method}) has none of the {sum(train)} training nodes: "
                "give fewer averaging.partitions, or another averaging.partitioning"
            )
        return made

    def engine(self, setup: Setup, partitioning: EdgeCut) -> AveragingEngine:
        config, graph, options = setup.config, setup.graph, self.options(setup.config)
        mesh = meshes.row(meshes.make(config.mesh.relation, config.mesh.data), 0)
        train = seeds_of(graph, partitioning)
        turns = Turns(tuple(regime_of(config, seeds).steps for seeds in train), mesh.size)
        here = sorted(part for place in meshes.positions_here(mesh) for part in turns.of(place))
        subs = subgraphs(graph, partitioning.owned, here, options.hops)
        members, seated = {}, len(train) == mesh.size
        for part, sub in subs.items():
            members[part] = make_member(setup, sub, mesh.devices.flat[part % mesh.size])
            if not seated:
                members[part].leave()
        counts = copies(setup, subs)
        shares = [seeds / sum(train) for seeds in train]
        shared = {t: int((of > 1).sum()) for t, of in counts.items()}
        averages = Averages(mesh, shares, shared_rows(subs, counts), shared, options.moments)
        batches = AveragingBatches(setup, members, turns, seated)
        about = described(setup.processes, subs)
        return AveragingEngine(setup, batches, partitioning, mesh, averages, options.every, about)


def seeds_of(graph: HetGraph, cut: EdgeCut) -> list[int]:
    """How many training nodes every partition trains."""
    return np.bincount(cut.nodes[graph.schema.target][graph.splits["train"]], minlength=cut.parts).tolist()


def copies(setup: Setup, subs: dict[int, Subgraph]) -> dict[str, np.ndarray]:
    """Per learnable type how many partitions of all processes have each node, int32 `[nodes]`."""
    schema, processes = setup.graph.schema, setup.processes
    counts = {t: np.zeros(schema.nodes[t], np.int32) for t in setup.trainer.learnable}
    for sub in subs.values():
        for t, of in counts.items():
            of[sub.nodes[t]] += 1
    every = processes.gather("copies", {f"{processes.number} {t}": of for t, of in counts.items()}) or {}
    total = {t: sum((of for name, of in every.items() if name.split(" ", 1)[1] == t), 0 * counts[t]) for t in counts}
    return dict(processes.broadcast("copies of all", total if processes.first else {}))


def described(processes: ProcessGroup, subs: dict[int, Subgraph]) -> list[dict]:
    """What every partition has, of all processes."""
    mine = [
        {
            "part": part,
            "nodes": sum(sub.graph.schema.nodes.values()),
            "own_nodes": sum(map(len, sub.own.values())),
            "edges": sub.graph.edges,
            "training_nodes": len(sub.graph.splits["train"]),
        }
        for part, sub in subs.items()
    ]
    rows = [row for one in processes.all_gather("partitions", mine) for row in one]
    return sorted(rows, key=lambda row: row["part"])
