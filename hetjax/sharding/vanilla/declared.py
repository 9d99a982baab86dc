"""The options and the declaration of the strategy vanilla."""

from dataclasses import dataclass
from typing import Literal

from hetjax.options.config import Config
from hetjax.sharding.dependency import declared as dependency


@dataclass(frozen=True)
class Options:
    """Vanilla: the nodes are divided among mesh.data devices, which fetch features from each other."""

    partitioning: Literal["random", "metis", "metis-vol", "contiguous", "fennel"] = "random"
    """how nodes are divided; random; metis: few cut edges; metis-vol: little communication (both need pymetis); contiguous: ranges of ids; fennel: few cut edges, in one pass"""


class Vanilla(dependency.Dependency):
    """The declaration of vanilla execution, which divides the nodes and computes the rows that it reads of others'."""

    name = "vanilla"
    Options = Options

    def options(self, config: Config) -> dependency.Options:
        return dependency.Options("cache", super().options(config).partitioning)
