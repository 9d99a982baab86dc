"""Plans: which relations, at which layers, and which node types each partition has; or which nodes, of an edge-cut."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, check_digest, sizes
from hetjax.partition.assign import Groups
from hetjax.partition.checks import require_whole
from hetjax.partition.cost import Workload, links
from hetjax.partition.metatree import MOST_HOPS, Fold, Metatree, Program, Root
from hetjax.partition.owned import Owned

FORMAT, VERSION = "hetjax-partition", 1
PART = np.dtype(np.uint8)  # of a node's partition
MOST_HOSTS = 2**16
MOST_PARTS = 64  # of an edge-cut, whose readers of a node are the bits of a word
EDGE_CUTS = ("random", "metis", "metis-vol")


class Part(NamedTuple):
    """One partition.

    Attributes:
      number: its place on the mesh axis `relation`.
      hosts: the hosts that run it, each on its share of the seeds: a row of the mesh.
      roots: the sub-metatrees that it owns.
      program: what it computes.
    """

    number: int
    hosts: tuple[int, ...]
    roots: tuple[Root, ...]
    program: Program


@dataclass(frozen=True)
class Plan:
    """A meta-partitioning.

    Attributes:
      sizes: of the graph.
      tree: the metatree that is divided.
      owners: the sub-metatrees of each partition.
      data: replicas of each partition, which share its seeds; hosts are numbered row by row of the mesh `relation` x
        `data`.
      method: how the owners were found: `exact` or `lpt`; or `given`, by whoever made the plan.
      workload: the step that costs are expected of.
      store: the graph's store, which every host reads its files from; None if there is none.
      copied: whether partitions have stores of their own, in `part_0` and so on beside the manifest.
    """

    sizes: Sizes
    tree: Metatree
    owners: Groups
    data: int = 1
    method: str = "exact"
    workload: Workload = field(default_factory=Workload)
    store: str | None = None
    copied: bool = False

    def __post_init__(self):
        owned = [root for roots in self.owners for root in roots]
        if sorted(map(str, owned)) != sorted(map(str, self.tree.roots)) or not all(self.owners):
            raise InputError(
                f"the partitions own {', '.join(map(str, owned))}, and should own each of these once, and none of them nothing: {', '.join(map(str, self.tree.roots))}"
            )
        require_whole("mesh.data", self.data, max(1, MOST_HOSTS // len(self.owners)))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Every partition, in the order of the mesh axis `relation`."""
        hosts = [tuple(range(k * self.data, (k + 1) * self.data)) for k in range(len(self.owners))]
        programs = [self.tree.program(roots) for roots in self.owners]
        return tuple(Part(k, hosts[k], roots, programs[k]) for k, roots in enumerate(self.owners))

    @property
    def mesh(self) -> dict[str, int]:
        return {"relation": len(self.owners), "data": self.data}

    def part_of(self, host: int) -> Part:
        """The partition that a host runs."""
        if not 0 <= host < len(self.owners) * self.data:
            raise InputError(f"host {host}, and the plan is for {len(self.owners) * self.data} hosts, 0 the first")
        return self.parts[host // self.data]

    @cached_property
    def model(self) -> Program:
        """What all partitions together compute: the model on one device."""
        return self.tree.program(self.tree.roots)

    @cached_property
    def replicated(self) -> dict[tuple[int, Relation | str], tuple[int, ...]]:
        """The weights that several partitions use, and which, per (layer, relation) or (layer, self term's type)."""
        users: dict[tuple[int, Relation | str], tuple[int, ...]] = {}
        for part in self.parts:
            for layer, folds in enumerate(part.program.layers):
                for link, _ in links(folds):
                    users[layer, link] = (*users.get((layer, link), ()), part.number)
        return {link: parts for link, parts in users.items() if len(parts) > 1}

    @cached_property
    def shared(self) -> dict[str, tuple[int, ...]]:
        """The learnable types whose rows several partitions read and update: their numbers."""
        readers = {
            name: tuple(part.number for part in self.parts if name in part.program.reads)
            for name in self.model.reads
            if name not in self.sizes.features
        }
        return {name: parts for name, parts in readers.items() if len(parts) > 1}

    def local_sizes(self, part: Part) -> Sizes:
        """The sizes of what a partition opens: all node types, its relations, the static features it reads."""
        edges = {r: self.sizes.edges[r] for r in self.sizes.schema.relations if r in part.program.relations}
        features = {name: about for name, about in self.sizes.features.items() if name in part.program.reads}
        return Sizes(replace(self.sizes.schema, relations=tuple(edges)), edges, features, self.sizes.multilabel)

    def take(self, graph: HetGraph, part: Part) -> HetGraph:
        """A partition of a graph that is open already; nothing is copied.

        Raises:
          InputError: the plan was made for a graph of other sizes.
        """
        check_digest(self.sizes, sizes(graph), "the graph")
        about = self.local_sizes(part)
        kept = {relation: graph.relations[relation] for relation in about.edges}
        features = {name: graph.features[name] for name in about.features}
        return replace(graph, schema=about.schema, relations=kept, features=features)

    def json(self) -> dict:
        """The manifest, as plain values."""
        return _header(self) | {
            "targets": list(self.tree.targets),
            "hops": self.tree.hops,
            "metapaths": self.tree.metapaths and [[list(r) for r in path] for path in self.tree.metapaths],
            "self_term": self.tree.self_term,
            "exchange": self.tree.exchange,
            "mesh": self.mesh,
            "shared_learnable_types": {name: list(parts) for name, parts in self.shared.items()},
            "parts": [self._part_json(part) for part in self.parts],
        }

    def _part_json(self, part: Part) -> dict:
        def fold(fold: Fold) -> dict:
            return {"relations": [list(r) for r in fold.relations], "selves": list(fold.selves)}

        static, learned = (
            [n for n in part.program.reads if (n in self.sizes.features) == has] for has in (True, False)
        )
        return {
            "part": part.number,
            "hosts": list(part.hosts),
            "store": f"part_{part.number}" if self.copied else None,
            "owns": [root.target if root.relation is None else list(root.relation) for root in part.roots],
            "layers": [{"seeds": fold(layer.seeds), "inner": fold(layer.inner)} for layer in part.program.layers],
            "reads_static": static,
            "reads_learnable": learned,
        }


@dataclass(frozen=True)
class EdgeCut:
    """An edge-cut partitioning: every node lies in one partition, and every edge where its target lies.

    Attributes:
      sizes: of the graph.
      nodes: per node type the partition of every node, uint8 `[nodes]`.
      parts: number of partitions.
      method: `random`, `metis` or `metis-vol`.
      hops: number of layers of the model that costs are expected of.
      workload: the step that they are expected of.
      own: whether that model reads nodes' own embeddings, as self terms do.
      store: as in `Plan`.
    """

    sizes: Sizes
    nodes: Mapping[str, np.ndarray]
    parts: int
    method: str
    hops: int = 2
    workload: Workload = field(default_factory=Workload)
    own: bool = True
    store: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))
        if self.method not in EDGE_CUTS:
            raise InputError(f"method {self.method!r}, and an edge-cut is one of {', '.join(EDGE_CUTS)}")
        require_whole("parts", self.parts, MOST_PARTS)
        require_whole("hops", self.hops, MOST_HOPS)
        if list(self.nodes) != list(self.sizes.schema.nodes):
            raise InputError(
                f"partitions of the types {list(self.nodes)} != {list(self.sizes.schema.nodes)} of the graph"
            )
        for name, count in self.sizes.schema.nodes.items():
            array = self.nodes[name]
            if array.shape != (count,) or array.dtype != PART or (count and array.max() >= self.parts):
                raise InputError(
                    f"partitions of type {name!r} are {array.dtype} {array.shape}, and should be {PART} ({count},) under {self.parts}"
                )

    @cached_property
    def owned(self) -> Owned:
        """Where every node's rows lie."""
        return Owned(self.nodes, self.parts)

    def json(self) -> dict:
        """The manifest, as plain values; the arrays lie beside it."""
        arrays = {
            name: {"file": f"nodes_{number}.npy", "sha256": hashlib.sha256(np.ascontiguousarray(array)).hexdigest()}
            for number, (name, array) in enumerate(self.nodes.items())
        }
        return _header(self) | {"hops": self.hops, "own": self.own, "parts": self.parts, "nodes": arrays}


def _header(plan: Plan | EdgeCut) -> dict:
    workload = asdict(plan.workload) | {"fanout": list(plan.workload.fanout)}
    about = {"method": plan.method, "graph": plan.sizes.json(), "graph_digest": plan.sizes.digest, "store": plan.store}
    return {"format": FORMAT, "version": VERSION} | about | {"workload": workload}
