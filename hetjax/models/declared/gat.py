"""Options of the model gat."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.models.declared.output_heads import OutputHeads


@dataclass(frozen=True)
class Options(OutputHeads):
    """GAT: the model of Velickovic et al. (2018)."""

    section: ClassVar[str] = "gat"
