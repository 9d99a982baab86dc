"""Options of formats whose files may have no validation nodes."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.options.check import require


@dataclass(frozen=True)
class HeldOut:
    """Training nodes that are held out for validation, where a graph has no validation nodes.

    Attributes:
      section: the name of the section of options, which errors give.
    """

    section: ClassVar[str]
    validation_fraction: float = 0.2
    """share of the training nodes that is held out for validation, where there are no validation nodes; with 0 none, and the last epoch is kept"""
    split_seed: int = 0
    """the seed that chooses the nodes to hold out"""

    def __post_init__(self):
        share = self.validation_fraction
        require(0 <= share < 1, f"{self.section}.validation_fraction", share, "in [0, 1)")
        require(self.split_seed >= 0, f"{self.section}.split_seed", self.split_seed, "at least 0")
