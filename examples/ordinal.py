"""Ordinal regression, a task of one's own: classes that have an order, such as ratings, by a proportional-odds model.

    python -m hetjax.train --task.name examples.ordinal:OrdinalRegression --workdir runs/ordinal

takes a minute on the generated graph; `test_mae` in summary.json is the mean distance in classes. McCullagh 1980, equation
2.4: `P(y <= k) = sigmoid(b_k - s)`, with a score `s` of each node and thresholds `b_0 < b_1 < ...` that all nodes share.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.tasks.node_classification import NodeClassification
from hetjax.tasks.quality import Metric, Quality

LEAST = 1e-6  # of a probability that has a logarithm


class ProportionalOdds(nn.Module):
    """Logarithms of the probabilities of the classes, `[nodes, classes]`, from embeddings of one type.

    Attributes:
      classes: how many there are.
      root: the node type.
    """

    classes: int
    root: str

    @nn.compact
    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Any) -> jax.Array:
        h = embeddings[self.root]
        score = h @ self.param("kernel", nn.initializers.lecun_normal(), (h.shape[1], 1))
        steps = self.param("steps", nn.initializers.ones, (self.classes - 1,))
        thresholds = jnp.cumsum(nn.softplus(steps)) - nn.softplus(steps).sum() / 2
        below = nn.sigmoid(thresholds[None] - score)
        below = jnp.pad(below, ((0, 0), (1, 0)))
        upto = jnp.pad(below[:, 1:], ((0, 0), (0, 1)), constant_values=1.0)
        return jnp.log(jnp.maximum(upto - below, LEAST))


class OrdinalRegression(NodeClassification):
    """Node classification whose head knows the order of the classes, and whose epochs are chosen by the distance in classes."""

    metrics = MappingProxyType({"mae": Metric("mean distance", "classes", higher=False), **NodeClassification.metrics})
    headline, options = "mae", frozenset()

    def __init__(self, graph: Any, config: Any):
        super().__init__(graph, config)
        self.metric = self.compared_by = "mae"

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return ProportionalOdds(self.outputs, self.root)

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        distance = np.abs(outputs.argmax(axis=1) - self.labels[examples])
        mae = float(distance.mean()) if len(distance) else None
        return {"mae": mae} | super().quality(outputs, examples, chosen)

    def baselines(self, graph: Any) -> Mapping[str, Any]:
        return {}
