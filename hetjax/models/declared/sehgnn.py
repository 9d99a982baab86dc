"""Options of the model sehgnn."""

from dataclasses import dataclass
from typing import Literal

from hetjax.options.check import require


@dataclass(frozen=True)
class Options:
    """SeHGNN: the model of Yang et al. (2023)."""

    output_layers: int = 3
    """linear layers that follow the one which joins the metapaths, the head among them"""
    embedding_init: Literal["glorot", "uniform"] = "glorot"
    """how the matrices that embed metapaths' features start; glorot: as a Glorot matrix; uniform: from -1/2 to 1/2, as in the authors' code"""
    metapath_norm: Literal["each", "together"] = "each"
    """layer normalisation in the projections is of each metapath of a node alone, or of all of them together, as in the authors' code"""

    def __post_init__(self):
        require(1 <= self.output_layers <= 64, "sehgnn.output_layers", self.output_layers, "in 1..64")
