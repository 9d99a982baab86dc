"""A process's place in a run on a mesh."""

from collections.abc import Mapping
from typing import NamedTuple

from jax.sharding import Mesh

from hetjax.graph.hetgraph import HetGraph
from hetjax.partition import MetaPartitioning
from hetjax.partition.cuts import pieces
from hetjax.processes.group import ProcessGroup
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf.sample import PartitionModel


class Site(NamedTuple):
    """The part of a run on a mesh that a process has.

    Attributes:
      plan: the partitions, and the relations that each aggregates.
      mesh: `relation` x `data`, as the plan has them, on the devices of all processes.
      slices: the number of slices of the features' columns; so many consecutive replicas of a partition have a slice each.
      graphs: the graph that each partition with devices here aggregates and reads; labels and splits are in every one.
      group: the processes.
    """

    plan: MetaPartitioning
    mesh: Mesh
    graphs: Mapping[int, HetGraph]
    group: ProcessGroup
    slices: int = 1

    @property
    def parts(self) -> tuple[int, ...]:
        """The partitions that have devices here."""
        return tuple(self.graphs)

    def row(self, part: int) -> Mesh:
        return meshes.row(self.mesh, part)

    def groups(self, part: int) -> Mesh:
        """The devices of a partition as groups that divide the columns; its row where these are not divided."""
        return meshes.grouped(self.row(part), self.slices)

    def replicas(self, part: int) -> list[int]:
        """The replicas of a partition that are here."""
        return meshes.positions_here(self.row(part))

    def leads(self, part: int) -> bool:
        """Return whether this process speaks for a partition."""
        return 0 in self.replicas(part) if part in self.graphs else False


def partition_models(plan: MetaPartitioning) -> list[PartitionModel]:
    """Return the part of the model that each partition of a plan computes."""
    tree = plan.tree
    cuts = tuple((r, tuple(piece.key for piece in pieces(r, count))) for r, count in plan.cuts.items())
    linked = {part.number: {root.target for root in part.roots} for part in plan.parts}
    owners = {t: tuple(number for number, types in linked.items() if t in types) for t in tree.targets}
    return [
        PartitionModel(part.local_model, tree.targets, owners, tree.exchange == "every", tree.reads_own, cuts)
        for part in plan.parts
    ]
