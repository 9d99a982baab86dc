"""R-GAT: graph attention (Veličković et al., Graph Attention Networks, ICLR 2018) per relation, summed over relations
(Busbridge et al., Relational Graph Attention Networks, 2019, with the softmax within each relation, WIRGAT)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.attention import attend
from hetjax.kernels.folded_attention import attend_folded
from hetjax.kernels.linear import Dense, times
from hetjax.kernels.partials import Attention
from hetjax.kernels.segment import multiply_first
from hetjax.kernels.together import Together
from hetjax.models.activations import elu
from hetjax.models.decoupled_attention import SLOPE, AttentionPropagation
from hetjax.models.dropout import NodeMasks, edge_keep_mask
from hetjax.models.exchange import Exchange
from hetjax.models.layer import PlainLayer
from hetjax.models.traits import Grouped, Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError


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
        """Return the partial aggregate of the edges."""
        self.side("source", sources.shape[1])  # drawn before those of targets
        matrix = self.of_targets(targets.shape[1])
        return self.fold(adjacency, sources, times(targets.astype(matrix.dtype), matrix), masks)

    def fold(
        self, adjacency: Adjacency, sources: jax.Array, offsets: jax.Array, masks: NodeMasks | None = None
    ) -> Attention:
        """Return the partial aggregate, from the targets' part of the logits, `[T, heads]`."""
        kernel, towards = self.side("source", sources.shape[1])
        sources = sources.astype(kernel.dtype)
        keep = edge_keep_mask(adjacency, self.heads, self.dropout, masks, self.path, offsets.dtype)
        if multiply_first(adjacency, sources, self.features, self.heads):
            projected = times(sources, kernel)
            return attend(adjacency, towards[None], offsets, projected, slope=SLOPE, keep=keep).partial()
        return attend_folded(adjacency, towards[None], offsets, sources, kernel, kernel, SLOPE, keep).partial()

    def of_targets(self, width: int) -> jax.Array:
        """Return `W' t`, `[width, heads]`, by which targets are multiplied for their part of the logits."""
        return jnp.einsum("whd,hd->wh", *self.side("target", width))

    @nn.compact
    def side(self, side: str, width: int) -> tuple[jax.Array, jax.Array]:
        """Return `W` and `s` of sources, or `W'` and `t` of targets: a matrix `[width, heads, d]` and a vector `[heads, d]`."""
        drawn, shape = nn.initializers.glorot_uniform, (self.heads, self.features // self.heads)
        end = "source" if self.shared else side
        kernel = self.param(f"kernel_{end}", drawn(in_axis=0, out_axis=(1, 2)), (width, *shape))
        return kernel, self.param(f"attention_{side}", drawn(), shape)


class Targets(NamedTuple):
    """The inputs that relations read of a type's targets.

    Attributes:
      rows: their own embeddings of the layer below, `[T, width]`.
      offsets: the targets' part of the logits, `[T, heads]`, per key of the relations that are aggregated
        one by one; of none while weights are initialised.
    """

    rows: jax.Array
    offsets: Mapping[str, jax.Array]


def relation_shape(layer: "RGATLayer", relation: Relation) -> tuple[int, int] | None:
    """Return both widths of a relation that can be aggregated with others; None: each relation has dropout masks of its own."""
    return None if layer.attention_dropout else (layer.widths[relation.source], layer.widths[relation.target])


def relation_weights(layer: "RGATLayer", relation: Relation) -> list[tuple[str, ...]]:
    """Return the paths of a relation's weights."""
    names = "kernel_source", "attention_source", "kernel_target", "attention_target"
    return [(f"attention_{relation.key}", name) for name in names]


def aggregate_grouped(
    layer: "RGATLayer", group: Together, sources: Mapping[str, Any], targets: Mapping[str, Targets]
) -> dict[str, jax.Array]:
    """Return the partial aggregates of a group of relations, per target type."""
    x, rows = group.of_sources(sources), group.of_targets({t: of_type.rows for t, of_type in targets.items()})
    ends = {"source": x.shape[1], "target": rows.shape[1]}
    kernel, towards, target_kernel, target_vector = group.stacked(
        lambda r: [weights for end, width in ends.items() for weights in layer.attention[r.key].side(end, width)]
    )
    offsets = group.from_targets(rows, jnp.einsum("rwhd,rhd->rwh", target_kernel, target_vector))
    keys = group.from_sources(x, jax.lax.collapse(kernel, 2)).reshape(-1, *towards.shape[1:])
    queries = group.at_targets(towards)
    return group.total(partials.attended(attend(group.edges, queries, offsets, keys, slope=SLOPE).partial()))


def target_offsets(
    layer: "RGATLayer", node_type: str, targets: jax.Array, relations: Sequence[Relation], exchange: Exchange
) -> Targets:
    """Return the targets with their offsets, by one product: targets may have wide rows, and are read once."""
    if not relations or layer.is_initializing():  # where each relation draws weights for its sources first
        return Targets(targets, {})
    matrices = [layer.attention[r.key].of_targets(targets.shape[1]) for r in relations]
    offsets = times(targets.astype(matrices[0].dtype), jnp.concatenate(matrices, axis=1))
    return Targets(targets, {r.key: part for r, part in zip(relations, jnp.split(offsets, len(relations), axis=1))})


class RGATLayer(PlainLayer):
    """The layer `h_v' = elu(W_0 h_v + sum over r of the attention of relation r)`, with a bias and a `W_0` per node type.

    The aggregation is a sum that reads the target.

    Attributes:
      heads: of the attention, concatenated.
      attention_dropout: share of the attention weights that is dropped in training.
    """

    heads: int = 4
    attention_dropout: float = 0.0
    activation = staticmethod(elu)
    traits = Traits(
        edge_monoid=partials.SOFTMAX,
        reads_weights=False,
        multiplies_input=True,
        linear_input=True,
        attention_products=1,
        logit="scores",
        propagation=AttentionPropagation,
        grouped=Grouped(relation_shape, relation_weights, aggregate_grouped),
        target_inputs=target_offsets,
    )

    def with_options(self, traits: Traits) -> Traits:
        traits = super().with_options(traits)
        return replace(traits, heads=self.heads, head_width=self.features // max(1, self.heads))

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
        targets: Targets,
        masks: NodeMasks | None,
    ) -> Attention:
        attention = self.attention[relation.key]
        if self.is_initializing():
            return attention(adjacency, sources, targets.rows, masks)
        return attention.fold(adjacency, sources, targets.offsets[relation.key], masks)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return self.self_loop[node_type](targets)


MODEL = RGATLayer
