"""Simple-HGN (Lv et al., Are we really making much progress?, KDD 2021) as a model of one's own: a layer class.

    HETJAX_DATA=FOLDER python -m hetjax.train --config examples/dblp_simple_hgn.yaml --workdir runs/simple_hgn

Run it where `examples` can be imported. Published on HGB: DBLP 94.46, IMDB 67.36 % micro-F1. One thing is left out: attention that remembers the
weights of the layer below (equation 6, with a factor of 0.05), because a layer here sees the embeddings below and no edges' weights.
"""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.attention import attend
from hetjax.kernels.partials import Attention
from hetjax.models.dropout import NodeMasks, dropped, edge_keep_mask
from hetjax.models.exchange import Exchange
from hetjax.models.layer import Layer
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError

SLOPE = 0.05  # of the leaky ReLU below zero, as in the authors' code
EDGES = 64  # width of the embeddings of relations, as there
LOOP = "loop"


def projected(layer: "SimpleHGN", node_type: str, sources: jax.Array) -> jax.Array:
    """Return `W h_u`, `[S, heads, d]`, which all relations out of a type read."""
    return layer.matrix(sources)


def target_scores(
    layer: "SimpleHGN", node_type: str, targets: jax.Array, relations: Sequence[Relation], exchange: Exchange
) -> jax.Array:
    """Return `t . W h_v`, `[T, heads]`, which all relations into a type read."""
    return jnp.einsum("thd,hd->th", layer.matrix(targets), layer.towards[1])


class SimpleHGN(Layer):
    """The layer `h_v' = elu(sum over u of a_uv W h_u + W' h_v)`, where `a` is one softmax over the in-edges of all
    relations and a loop (equations 4, 5 and 7).

    `a_uv ~ LeakyReLU(s . W h_u + t . W h_v + e . W_r r)`, `r` being the embedding of the edge's relation, of loops one more. One `W` serves all
    types, so they need embeddings of one width: leave all features out, or set `model.input_projection`. The residual `W' h_v` is where the layer below is as wide, and in the logits,
    which are scaled to length 1 (equation 8).

    Attributes:
      heads: of the attention, concatenated; a layer that makes logits has one.
      dropout, attention_dropout: shares of the embeddings' entries and of the attention weights that are dropped in training.
      logits: whether the layer makes the logits.
    """

    heads: int = 4
    dropout: float = 0.0
    attention_dropout: float = 0.0
    logits: bool = False
    traits = Traits(monoid=partials.SOFTMAX, reads_weights=False, source_inputs=projected, target_inputs=target_scores)

    def setup(self):
        if len(set(self.widths.values())) > 1:
            raise InputError(
                f"SimpleHGN reads embeddings of one width, not {dict(self.widths)}: set model.input_projection"
            )
        self.count = 1 if self.logits else self.heads
        self.matrix = nn.DenseGeneral((self.count, self.features // self.count), use_bias=False)
        draw, shape = nn.initializers.glorot_uniform(), (self.count, self.features // self.count)
        self.towards = [self.param(f"attention_{side}", draw, shape) for side in ("source", "target")]
        self.edge_vector = self.param("attention_edge", draw, (self.count, EDGES))
        self.edge_matrix = nn.DenseGeneral((self.count, EDGES), use_bias=False)
        names = [*(relation.key for relation in self.relations), LOOP]
        self.edge = {name: self.param(f"edge_{name}", nn.initializers.normal(1.0), (EDGES,)) for name in names}
        if self.logits or self.features in self.widths.values():
            self.residual = nn.Dense(self.features, use_bias=False)
        else:
            self.residual = None

    def edge_score(self, name: str) -> jax.Array:
        """Return the term of a relation, or of the loop, in the logits of its edges, `[1, heads]`."""
        return jnp.einsum("hd,hd->h", self.edge_matrix(self.edge[name]), self.edge_vector)[None]

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: Any, targets: Any, masks: NodeMasks | None
    ) -> Attention:
        offsets = targets + self.edge_score(relation.key)
        path = (*self.path, relation.key)
        keep = edge_keep_mask(adjacency, self.count, self.attention_dropout, masks, path, offsets.dtype)
        return attend(adjacency, self.towards[0][None], offsets, sources, slope=SLOPE, keep=keep).partial()

    def aggregate_self(self, node_type: str, targets: jax.Array) -> Attention:
        value = self.matrix(targets)
        offset = jnp.einsum("thd,hd->th", value, self.towards[0] + self.towards[1]) + self.edge_score(LOOP)
        logit = nn.leaky_relu(offset, SLOPE)
        largest = jax.lax.stop_gradient(logit)
        factor = jnp.exp(logit - largest)
        return Attention(largest, factor, factor[..., None] * value)

    def finish(self, node_type: str, total: jax.Array, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        h = total + self.residual(targets) if self.residual else total
        if self.logits:
            return h / jnp.maximum(jnp.linalg.norm(h, axis=1, keepdims=True), 1e-12)
        return dropped(nn.elu(h), self.dropout, masks, self.path)
