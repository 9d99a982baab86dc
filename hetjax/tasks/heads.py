"""Heads of tasks that read one embedding an example."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax

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


def _normalised(logits: jax.Array, wanted: bool) -> jax.Array:
    if not wanted:
        return logits
    made: Any = nn.LayerNorm(use_scale=False, use_bias=False, parent=None).apply({}, logits)
    return made
