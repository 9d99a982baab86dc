"""Options of the task edge_classification."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hetjax.options.check import require
from hetjax.tasks.declared import node_classification


@dataclass(frozen=True)
class Options(node_classification.Options):
    """Edge classification: the classes of labelled pairs of a relation."""

    section: ClassVar[str] = "edge_classification"
    decoder: Literal["bilinear", "mlp", "product"] = field(default="bilinear", metadata={"before": None})
    """what makes outputs of the ends' embeddings; bilinear: matrices between them; mlp: two layers on both and their product; product: a matrix on their elementwise product"""
    bases: int = field(default=2, metadata={"before": None})
    """the number of matrices of the decoder bilinear, of which each output has a weighted sum"""

    def __post_init__(self):
        super().__post_init__()
        require(self.bases >= 1, "edge_classification.bases", self.bases, "at least 1")
