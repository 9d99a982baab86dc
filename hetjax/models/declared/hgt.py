"""Options of the model hgt."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """HGT: the model of Hu et al. (2020)."""

    softmax: Literal["joint", "relation"] = "joint"
    """joint: one softmax over the in-edges of all relations, as in the paper; relation: one softmax per relation, as in DGL and GraphStorm"""
