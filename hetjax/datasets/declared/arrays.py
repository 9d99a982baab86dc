"""Options of graphs of one kind of node and edge."""

from dataclasses import dataclass
from typing import Literal

from hetjax.datasets.declared.held_out import HeldOut
from hetjax.options.check import require
from hetjax.system.errors import InputError


@dataclass(frozen=True)
class Arrays(HeldOut):
    """Edges and splits of arrays.

    Attributes:
      section: the name of the section of options, which errors give.
    """

    split: Literal["public", "random", "shchur"] = "public"
    """the nodes that train, validate and test; public: those of the files; random: shares of the labelled nodes; shchur: a fixed number of nodes of every class, and all others test"""
    split_seed: int = 0
    """the seed of a split that is drawn, and of nodes that are held out"""
    split_number: int = 0
    """public: the number of the split, from 0, where the files hold several"""
    split_shares: tuple[float, ...] = (0.6, 0.2, 0.2)
    """random: shares for training, validation and test; the rest of the nodes is not used"""
    split_per_class: tuple[int, ...] = (20, 30)
    """shchur: nodes of every class for training and for validation"""
    undirected: bool = True
    """add the reverse of every edge, and keep every edge once, with the first of its weights; false: the edges as they are written"""
    edge_weights: bool = True
    """read the weights of edges, where there are any; false: every edge counts alike"""

    def __post_init__(self):
        super().__post_init__()
        require(self.split_number >= 0, f"{self.section}.split_number", self.split_number, "at least 0")
        shares, counts = self.split_shares, self.split_per_class
        fits = len(shares) == 3 and all(share >= 0 for share in shares) and shares[0] > 0 and sum(shares) < 1 + 1e-9
        expected = "three shares of at most 1 together, the first above 0"
        require(fits, f"{self.section}.split_shares", list(shares), expected)
        fits = len(counts) == 2 and 0 < counts[0] < 2**31 and 0 <= counts[1] < 2**31
        require(fits, f"{self.section}.split_per_class", list(counts), "two numbers of nodes, the first above 0")
        if self.split_number and self.split != "public":
            number = f"{self.section}.split_number is {self.split_number}"
            raise InputError(
                f"{number}, and {self.section}.split {self.split} draws a split by {self.section}.split_seed"
            )
