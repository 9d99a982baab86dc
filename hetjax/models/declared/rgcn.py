"""Options of the model rgcn."""

from dataclasses import dataclass

from hetjax.options.check import require

MOST_BASES = 2**16


@dataclass(frozen=True)
class Options:
    """R-GCN: the model of Schlichtkrull et al. (2018)."""

    bases: int = 0
    """number of basis matrices, which relations with sources of the same width share; 0: one matrix per relation"""
    share_self: bool = False
    """the self term's matrix is a combination of the bases too, as in the code of the R-GCN paper"""
    one_hot: bool = False
    """node types without features get one-hot features: the first layer has a weight row per node, as in the R-GCN paper"""

    def __post_init__(self):
        require(0 <= self.bases <= MOST_BASES, "rgcn.bases", self.bases, f"in 0..{MOST_BASES}")
