"""GAT (Veličković et al., Graph Attention Networks, ICLR 2018)."""

import functools
from dataclasses import replace

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.csc import CSC
from hetjax.graph.loops import with_loops
from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.partials import Attention
from hetjax.models.activations import elu
from hetjax.models.decoupled_attention import AttentionPropagation
from hetjax.models.dropout import NodeMasks
from hetjax.models.layer import PlainLayer
from hetjax.models.rgat import RelationAttention
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError


def looped_edges(relation: Relation, csc: CSC, sources: int) -> CSC:
    """Return a relation from a type to itself with a loop at every node, as the paper's neighbourhoods have."""
    return with_loops(csc) if relation.source == relation.target else csc


class GATPropagation(AttentionPropagation):
    """`AttentionPropagation` over a neighbourhood that has a loop."""

    traits = replace(AttentionPropagation.traits, self_term=False, changed_edges=looped_edges)


def averaged(heads: int, partial: Attention) -> jax.Array:
    """Return the mean over the heads of a softmax's weighted sums (equation 6), `[nodes, width of a head]`."""
    h = partials.attended(partial)
    return jnp.mean(h.reshape(len(h), heads, h.shape[1] // heads), axis=1)


class GATLayer(PlainLayer):
    """Equations 1 to 6: `h_v' = elu(|| over heads of sum over u of a_uv W h_u + b)`, over the in-edges of v and its own loop.

    `a_uv = softmax over u of LeakyReLU(s . W h_u + t . W h_v)`. In a layer that makes the logits (`model.head false`) the heads
    are averaged, each as wide as there are outputs (equation 6). Deviations: with several relations each has weights and a
    softmax of its own, and the layer is their sum; a relation between two types has a matrix for either, and no loops.

    Attributes:
      heads: of the attention, concatenated.
      output_heads: of a layer that makes the logits, averaged.
      attention_dropout: share of the attention weights that is dropped in training.
    """

    heads: int = 4
    output_heads: int = 1
    attention_dropout: float = 0.0
    activation = staticmethod(elu)
    traits = Traits(
        edge_monoid=partials.SOFTMAX,
        self_term=False,
        reads_weights=False,
        multiplies_input=True,
        linear_input=True,
        logit="scores",
        changed_edges=looped_edges,
        propagation=GATPropagation,
    )

    def with_options(self, traits: Traits) -> Traits:
        traits = super().with_options(traits)
        if not self.logits:
            return replace(traits, heads=self.heads, head_width=self.features // max(1, self.heads))
        mean = partials.SOFTMAX._replace(total=functools.partial(averaged, self.output_heads))
        return replace(traits, edge_monoid=mean, heads=self.output_heads, head_width=self.features)

    def setup(self):
        super().setup()
        heads = self.output_heads if self.logits else self.heads
        if not self.logits and self.features % heads:
            raise InputError(f"embeddings of width {self.features} do not split into {heads} heads")
        width = self.features * heads if self.logits else self.features
        self.attention = {r.key: self._attention(r, width, heads) for r in self.relations}

    def _attention(self, relation: Relation, width: int, heads: int) -> nn.Module:
        return RelationAttention(width, heads, self.attention_dropout, relation.source == relation.target)

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array,
        masks: NodeMasks | None,
    ) -> Attention:
        return self.attention[relation.key](adjacency, sources, targets, masks)


MODEL = GATLayer
