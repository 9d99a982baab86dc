"""Options of the reader hgb."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.datasets.declared.held_out import HeldOut


@dataclass(frozen=True)
class Options(HeldOut):
    """HGB: the text form of the Heterogeneous Graph Benchmark."""

    section: ClassVar[str] = "hgb"
