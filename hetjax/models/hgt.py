"""HGT (Hu et al., Heterogeneous Graph Transformer, WWW 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.attention import attend, scores
from hetjax.kernels.folded_attention import attend_folded
from hetjax.kernels.heads import each_head
from hetjax.kernels.linear import Dense, times, times_each
from hetjax.kernels.once import once
from hetjax.kernels.partials import Attention
from hetjax.kernels.segment import multiply_first, share_products
from hetjax.kernels.together import Together
from hetjax.models.activations import gelu
from hetjax.models.aggregate import relation_total
from hetjax.models.dropout import NodeMasks, dropped, edge_keep_mask
from hetjax.models.exchange import Exchange
from hetjax.models.layer import Layer
from hetjax.models.traits import Grouped, Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError


class Projection(nn.Module):
    """A node type's linear map onto the heads, before it is applied: `(kernel [width, heads, d], bias [heads, d])`.

    Attributes:
      heads, size: `heads` and `d`.
      bias: whether there is one; otherwise it is zero.
    """

    heads: int
    size: int
    bias: bool = True

    @nn.compact
    def __call__(self, width: int) -> tuple[jax.Array, jax.Array]:
        shape = (width, self.heads, self.size)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(in_axis=0, out_axis=(1, 2)), shape)
        zeros = nn.initializers.zeros_init()
        return kernel, self.param("bias", zeros, shape[1:]) if self.bias else jnp.zeros(shape[1:], kernel.dtype)


class Shared(NamedTuple):
    """The keys and values of a type's nodes that relations out of the type share.

    Attributes:
      rows: their embeddings of the layer below, `[S, width]`, which the other relations read.
      readers: the keys of the relations that share.
      keys, values: `K h_u` and `V h_u` without their biases, `[S, heads, d]`.
      key_bias, value_bias: `[heads, d]`.
    """

    rows: jax.Array
    readers: frozenset[str]
    keys: jax.Array
    values: jax.Array
    key_bias: jax.Array
    value_bias: jax.Array


class MutualAttention(nn.Module):
    """Equations 3 and 4 over the edges of one relation: heterogeneous mutual attention and message passing.

    The logit of an edge u -> v is `(K h_u) W_att (Q h_v) mu / sqrt(d)` and its value `(V h_u) W_msg`, per head, with one
    prior `mu` per relation and head. Where there are many more sources than targets the matrices move to the target side:
    `(K h_u) . q = h_u . (K^T q)`, and the sum over u of `a V h_u` is `V` times the sum of `a h_u`.

    Attributes:
      key, value: of the source's type, shared by the relations out of it.
      dropout: share of the attention weights that is dropped in training.
    """

    key: Projection
    value: Projection
    dropout: float = 0.0

    def __call__(
        self, adjacency: Adjacency, sources: jax.Array, queries: jax.Array, masks: NodeMasks | None = None
    ) -> Attention:
        """Return the partial aggregate of the relation's edges.

        Args:
          sources: `[S, width]`.
          queries: `[T, heads, d]`, the targets' `Q h_v`.
        """
        _, heads, size = queries.shape
        prior, attention, message = self.weights()
        attention = attention * (prior / size**0.5)[:, None, None]
        key, key_bias = _related(self.key(sources.shape[1]), attention)
        value, value_bias = _related(self.value(sources.shape[1]), message)
        sources = sources.astype(key.dtype)
        offsets = scores(queries, key_bias)
        keep = edge_keep_mask(adjacency, heads, self.dropout, masks, self.path, offsets.dtype)
        if multiply_first(adjacency, sources, heads * size, heads, 2):
            keys, values = times_each(sources, (key, value))
            return attend(adjacency, queries, offsets, keys, values, keep=keep).partial(value_bias)
        attended = attend_folded(adjacency, queries, offsets, sources, key, value, keep=keep)
        return attended.partial(value_bias)

    def of_shared(
        self, adjacency: Adjacency, sources: Shared, queries: jax.Array, masks: NodeMasks | None = None
    ) -> Attention:
        """Return the same from keys and values that relations share: the relation's matrices are at the end with fewer rows."""
        _, heads, size = queries.shape
        prior, attention, message = self.weights()
        attention = attention * (prior / size**0.5)[:, None, None]
        keys, values = sources.keys, sources.values
        value_bias = each_head(sources.value_bias[None], message)[0]
        offsets = scores(queries, each_head(sources.key_bias[None], attention)[0])
        keep = edge_keep_mask(adjacency, heads, self.dropout, masks, self.path, offsets.dtype)
        if len(keys) < len(queries):
            keys, values = each_head(keys, attention), each_head(values, message)
            return attend(adjacency, queries, offsets, keys, values, keep=keep).partial(value_bias)
        queries = each_head(queries, jnp.swapaxes(attention, 1, 2))
        attended = attend(adjacency, queries, offsets, keys, values, keep=keep)
        return attended._replace(numerator=each_head(attended.numerator, message)).partial(value_bias)

    @nn.compact
    def weights(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return `mu` `[heads]`, and `W_att` and `W_msg`, a matrix per head: `[heads, d, d]`."""
        heads, size = self.key.heads, self.key.size
        prior = self.param("prior", nn.initializers.ones_init(), (heads,))
        drawn, shape = nn.initializers.glorot_uniform(batch_axis=(0,)), (heads, size, size)
        attention = self.param("attention", drawn, shape)
        return prior, attention, self.param("message", drawn, shape)


def _related(projection: tuple[jax.Array, jax.Array], matrices: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a type's projection and after it a relation's matrices, one per head, as one map; or those of several relations."""
    kernel, bias = projection
    return each_head(kernel, matrices), each_head(bias[..., None, :, :], matrices)[..., 0, :, :]


def relation_shape(layer: "HGTLayer", relation: Relation) -> int | None:
    """Return the source width of a relation that can be aggregated with others; None: each relation has dropout masks of its own."""
    return None if layer.attention_dropout else layer.widths[relation.source]


def relation_weights(layer: "HGTLayer", relation: Relation) -> list[tuple[str, ...]]:
    """Return the paths of a relation's weights."""
    return [(f"attention_{relation.key}", name) for name in ("prior", "attention", "message")]


def aggregate_grouped(
    layer: "HGTLayer", group: Together, sources: Mapping[str, Any], targets: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the partial aggregates of a group of relations, per target type."""
    x, (heads, size) = group.of_sources(sources), (layer.heads, layer.features // layer.heads)
    queries = group.of_targets({t: jax.lax.collapse(q, 1) for t, q in targets.items()})
    prior, attention, message = group.stacked(lambda r: layer.attention[r.key].weights())
    attention = attention * (prior / size**0.5)[..., None, None]
    ends = []
    for of_type, related in zip((layer.key, layer.value), (attention, message)):
        projections = {t: of_type[t](x.shape[1]) for t in group.source_types}
        kernel, bias = (group.of_type({t: both[i] for t, both in projections.items()}) for i in range(2))
        ends.append(_related((kernel, bias), related))
    kernels, biases = zip(*ends)
    kernel = jnp.concatenate([jax.lax.collapse(own, 2) for own in kernels], axis=2)
    bias = jnp.concatenate([jax.lax.collapse(own, 1) for own in biases], axis=1)
    halves = group.halves_from_sources(x, kernel, bias)
    queries, keys, values = (rows.reshape(-1, heads, size) for rows in (queries, *halves))
    attended = attend(group.edges, queries, jnp.zeros(queries.shape[:2], queries.dtype), keys, values)
    return group.total(relation_total(layer, attended.partial()))


def queries(
    layer: "HGTLayer", node_type: str, targets: jax.Array, relations: Sequence[Relation], exchange: Exchange
) -> jax.Array:
    """Return the queries, `[T, heads, d]`, computed once: every relation into the type reads them."""
    kernel, bias = layer.query[node_type](targets.shape[1])
    return once(exchange.total(times(targets.astype(kernel.dtype), kernel) + bias[None]))


def shared_keys_and_values(
    layer: "HGTLayer", adjacency: Mapping[str, Adjacency], sources: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the source inputs with `Shared` for types where sharing keys and values costs less."""
    made = dict(sources)
    for t, rows in sources.items():
        edges = {r.key: adjacency[r.key] for r in layer.relations if r.source == t and r.key in adjacency}
        if readers := share_products(edges, rows, layer.features, layer.heads, layer.traits.products):
            (key, key_bias), (value, value_bias) = layer.key[t](rows.shape[1]), layer.value[t](rows.shape[1])
            keys, values = times_each(rows.astype(key.dtype), (key, value))
            made[t] = Shared(rows, readers, keys, values, key_bias, value_bias)
    return made


class HGTLayer(Layer):
    """The layer `h_v' = s A gelu(a) + (1 - s) h_v`: `a` attends over all in-edges of all relations, `s = sigmoid(skip)` (equation 5).

    Key, query, value and output (`A`) are a linear map per node type with a bias, as in the authors' code, attention,
    message and prior are per relation, `skip` is per node type. Deviations: where the embeddings below have another width
    there is no skip, as in PyG; `softmax: relation` takes the softmax within each relation, and the mean over the
    relations into the type, as DGL's example and GraphStorm do. Keys have no bias then, which such a softmax cannot see:
    its gradient would be rounding alone.

    Attributes:
      heads: of the attention.
      softmax: `joint` or `relation`.
      norm: `none`, or `layer`: layer normalisation per node type after the skip.
      dropout, attention_dropout: shares of the output map's entries, and of the attention weights, dropped in training.
    """

    heads: int = 4
    softmax: str = "joint"
    norm: str = "none"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    traits = Traits(
        monoid=partials.SOFTMAX,
        edge_monoid=partials.SOFTMAX,
        self_term=False,
        skip=True,
        reads_weights=False,
        multiplies_input=True,
        linear_input=True,
        attention_products=2,
        logit="query",
        grouped=Grouped(relation_shape, relation_weights, aggregate_grouped),
        target_inputs=queries,
        shared_inputs=shared_keys_and_values,
    )

    def with_options(self, traits: Traits) -> Traits:
        monoid = traits.monoid if self.softmax == "joint" else partials.MEAN
        head_width = self.features // max(1, self.heads)
        return replace(traits, monoid=monoid, heads=self.heads, head_width=head_width)

    def setup(self):
        if self.features % self.heads:
            raise InputError(f"embeddings of width {self.features} do not split into {self.heads} heads")
        sources = sorted({relation.source for relation in self.relations})
        shape, joint = (self.heads, self.features // self.heads), self.softmax == "joint"
        self.key = {t: Projection(*shape, bias=joint) for t in sources}
        self.value = {t: Projection(*shape) for t in sources}
        self.query = {t: Projection(*shape) for t in self.targets}
        self.attention = {
            r.key: MutualAttention(self.key[r.source], self.value[r.source], self.attention_dropout)
            for r in self.relations
        }
        self.output = {t: Dense(self.features) for t in self.targets}
        self.skip = {t: self.param(f"skip_{t}", nn.initializers.ones_init(), ()) for t in self.targets}
        self.normalise = {t: nn.LayerNorm() for t in self.targets} if self.norm == "layer" else {}

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array | Shared,
        targets: jax.Array,
        masks: NodeMasks | None,
    ) -> Attention:
        attention = self.attention[relation.key]
        if not isinstance(sources, Shared):
            return attention(adjacency, sources, targets, masks)
        if relation.key not in sources.readers:
            return attention(adjacency, sources.rows, targets, masks)
        return attention.of_shared(adjacency, sources, targets, masks)

    def finish(self, node_type: str, total: jax.Array, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        h = self.output[node_type](gelu(total))
        h = dropped(h, self.dropout, masks, (*self.path, node_type))
        if targets.shape == h.shape:
            gate = nn.sigmoid(self.skip[node_type])
            h = gate * h + (1 - gate) * targets
        return self.normalise[node_type](h) if self.normalise else h


MODEL = HGTLayer
