"""Options of generated graphs."""

from dataclasses import dataclass

from hetjax.options.check import require


@dataclass(frozen=True)
class Options:
    """Synthetic: a generated graph in the shape of a published one."""

    schema: str = "ogbn-mag"
    """the published graph to imitate: ogbn-mag, freebase, donor, igb-het or mag240m"""
    scale: float = 0.02
    """size relative to the published graph"""
    classes: int = 32
    """number of classes; 0: as many as the published graph has"""
    seed: int = 0
    """the seed of the graph"""

    def __post_init__(self):
        require(self.seed >= 0, "synthetic.seed", self.seed, "at least 0")
