"""The options and the declaration of the strategy dependency."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from hetjax.options.config import UNBOUNDED, Bytes, Config
from hetjax.sharding.declaration import Declaration
from hetjax.system.errors import InputError


@dataclass(frozen=True)
class Options:
    """Dependency: the nodes are divided among mesh.data devices; each fetches, or computes too, what it reads of others' nodes."""

    mode: Literal["cache", "communicate", "hybrid"] = "hybrid"
    """cache: compute the embeddings of others' nodes here too; communicate: fetch them from their owners; hybrid: each as what costs less, measured or reckoned at the start"""
    partitioning: Literal["random", "metis", "metis-vol", "contiguous", "fennel"] = "contiguous"
    """how nodes are divided; random; metis: few cut edges; metis-vol: little communication (both need pymetis); contiguous: ranges of ids; fennel: few cut edges, in one pass"""
    schedule: Literal["all_to_all", "ring", "overlap"] = "all_to_all"
    """how rows are sent; all_to_all: all at once; ring: to one other device after the other; overlap: as ring, and what came is folded while the next travels"""
    memory: Bytes = UNBOUNDED
    """cache, hybrid: bytes of each device for what it keeps of others' nodes, features included, such as 2GB; -1: no bound"""
    cached: float = -1.0
    """hybrid: share of every layer's dependencies to compute, the cheapest, whatever they cost; -1: as costs say"""

    def __post_init__(self):
        object.__setattr__(self, "memory", int(Bytes(self.memory)))
        if self.memory < -1:
            raise InputError(f"dependency.memory is {self.memory}, and must be at least -1")
        if self.cached != -1 and not 0 <= self.cached <= 1:
            raise InputError(f"dependency.cached is {self.cached}, and must be in [0, 1], or -1")
        if self.cached != -1 and self.mode != "hybrid":
            raise InputError(
                f"dependency.cached is {self.cached}, and is for dependency.mode hybrid; it is {self.mode}"
            )
        if self.memory >= 0 and self.mode == "communicate":
            raise InputError(
                f"dependency.memory is {self.memory}, and is for dependency.mode cache or hybrid; it is communicate, which keeps nothing"
            )


class Dependency(Declaration):
    """The declaration of dependency management, which divides the nodes and fetches embeddings of others'."""

    name = "dependency"
    Options: ClassVar[type | None] = Options
    caches = True

    def check(self, config: Config) -> None:
        super().check(config)
        memory = self.options(config).memory
        if memory >= 0 and config.sampling.mode != "full":
            raise InputError(
                f"dependency.memory is {memory}, and is for sampling.mode full: of mini-batches nothing is kept"
            )
