"""The options and the declaration of the strategy RAF."""

from dataclasses import dataclass

from hetjax.options.config import UNBOUNDED, Bytes, Config, changed
from hetjax.sharding.declaration import Declaration
from hetjax.system.errors import InputError


@dataclass(frozen=True)
class Options:
    """RAF: the relations are divided into mesh.relation partitions, each with mesh.data replicas."""

    plan: str = ""
    """the folder of a partitioning that `python -m hetjax.partition` wrote for this graph, mesh and model; unset: a new one is made"""
    cut: tuple[str, ...] = ()
    """relations into the target type to cut, each as NAME=PIECES, such as [writes=2]: their edges are dealt out to so many partitions"""
    host_bytes: Bytes = UNBOUNDED
    """bytes of a host for one relation into the target type: a larger one is cut into as many pieces as it takes, such as 8GB; -1: no bound"""

    def __post_init__(self):
        object.__setattr__(self, "host_bytes", int(Bytes(self.host_bytes)))
        if self.host_bytes < -1 or self.host_bytes == 0:
            raise InputError(f"raf.host_bytes is {self.host_bytes}, and must be over 0, or -1")


class Raf(Declaration):
    """The declaration of RAF, which divides the relations."""

    name = "raf"
    Options = Options
    divides_relations = divides_columns = caches = True

    def check(self, config: Config) -> None:
        super().check(config)
        slices = config.mesh.feature
        if slices > 1 and config.sampling.mode == "full":
            raise InputError(
                f"mesh.feature is {slices}, and must be 1 with mesh.strategy {self.name} and sampling.mode full"
            )
        for key, value in (changed(config.cache) if slices > 1 else {}).items():
            raise InputError(
                f"cache.{key} is {value}, and slices of features (mesh.feature {slices}) stay on the devices: leave out one or the other"
            )
        cut = self.options(config).cut
        if cut and config.mesh.relation == 1:
            raise InputError(f"raf.cut is {list(cut)}, and mesh.relation is 1: pieces go to several partitions")
