"""Options of the reader ogb."""

from dataclasses import dataclass
from typing import ClassVar

from hetjax.datasets.declared.arrays import Arrays


@dataclass(frozen=True)
class Options(Arrays):
    """OGB: a data set of OGB as it is unpacked; all options but reverse are for those of one kind of node and edge."""

    section: ClassVar[str] = "ogb"
    reverse: bool = True
    """add the reverse of every relation, of several kinds of nodes or edges"""
