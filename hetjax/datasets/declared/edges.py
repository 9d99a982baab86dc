"""Options of the reader edges."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.datasets.declared.arrays import Arrays


@dataclass(frozen=True)
class Options(Arrays):
    """Edges: one kind of node and edge, as a folder with a list of edges."""

    section: ClassVar[str] = "edges"
