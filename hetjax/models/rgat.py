"""R-GAT: graph attention (Veličković et al., Graph Attention Networks, ICLR 2018) per relation, summed over relations
(Busbridge et al., Relational Graph Attention Networks, 2019, with the softmax within each relation, WIRGAT)."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hetjax.errors import InputError
from hetjax.graph.schema import Relation
from hetjax.models import partials
from hetjax.models.activations import elu
from hetjax.models.attention import attend
from hetjax.models.decoupled_attention import SLOPE, AttentionPropagation
from hetjax.models.dropout import NodeMasks, edge_keep_mask
from hetjax.models.folded_attention import attend_folded
from hetjax.models.layer import PlainLayer
from hetjax.models.linear import Dense, times
from hetjax.models.partials import Attention, Monoid
from hetjax.models.segment import multiply_first
from hetjax.models.together import Together
from hetjax.sampling.blocks import Adjacency


class RelationAttention(nn.Module):
    """Equations 1 to 5 of the GAT paper over the edges of one relation.

    `a_uv = softmax over u of LeakyReLU(s . W h_u + t . W' h_v)`, and per head the sum over u of `a_uv W h_u`. Sources and
    targets have matrices of their own, because types have different widths, unless they share the paper's one.

    Attributes:
      features: width of the result, over all heads.
      heads: number of heads.
      dropout: share of the attention weights that is dropped in training.
      shared: whether `W'` is `W`.
    """

    features: int
    heads: int
    dropout: float = 0.0
    shared: bool = False

    def __call__(
        self, adjacency: Adjacency, sources: jax.Array, targets: jax.Array, masks: NodeMasks | None = None
    ) -> Attention:
        """The partial aggregate of the edges."""
        kernel, towards, target_kernel, target_vector = self.weights(sources.shape[1], targets.shape[1])
        sources, targets = (x.astype(kernel.dtype) for x in (sources, targets))
        offsets = times(targets, jnp.einsum("whd,hd->wh", target_kernel, target_vector))
        keep = edge_keep_mask(adjacency, self.heads, self.dropout, masks, self.path, offsets.dtype)
        if multiply_first(adjacency, sources, self.features, self.heads):
            projected = times(sources, kernel)
            return attend(adjacency, towards[None], offsets, projected, slope=SLOPE, keep=keep).partial()
        return attend_folded(adjacency, towards[None], offsets, sources, kernel, kernel, SLOPE, keep).partial()

    @nn.compact
    def weights(self, width: int, target_width: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """`W` and `s`, `W'` and `t`: matrices `[width, heads, d]` and vectors `[heads, d]`."""
        kernel, towards = self._kernel("source", width), self._vector("source")
        target_kernel = kernel if self.shared else self._kernel("target", target_width)
        return kernel, towards, target_kernel, self._vector("target")

    def _kernel(self, side: str, width: int) -> jax.Array:
        """A side's matrix, `[width, heads, features / heads]`."""
        shape = (width, self.heads, self.features // self.heads)
        return self.param(f"kernel_{side}", nn.initializers.glorot_uniform(in_axis=0, out_axis=(1, 2)), shape)

    def _vector(self, side: str) -> jax.Array:
        """A side's part of the attention vector, `[heads, features / heads]`."""
        shape = (self.heads, self.features // self.heads)
        return self.param(f"attention_{side}", nn.initializers.glorot_uniform(), shape)


class RGATLayer(PlainLayer):
    """`h_v' = elu(W_0 h_v + sum over r of the attention of relation r)`, with a bias and a `W_0` per node type.

    The fold is a sum, and it looks at the target.

    Attributes:
      heads: of the attention, concatenated.
      attention_dropout: share of the attention weights that is dropped in training.
    """

    heads: int = 4
    attention_dropout: float = 0.0
    activation = staticmethod(elu)
    multiplies_input = True
    reads_weights = False
    propagation = AttentionPropagation
    products = 1

    def setup(self):
        super().setup()
        if self.features % self.heads:
            raise InputError(f"embeddings of width {self.features} do not split into {self.heads} heads")
        self.attention = {
            r.key: RelationAttention(self.features, self.heads, self.attention_dropout) for r in self.relations
        }
        self.self_loop = {t: Dense(self.features, use_bias=False) for t in self.selves}

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array,
        masks: NodeMasks | None,
    ) -> Attention:
        return self.attention[relation.key](adjacency, sources, targets, masks)

    def alike(self, relation: Relation) -> Any:
        if self.attention_dropout:  # whose masks are each relation's own
            return None
        return self.widths[relation.source], self.widths[relation.target]

    def together_weights(self, relation: Relation) -> list[tuple[str, ...]]:
        names = "kernel_source", "attention_source", "kernel_target", "attention_target"
        return [(f"attention_{relation.key}", name) for name in names]

    def fold_together(
        self, group: Together, sources: Mapping[str, Any], asked: Mapping[str, Any]
    ) -> dict[str, jax.Array]:
        x, targets = group.of_sources(sources), group.of_targets(asked)
        kernel, towards, target_kernel, target_vector = group.stacked(
            lambda r: self.attention[r.key].weights(x.shape[1], targets.shape[1])
        )
        offsets = group.from_targets(targets, jnp.einsum("rwhd,rhd->rwh", target_kernel, target_vector))
        keys = group.from_sources(x, jax.lax.collapse(kernel, 2)).reshape(-1, *towards.shape[1:])
        queries = group.at_targets(towards)
        return group.total(partials.attended(attend(group.edges, queries, offsets, keys, slope=SLOPE).partial()))

    @property
    def edge_monoid(self) -> Monoid:
        return partials.SOFTMAX

    @property
    def linear_input(self) -> bool:
        return True

    def no_edges(self, targets: int, dtype: DTypeLike) -> Attention:
        return partials.unattended(targets, self.heads, self.features // self.heads, dtype)

    def relation_total(self, relation: Relation, partial: Attention) -> jax.Array:
        return partials.attended(partial)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return self.self_loop[node_type](targets)


MODEL = RGATLayer
