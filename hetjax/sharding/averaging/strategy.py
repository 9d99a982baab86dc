"""The strategy averaging: it chooses which partition trains which nodes, on its own subgraph, and how often the models are averaged."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import sizes
from hetjax.options.config import Config
from hetjax.partition import EdgeCut, edge_cut
from hetjax.partition.divided import Divided
from hetjax.partition.edge_cut import MOST_PARTS
from hetjax.partition.manifest import read_cut
from hetjax.partition.neighbourhood import Subgraph, subgraphs
from hetjax.partition.stream_cut import StreamCut, stream_cut
from hetjax.processes.group import ProcessGroup
from hetjax.sampling.loader import by_owner
from hetjax.sharding import mesh as meshes
from hetjax.sharding.averaging import declared
from hetjax.sharding.averaging.average import Averages, shared_rows
from hetjax.sharding.averaging.batches import AveragingBatches
from hetjax.sharding.averaging.engine import AveragingEngine
from hetjax.sharding.averaging.member import make_member
from hetjax.sharding.averaging.turns import Turns
from hetjax.sharding.strategy import Setup, Strategy, regime_of
from hetjax.system.errors import InputError
from hetjax.system.logs import counted, log


class Averaging(declared.Averaging, Strategy):
    """Training on subgraphs, one or more a device (CATGNN: Huang et al., sections 3.2 and 3.3)."""

    def _parts(self, config: Config) -> int:
        return self.options(config).partitions or config.mesh.data

    def _method(self, graph: HetGraph, chosen: str) -> str:
        if chosen != "auto":
            return chosen
        return "spring" if len(graph.schema.nodes) == 1 else "fennel"

    def partition_name(self, config: Config) -> str:
        options = self.options(config)
        how = "folder" if options.folder else f"{options.partitioning}_{self._parts(config)}"
        return f"partition_{self.name}_{how}"

    def partition(self, setup: Setup, saved: Path | None = None) -> EdgeCut:
        config, graph, processes = setup.config, setup.graph, setup.processes
        meshes.make(config.mesh.relation, config.mesh.data)  # says what is missing before the edges are read
        divided = self._divided(setup)
        parts, method = self._parts(config), self._method(graph, self.options(config).partitioning)
        if divided:
            parts, method = divided.parts, divided.method
        elif processes.first and self.options(config).partitioning == "auto":
            log.info(
                f"averaging.partitioning {method}: as chosen for a graph of {counted(len(graph.schema.nodes), 'node type')}"
            )
        if parts > MOST_PARTS:
            raise InputError(f"averaging.partitions is {parts}, and must be at most {MOST_PARTS}")
        hops, reads_own, cut = config.model.layers, setup.trainer.model.reads_own, None
        divide = stream_cut if method in StreamCut.methods else edge_cut
        if processes.first and saved and os.path.exists(saved):
            cut = read_cut(saved, graph, parts, method)
        elif processes.first and divided:
            cut = divided.cut(hops=hops, workload=setup.workload, reads_own=reads_own)
        elif processes.first:
            cut = divide(graph, parts, method, hops=hops, workload=setup.workload, reads_own=reads_own)
        nodes = processes.broadcast("partition", dict(cut.nodes) if cut else {})
        kind = StreamCut if method in StreamCut.methods else EdgeCut
        made = kind(sizes(graph), nodes, parts, method, hops, setup.workload, reads_own)
        train = list(map(len, training_examples(setup, made)))
        if 0 in train:
            raise InputError(
                f"partition {train.index(0)} of {parts} (averaging.partitioning {method}) has none of the {sum(train)} training examples: "
                "give fewer averaging.partitions, or another averaging.partitioning"
            )
        return made

    def _divided(self, setup: Setup) -> Divided | None:
        """Return the earlier division of the graph, if the run says that there is one."""
        folder, devices = self.options(setup.config).folder, setup.config.mesh.data
        if not folder:
            return None
        found = Divided(folder, setup.graph)
        if found.parts < devices:
            raise InputError(f"{folder}: {found.parts} partitions, fewer than the {devices} devices of mesh.data")
        return found

    def engine(self, setup: Setup, partitioning: EdgeCut) -> AveragingEngine:
        config, graph, options = setup.config, setup.graph, self.options(setup.config)
        mesh = meshes.row(meshes.make(config.mesh.relation, config.mesh.data), 0)
        examples = training_examples(setup, partitioning)
        train = list(map(len, examples))
        turns = Turns(tuple(regime_of(config, count).steps for count in train), mesh.size)
        here = sorted(part for place in meshes.positions_here(mesh) for part in turns.of(place))
        seeds = [setup.task.seeds(own).nodes for own in examples]
        subs = subgraphs(graph, partitioning.owned, here, options.hops, self._divided(setup), seeds)
        members, seated = {}, len(train) == mesh.size
        for part, sub in subs.items():
            members[part] = make_member(setup, sub, examples[part], mesh.devices.flat[part % mesh.size])
            if not seated:
                members[part].leave()
        counts = copies(setup, subs)
        shares = [count / sum(train) for count in train]
        shared = {t: int((of > 1).sum()) for t, of in counts.items()}
        averages = Averages(mesh, shares, shared_rows(subs, counts), shared, options.moments)
        batches = AveragingBatches(setup, members, turns, seated)
        about = described(setup.processes, subs, train)
        return AveragingEngine(setup, batches, partitioning, mesh, averages, options.every, about)


def training_examples(setup: Setup, cut: EdgeCut) -> list[np.ndarray]:
    """Return the training examples of every partition: those whose node it owns."""
    return by_owner(setup.task, setup.task.examples("train"), cut.nodes, cut.parts)


def copies(setup: Setup, subs: dict[int, Subgraph]) -> dict[str, np.ndarray]:
    """Return the number of partitions of all processes that have each node, int32 `[nodes]` per learnable type."""
    schema, processes = setup.graph.schema, setup.processes
    counts = {t: np.zeros(schema.nodes[t], np.int32) for t in setup.trainer.learnable}
    for sub in subs.values():
        for t, of in counts.items():
            of[sub.nodes[t]] += 1
    every = processes.gather("copies", {f"{processes.number} {t}": of for t, of in counts.items()}) or {}
    total = {t: sum((of for name, of in every.items() if name.split(" ", 1)[1] == t), 0 * counts[t]) for t in counts}
    return dict(processes.broadcast("copies of all", total if processes.first else {}))


def described(processes: ProcessGroup, subs: dict[int, Subgraph], train: Sequence[int]) -> list[dict]:
    """Return a description of every partition of all processes; `train` are the training examples of each."""
    mine = [
        {
            "part": part,
            "nodes": sum(sub.graph.schema.nodes.values()),
            "own_nodes": sum(map(len, sub.own.values())),
            "edges": sub.graph.edges,
            "training_examples": train[part],
        }
        for part, sub in subs.items()
    ]
    rows = [row for one in processes.all_gather("partitions", mine) for row in one]
    return sorted(rows, key=lambda row: row["part"])
