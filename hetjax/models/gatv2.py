"""GATv2 (Brody, Alon and Yahav, How Attentive are Graph Attention Networks?, ICLR 2022)."""

from dataclasses import replace

import flax.linen as nn
import jax

from hetjax.graph.schema import Relation
from hetjax.kernels.additive import attend_additively
from hetjax.kernels.linear import times
from hetjax.kernels.partials import Attention
from hetjax.models.decoupled_attention import SLOPE
from hetjax.models.dropout import NodeMasks, edge_keep_mask
from hetjax.models.gat import GATLayer
from hetjax.sampling.blocks import Adjacency


class DynamicAttention(nn.Module):
    """Equation 7 over the edges of one relation, the paper's `W [h_v || h_u]` being `W_t h_v + W_s h_u`.

    `a_uv = softmax over u of a . LeakyReLU(W_s h_u + W_t h_v)`, and per head the sum over u of `a_uv W_s h_u`. The
    nonlinearity is inside, so no matrix can be moved behind the sum: both sides are multiplied first.

    Attributes:
      features: width of the result, over all heads.
      heads: number of heads.
      dropout: share of the attention weights that is dropped in training.
    """

    features: int
    heads: int
    dropout: float = 0.0

    @nn.compact
    def __call__(
        self, adjacency: Adjacency, sources: jax.Array, targets: jax.Array, masks: NodeMasks | None = None
    ) -> Attention:
        """Return the partial aggregate of the edges."""
        keys, queries = self._side("source", sources), self._side("target", targets)
        shape = (self.heads, self.features // self.heads)
        vector = self.param("attention", nn.initializers.glorot_uniform(), shape)
        keep = edge_keep_mask(adjacency, self.heads, self.dropout, masks, self.path, keys.dtype)
        return attend_additively(adjacency, queries, keys, vector, SLOPE, keep)

    def _side(self, side: str, x: jax.Array) -> jax.Array:
        """Return rows times a side's matrix, `[rows, heads, features / heads]`."""
        shape = (x.shape[1], self.heads, self.features // self.heads)
        kernel = self.param(f"kernel_{side}", nn.initializers.glorot_uniform(in_axis=0, out_axis=(1, 2)), shape)
        return times(x.astype(kernel.dtype), kernel)


class GATv2Layer(GATLayer):
    """`GATLayer` with the attention of equation 7, `LeakyReLU` inside; sources and targets have a matrix each."""

    # Logits are not linear in the input, so keys must be known whole.
    traits = replace(GATLayer.traits, propagation=None, linear_input=False, logit="additive")

    def _attention(self, relation: Relation, width: int, heads: int) -> nn.Module:
        return DynamicAttention(width, heads, self.attention_dropout)


MODEL = GATv2Layer
