"""Tasks that are not whole, and one whose loss is negative."""

from typing import Any

import jax
import numpy as np

from hetjax.tasks.node_regression import NodeRegression
from hetjax.tasks.task import Task


class Lacking(Task):
    """A task that defines its examples alone."""

    def __init__(self, graph: Any, config: Any):
        self.roots = (graph.schema.target,)

    def examples(self, split: str) -> np.ndarray:
        return np.empty(0, np.int32)


class Misnamed(NodeRegression):
    """Node regression whose headline is no metric."""

    def __init__(self, graph: Any, config: Any):
        super().__init__(graph, config)
        self.headline = "error"


class Below(NodeRegression):
    """Node regression whose loss is lower by 100 for each example."""

    def loss(self, outputs: jax.Array, arrays: Any) -> jax.Array:
        return super().loss(outputs, arrays) - 100 * arrays.weights.sum()

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Any = None) -> dict[str, float | None]:
        found = super().quality(outputs, examples, chosen)
        return found | {"loss": None if found["loss"] is None else found["loss"] - 100}
