"""Options of models that average the attention heads of their last layer."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.options.check import require

MOST_HEADS = 2**16


@dataclass(frozen=True)
class OutputHeads:
    """Attention heads of the last layer.

    Attributes:
      section: the name of the section of options, which errors give.
    """

    section: ClassVar[str]
    output_heads: int = 1
    """with model.head false, number of attention heads of the last layer, which are averaged"""

    def __post_init__(self):
        fits = 1 <= self.output_heads <= MOST_HEADS
        require(fits, f"{self.section}.output_heads", self.output_heads, f"in 1..{MOST_HEADS}")
