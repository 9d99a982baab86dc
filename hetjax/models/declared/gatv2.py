"""Options of the model gatv2."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.models.declared.output_heads import OutputHeads


@dataclass(frozen=True)
class Options(OutputHeads):
    """GATv2: the model of Brody et al. (2022)."""

    section: ClassVar[str] = "gatv2"
