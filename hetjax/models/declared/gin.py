"""Options of the model gin."""

import math
from dataclasses import dataclass

from hetjax.options.check import require


@dataclass(frozen=True)
class Options:
    """GIN: the model of Xu et al. (2019)."""

    epsilon: float = 0.0
    """the weight of a node's own embedding is 1 + epsilon"""
    learn_epsilon: bool = False
    """learn epsilon, one per node type and layer, from gin.epsilon on"""

    def __post_init__(self):
        require(math.isfinite(self.epsilon), "gin.epsilon", self.epsilon, "a finite number")
