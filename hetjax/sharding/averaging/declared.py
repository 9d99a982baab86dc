"""The options and the declaration of the strategy averaging."""

from dataclasses import dataclass
from typing import Literal

from hetjax.options.config import Config
from hetjax.sharding.declaration import Declaration
from hetjax.system.errors import InputError


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
    folder: str = ""
    """what `python -m hetjax.partition --stream` wrote of this graph: its partitions, with their nodes and features, are trained; unset: the graph is divided here, by partitions and partitioning"""
    hops: int = 1
    """a partition also has what lies within so many edges of the nodes that it trains"""
    moments: bool = True
    """average Adam's moments too; false: every partition keeps its own"""

    def __post_init__(self):
        for name, least in (("every", 1), ("partitions", 0), ("hops", 1)):
            if getattr(self, name) < least:
                raise InputError(f"averaging.{name} is {getattr(self, name)}, and must be at least {least}")
        if self.folder and (self.partitions or self.partitioning != "auto"):
            raise InputError(
                "averaging.folder is set, and says the partitions: averaging.partitions and averaging.partitioning must be left alone"
            )


class Averaging(Declaration):
    """The declaration of averaging, which divides the graph into subgraphs."""

    name = "averaging"
    Options = Options

    def check(self, config: Config) -> None:
        super().check(config)
        parts, devices = self.options(config).partitions, config.mesh.data
        if parts and parts < devices:
            raise InputError(f"averaging.partitions is {parts}, fewer than the {devices} devices of mesh.data")

    def alone(self, config: Config) -> bool:
        return True
