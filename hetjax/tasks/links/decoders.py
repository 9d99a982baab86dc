"""Decoders: Flax modules that score links from embeddings of their ends, with parameters of their own."""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.tasks.links.scores import score_of
from hetjax.tasks.links.similarity import in_blocks


def _phases(key: jax.Array, shape: Sequence[int]) -> jax.Array:
    return jax.random.uniform(key, shape, minval=-math.pi, maxval=math.pi)


INITIALISERS = {
    "rotate": _phases,
    "distmult": nn.initializers.normal(1.0),  # so that a score has the size of a dot product at the start
}


class Relations(nn.Module):
    """A score of `hetjax.tasks.links.scores`, with an embedding `[relations, W]` as its parameter `relations`.

    Attributes:
      relations: the number of target relations; of reciprocal relations twice as many.
      width: the columns `H` of the embeddings of nodes.
      score: the name of the score.

    Raises:
      InputError: as `scores.score_of`.
    """

    relations: int
    width: int
    score: str

    def setup(self):
        self.function = score_of(self.score, self.width)
        shape = self.relations, self.function.width(self.width)
        start = INITIALISERS.get(self.score, nn.initializers.xavier_normal())
        self.embedding = self.param("relations", start, shape) if shape[1] else jnp.zeros(shape)

    def __call__(self, heads: jax.Array, relations: jax.Array, tails: jax.Array) -> jax.Array:
        """Return the scores `[...]` of heads `[..., H]` and tails `[..., H]`, joined by relations whose numbers are `[...]`."""
        return self.function.triples(heads, self.embedding[relations], tails)

    def all_tails(self, heads: jax.Array, relations: jax.Array, candidates: jax.Array) -> jax.Array:
        """Return scores `[n, m]`: heads `[n, H]`, numbers of relations `[n]`, candidates `[m, H]` as tails."""
        return self.function.all_tails(heads, self.embedding[relations], candidates)

    def all_heads(self, tails: jax.Array, relations: jax.Array, candidates: jax.Array) -> jax.Array:
        """Return scores `[n, m]`: tails `[n, H]`, numbers of relations `[n]`, candidates `[m, H]` as heads."""
        return self.function.all_heads(tails, self.embedding[relations], candidates)


class MLP(nn.Module):
    """A perceptron on both ends and the relation: a hidden layer on `[h, r, t]`, a ReLU, and a weighted sum.

    The first layer is the sum of what each of the three contributes, so that many candidates need one product each, and not one for
    every pair.

    Attributes:
      relations, width: as of `Relations`.
      hidden: the columns of the hidden layer.
    """

    relations: int
    width: int
    hidden: int

    def setup(self):
        start = nn.initializers.glorot_uniform()
        self.of_head = self.param("head", start, (self.width, self.hidden))
        self.of_tail = self.param("tail", start, (self.width, self.hidden))
        self.embedding = self.param("relations", nn.initializers.zeros_init(), (self.relations, self.hidden))
        self.weights = self.param("weights", start, (self.hidden, 1))
        self.bias = self.param("bias", nn.initializers.zeros_init(), ())

    def __call__(self, heads: jax.Array, relations: jax.Array, tails: jax.Array) -> jax.Array:
        """Return the scores `[...]`, as `Relations` does."""
        return self._score(heads @ self.of_head + self.embedding[relations] + tails @ self.of_tail)

    def all_tails(self, heads: jax.Array, relations: jax.Array, candidates: jax.Array) -> jax.Array:
        """Return scores `[n, m]`, as `Relations` does."""
        return self._all(heads @ self.of_head + self.embedding[relations], candidates @ self.of_tail)

    def all_heads(self, tails: jax.Array, relations: jax.Array, candidates: jax.Array) -> jax.Array:
        """Return scores `[n, m]`, as `Relations` does."""
        return self._all(tails @ self.of_tail + self.embedding[relations], candidates @ self.of_head)

    def _score(self, hidden: jax.Array) -> jax.Array:
        return (nn.relu(hidden) @ self.weights)[..., 0] + self.bias

    def _all(self, known: jax.Array, candidates: jax.Array) -> jax.Array:
        return in_blocks(lambda queries, keys: self._score(queries + keys))(known, candidates)


class DenseBiDecoder(nn.Module):
    """Logits of the classes of edges, `h Q_c t` with `Q_c = sum_b a_cb P_b` over a basis of matrices.

    The bilinear decoder of van den Berg et al., Graph Convolutional Matrix Completion (2017), with their sharing of weights; DGL's example
    and GraphStorm call it `DenseBiDecoder`.

    Attributes:
      classes: the number of classes.
      bases: the number of matrices.
      dropout: the share of the columns of both ends that training sets to 0.
    """

    classes: int
    bases: int = 2
    dropout: float = 0.0

    @nn.compact
    def __call__(self, heads: jax.Array, tails: jax.Array, deterministic: bool = True) -> jax.Array:
        """Return logits `[..., classes]` of edges with the ends `[..., H]` and `[..., H']`."""
        start = nn.initializers.glorot_uniform(batch_axis=0)
        matrices = self.param("matrices", start, (self.bases, heads.shape[-1], tails.shape[-1]))
        shares = self.param("shares", nn.initializers.glorot_uniform(), (self.bases, self.classes))
        drop = nn.Dropout(self.dropout, deterministic=deterministic)
        heads, tails = drop(heads), drop(tails)
        return jnp.einsum("...i,bij,...j->...b", heads, matrices, tails) @ shares
