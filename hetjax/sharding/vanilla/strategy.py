"""The strategy vanilla: dependency management in which every dependency is computed by whoever reads it."""

from hetjax.sharding.dependency.strategy import Dependency
from hetjax.sharding.vanilla import declared


class Vanilla(declared.Vanilla, Dependency):
    """Data parallelism over an edge-cut of the nodes, as DistDGL and most systems train (Heta, section 2.2)."""
