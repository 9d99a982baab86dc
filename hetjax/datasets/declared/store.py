"""Options of the reader store."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.datasets.declared.held_out import HeldOut


@dataclass(frozen=True)
class Options(HeldOut):
    """Store: hetjax's own format, which tables and graphs in memory become."""

    section: ClassVar[str] = "store"
