"""Options of the task edge_regression."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hetjax.options.check import require
from hetjax.tasks.declared import node_regression


@dataclass(frozen=True)
class Options(node_regression.Options):
    """Edge regression: a number of each labelled pair of a relation, or several."""

    section: ClassVar[str] = "edge_regression"
    decoder: Literal["bilinear", "mlp", "product"] = field(default="bilinear", metadata={"before": None})
    """what makes outputs of the ends' embeddings; bilinear: matrices between them; mlp: two layers on both and their product; product: a matrix on their elementwise product"""
    bases: int = field(default=2, metadata={"before": None})
    """the number of matrices of the decoder bilinear, of which each output has a weighted sum"""

    def __post_init__(self):
        super().__post_init__()
        require(self.bases >= 1, "edge_regression.bases", self.bases, "at least 1")
