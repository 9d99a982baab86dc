"""Heads of tasks that read one embedding an example."""

import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.kernels.linear import Dense


class LinearHead(nn.Module):
    """A matrix and a bias on the embeddings of the one root type.

    Attributes:
      outputs: the number of outputs of a node.
      root: the root type.
      normalised: whether the outputs of every node are brought to mean 0 and variance 1, so that with few classes no probability comes near 1.
    """

    outputs: int
    root: str
    normalised: bool = False

    def setup(self):
        self.dense = Dense(self.outputs)
        nn.share_scope(self, self.dense)  # so that the parameters are `head/kernel` and `head/bias`

    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Any) -> jax.Array:
        return _normalised(self.dense(embeddings[self.root]), self.normalised)


class PlainHead(nn.Module):
    """The embeddings of the one root type as outputs, as the last layer made them.

    Attributes:
      root, normalised: as of `LinearHead`.
    """

    root: str
    normalised: bool = False

    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Any) -> jax.Array:
        return _normalised(embeddings[self.root], self.normalised)


class ProportionalOdds(nn.Module):
    """Logarithms of the probabilities of classes that have an order, from embeddings of the one root type.

    McCullagh 1980, equation 2.4: `P(y <= k) = sigmoid(b_k - s)`, with a score `s` of each node and thresholds `b_0 < b_1 < ...`
    that all nodes share.

    Attributes:
      outputs: the number of classes.
      root: the root type.
    """

    outputs: int
    root: str

    @nn.compact
    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Any) -> jax.Array:
        h = embeddings[self.root]
        score = h @ self.param("kernel", nn.initializers.lecun_normal(), (h.shape[1], 1))
        between = self.outputs - 2
        steps = nn.softplus(self.param("steps", nn.initializers.ones, (between,)))
        first = self.param("first", nn.initializers.constant(-between * math.log1p(math.e) / 2), (1,))
        thresholds = jnp.concatenate([first, first + jnp.cumsum(steps)])
        below, above = (jax.nn.log_sigmoid(sign * (thresholds[None] - score)) for sign in (1, -1))
        # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))
        inner = below[:, 1:] + above[:, :-1] + jnp.log(-jnp.expm1(-steps))[None]
        return jnp.concatenate([below[:, :1], inner, above[:, -1:]], axis=1)


def _normalised(logits: jax.Array, wanted: bool) -> jax.Array:
    if not wanted:
        return logits
    made: Any = nn.LayerNorm(use_scale=False, use_bias=False, parent=None).apply({}, logits)
    return made
