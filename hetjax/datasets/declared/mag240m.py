"""Options of the reader mag240m."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """MAG240M: the folder that holds processed."""

    reverse: bool = True
    """add the reverse of every relation"""
