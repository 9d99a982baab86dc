"""Meta-partitionings: the relations of each layer, and the node types, that each partition has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, check_digest, sizes
from hetjax.partition.assign import Groups
from hetjax.partition.checks import require, require_whole
from hetjax.partition.cost import Workload, links
from hetjax.partition.cuts import Cuts, cut_graph, cut_sizes, pieces
from hetjax.partition.metatree import Aggregation, LocalModel, Metatree, Root
from hetjax.partition.partitioning import Partitioning, workload_of
from hetjax.system.errors import InputError

MOST_HOSTS = 2**16


class Part(NamedTuple):
    """One partition.

    Attributes:
      number: its place on the mesh axis `relation`.
      hosts: the hosts that run it, each on its share of the seeds: a row of the mesh.
      roots: the sub-metatrees that it owns.
      local_model: what it computes.
    """

    number: int
    hosts: tuple[int, ...]
    roots: tuple[Root, ...]
    local_model: LocalModel


@dataclass(frozen=True)
class MetaPartitioning(Partitioning):
    """A meta-partitioning: every partition owns some sub-metatrees of the target.

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
      cuts: the relations that are cut, and into how many pieces; `sizes` and `tree` have the pieces.
    """

    methods = ("exact", "lpt", "given")

    sizes: Sizes
    tree: Metatree
    owners: Groups
    data: int = 1
    method: str = "exact"
    workload: Workload = field(default_factory=Workload)
    store: str | None = None
    copied: bool = False
    cuts: Cuts = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "cuts", MappingProxyType(dict(self.cuts)))
        owned = [root for roots in self.owners for root in roots]
        if sorted(map(str, owned)) != sorted(map(str, self.tree.roots)) or not all(self.owners):
            raise InputError(
                f"the partitions own {', '.join(map(str, owned))}, and should own each of these once, and none of them nothing: {', '.join(map(str, self.tree.roots))}"
            )
        require_whole("mesh.data", self.data, max(1, MOST_HOSTS // len(self.owners)))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All partitions, in the order of the mesh axis `relation`."""
        hosts = [tuple(range(k * self.data, (k + 1) * self.data)) for k in range(len(self.owners))]
        programs = [self.tree.local_model(roots) for roots in self.owners]
        return tuple(Part(k, hosts[k], roots, programs[k]) for k, roots in enumerate(self.owners))

    @property
    def mesh(self) -> dict[str, int]:
        return {"relation": len(self.owners), "data": self.data}

    def part_of(self, host: int) -> Part:
        """Return the partition that a host runs."""
        if not 0 <= host < len(self.owners) * self.data:
            raise InputError(f"host {host}, and the plan is for {len(self.owners) * self.data} hosts, 0 the first")
        return self.parts[host // self.data]

    @cached_property
    def model(self) -> LocalModel:
        """The model that all partitions together compute: that of one device."""
        return self.tree.local_model(self.tree.roots)

    @cached_property
    def replicated(self) -> dict[tuple[int, Relation | str], tuple[int, ...]]:
        """The weights that several partitions use, with these partitions, per (layer, relation) or (layer, self term's type)."""
        users: dict[tuple[int, Relation | str], tuple[int, ...]] = {}
        for part in self.parts:
            for layer, layer_aggregations in enumerate(part.local_model.layers):
                for link, _ in links(layer_aggregations):
                    users[layer, link] = (*users.get((layer, link), ()), part.number)
        return {link: parts for link, parts in users.items() if len(parts) > 1}

    @cached_property
    def shared(self) -> dict[str, tuple[int, ...]]:
        """The learnable types whose rows several partitions read and update, with these partitions' numbers."""
        readers = {
            name: tuple(part.number for part in self.parts if name in part.local_model.reads)
            for name in self.model.reads
            if name not in self.sizes.features
        }
        return {name: parts for name, parts in readers.items() if len(parts) > 1}

    @cached_property
    def opened(self) -> dict[Relation, tuple[int, ...]]:
        """The number of pieces of every cut relation that each partition opens: those that it aggregates into the seeds, or into other nodes."""
        return {
            relation: tuple(len({*pieces(relation, count)} & {*part.local_model.relations}) for part in self.parts)
            for relation, count in self.cuts.items()
        }

    def local_sizes(self, part: Part) -> Sizes:
        """Return the sizes of what a partition opens: all node types, its relations, the static features it reads."""
        edges = {r: self.sizes.edges[r] for r in self.sizes.schema.relations if r in part.local_model.relations}
        features = {name: feature for name, feature in self.sizes.features.items() if name in part.local_model.reads}
        schema, weighted = replace(self.sizes.schema, relations=tuple(edges)), self.sizes.weighted & edges.keys()
        return Sizes(schema, edges, features, self.sizes.labels, weighted)

    def take(self, graph: HetGraph, part: Part) -> HetGraph:
        """Return a partition of a graph that is open already; nothing is copied.

        Raises:
          InputError: the plan was made for a graph of other sizes.
        """
        check_digest(self.sizes, cut_sizes(sizes(graph), self.cuts), "the graph")
        local = self.local_sizes(part)
        features = {name: graph.features[name] for name in local.features}
        return replace(cut_graph(graph, self.cuts, tuple(local.edges)), features=features)

    def json(self) -> dict:
        """Return the manifest, as plain values."""
        return self.header() | {
            "targets": list(self.tree.targets),
            "hops": self.tree.hops,
            "metapaths": self.tree.metapaths and [[list(r) for r in path] for path in self.tree.metapaths],
            "self_term": self.tree.self_term,
            "exchange": self.tree.exchange,
            "mesh": self.mesh,
            "shared_learnable_types": {name: list(parts) for name, parts in self.shared.items()},
            "parts": [self._part_json(part) for part in self.parts],
            **({"cut": [[list(r), count] for r, count in self.cuts.items()]} if self.cuts else {}),
        }

    def _part_json(self, part: Part) -> dict:
        def plain(aggregation: Aggregation) -> dict:
            return {"relations": [list(r) for r in aggregation.relations], "selves": list(aggregation.selves)}

        static, learned = (
            [n for n in part.local_model.reads if (n in self.sizes.features) == has] for has in (True, False)
        )
        return {
            "part": part.number,
            "hosts": list(part.hosts),
            "store": f"part_{part.number}" if self.copied else None,
            "owns": [root.target if root.relation is None else list(root.relation) for root in part.roots],
            "layers": [{"seeds": plain(layer.seeds), "inner": plain(layer.inner)} for layer in part.local_model.layers],
            "reads_static": static,
            "reads_learnable": learned,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any], sizes: Sizes, folder: Path) -> "MetaPartitioning":
        require(isinstance(given["parts"], list), "parts", given["parts"], "a list")
        metapaths = given["metapaths"]
        if metapaths is not None:
            metapaths = tuple(tuple(Relation(*relation) for relation in path) for path in metapaths)
        for key, values in (("exchange", ("last", "every")), ("self_term", (True, False)), ("method", cls.methods)):
            require(given[key] in values, key, given[key], " or ".join(map(str, values)))
        targets, exchange = tuple(given["targets"]), given["exchange"]
        tree = Metatree(sizes.schema, targets, given["hops"], metapaths, given["self_term"], exchange)
        owners = tuple(tuple(_root(root) for root in part["owns"]) for part in given["parts"])
        copied = bool(given["parts"]) and given["parts"][0]["store"] is not None
        data, method, workload = given["mesh"]["data"], given["method"], workload_of(given)
        cuts = {Relation(*relation): count for relation, count in given.get("cut", [])}
        for relation, count in cuts.items():
            require_whole("cut", count, MOST_HOSTS)
            for piece in pieces(relation, count):
                require(piece in sizes.edges, "cut", str(relation), "of pieces that the graph has")
        return cls(sizes, tree, owners, data, method, workload, given["store"], copied, cuts)

    def write(self, folder: Path, graph: HetGraph | None) -> None:
        if self.copied:
            assert graph is not None  # `save` is given it
            check_digest(self.sizes, sizes(graph), "the graph")
            for part in self.parts:
                local = self.local_sizes(part)
                store.save(graph, folder / f"part_{part.number}", local.edges, local.features)


def _root(owned: str | list) -> Root:
    if isinstance(owned, str):
        return Root(owned, None)
    relation = Relation(*owned)
    return Root(relation.target, relation)
