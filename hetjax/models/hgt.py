"""HGT (Hu et al., Heterogeneous Graph Transformer, WWW 2020)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.attention import attend, scores
from hetjax.kernels.folded_attention import attend_folded
from hetjax.kernels.heads import each_head
from hetjax.kernels.linear import Dense, times, times_each
from hetjax.kernels.once import once
from hetjax.kernels.partials import Attention, Monoid
from hetjax.kernels.segment import multiply_first, share_products
from hetjax.kernels.together import Together
from hetjax.models.activations import gelu
from hetjax.models.dropout import NodeMasks, dropped, edge_keep_mask
from hetjax.models.layer import LOCAL, Exchange, Layer
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
    """What relations out of a type share of its nodes.

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
        """The partial aggregate of the relation's edges.

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
        """The same of keys and values that relations share: the relation's matrices are at the end with fewer rows."""
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
        """`mu` `[heads]`, and `W_att` and `W_msg`, a matrix per head: `[heads, d, d]`."""
        heads, size = self.key.heads, self.key.size
        prior = self.param("prior", nn.initializers.ones_init(), (heads,))
        drawn, shape = nn.initializers.glorot_uniform(batch_axis=(0,)), (heads, size, size)
        attention = self.param("attention", drawn, shape)
        return prior, attention, self.param("message", drawn, shape)


def _related(projection: tuple[jax.Array, jax.Array], matrices: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A type's projection and after it a relation's matrices, one per head, as one map; or of several relations."""
    kernel, bias = projection
    return each_head(kernel, matrices), each_head(bias[..., None, :, :], matrices)[..., 0, :, :]


class HGTLayer(Layer):
    """`h_v' = s A gelu(a) + (1 - s) h_v`: `a` attends over all in-edges of all relations, `s = sigmoid(skip)` (equation 5).

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
    self_term: ClassVar[bool] = False
    multiplies_input: ClassVar[bool] = True
    reads_weights: ClassVar[bool] = False
    shares_products: ClassVar[bool] = True
    products: ClassVar[int] = 2

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

    @property
    def monoid(self) -> Monoid:
        return partials.SOFTMAX if self.joint else partials.MEAN

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

    def share(self, adjacency: Mapping[str, Adjacency], sources: Mapping[str, Any]) -> Mapping[str, Any]:
        made = dict(sources)
        for t, rows in sources.items():
            edges = {r.key: adjacency[r.key] for r in self.relations if r.source == t and r.key in adjacency}
            if readers := share_products(edges, rows, self.features, self.heads, self.products):
                (key, key_bias), (value, value_bias) = self.key[t](rows.shape[1]), self.value[t](rows.shape[1])
                keys, values = times_each(rows.astype(key.dtype), (key, value))
                made[t] = Shared(rows, readers, keys, values, key_bias, value_bias)
        return made

    @property
    def joint(self) -> bool:
        return self.softmax == "joint"

    def alike(self, relation: Relation) -> Any:
        return (
            None if self.attention_dropout else self.widths[relation.source]
        )  # dropout's masks are each relation's own

    def together_weights(self, relation: Relation) -> list[tuple[str, ...]]:
        return [(f"attention_{relation.key}", name) for name in ("prior", "attention", "message")]

    def fold_together(self, group: Together, sources: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
        x, (heads, size) = group.of_sources(sources), (self.heads, self.features // self.heads)
        queries = group.of_targets({t: jax.lax.collapse(q, 1) for t, q in asked.items()})
        prior, attention, message = group.stacked(lambda r: self.attention[r.key].weights())
        attention = attention * (prior / size**0.5)[..., None, None]
        ends = []
        for of_type, related in zip((self.key, self.value), (attention, message)):
            projections = {t: of_type[t](x.shape[1]) for t in group.source_types}
            kernel, bias = (group.of_type({t: both[i] for t, both in projections.items()}) for i in range(2))
            ends.append(_related((kernel, bias), related))
        kernels, biases = zip(*ends)
        kernel = jnp.concatenate([jax.lax.collapse(own, 2) for own in kernels], axis=2)
        bias = jnp.concatenate([jax.lax.collapse(own, 1) for own in biases], axis=1)
        halves = group.halves_from_sources(x, kernel, bias)
        queries, keys, values = (rows.reshape(-1, heads, size) for rows in (queries, *halves))
        attended = attend(group.edges, queries, jnp.zeros(queries.shape[:2], queries.dtype), keys, values)
        return group.total(self.relation_total(group.relations[0], attended.partial()))

    def ask(
        self, node_type: str, targets: jax.Array, relations: Sequence[Relation], exchange: Exchange = LOCAL
    ) -> jax.Array:
        """The queries, `[T, heads, d]`, made once: every relation into the type reads them."""
        kernel, bias = self.query[node_type](targets.shape[1])
        return once(exchange.total(times(targets.astype(kernel.dtype), kernel) + bias[None]))

    @property
    def linear_input(self) -> bool:
        return True

    def finish_reads(self, node_type: str) -> bool:
        return self.widths.get(node_type) == self.makes(node_type)

    @property
    def edge_monoid(self) -> Monoid:
        return partials.SOFTMAX

    def no_edges(self, targets: int, dtype: DTypeLike) -> Attention:
        return partials.unattended(targets, self.heads, self.features // self.heads, dtype)

    def relation_total(self, relation: Relation, partial: Attention) -> Any:
        return partial if self.joint else self.monoid.lift(partials.attended(partial))

    def finish(self, node_type: str, partial: Any, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        h = self.output[node_type](gelu(self.total(partial, targets)))
        h = dropped(h, self.dropout, masks, (*self.path, node_type))
        if targets.shape == h.shape:
            gate = nn.sigmoid(self.skip[node_type])
            h = gate * h + (1 - gate) * targets
        return self.normalise[node_type](h) if self.normalise else h


MODEL = HGTLayer
