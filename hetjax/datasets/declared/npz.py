"""Options of the reader npz."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.datasets.declared.arrays import Arrays


@dataclass(frozen=True)
class Options(Arrays):
    """NPZ: one kind of node and edge, as plain arrays in a .npz."""

    section: ClassVar[str] = "npz"
