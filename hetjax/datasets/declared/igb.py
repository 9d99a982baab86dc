"""Options of the reader igb."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Options:
    """IGB: the folder that holds processed."""

    reverse: bool = True
    """add the reverse of every relation"""
    labels: Literal["19", "2K"] = field(default="19", metadata={"before": "igb_labels"})
    """labels of 19 classes or of 2983"""
