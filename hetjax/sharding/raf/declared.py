"""What the strategy RAF takes."""

from dataclasses import dataclass

from hetjax.sharding.declaration import Declaration


@dataclass(frozen=True)
class Options:
    """RAF: the relations are divided into mesh.relation partitions, each with mesh.data replicas."""

    plan: str = ""
    """the folder of a partitioning that `python -m hetjax.partition` wrote for this graph, mesh and model; unset: a new one is made"""


class Raf(Declaration):
    """Divides the relations."""

    name = "raf"
    Options = Options
    divides_relations = caches = True
