"""SeHGNN (Yang et al., Simple and Efficient Heterogeneous Graph Neural Network, AAAI 2023).

Its graph is the one that `hetjax.metapaths` makes, in which every relation into the target type is a metapath.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.errors import InputError
from hetjax.graph.schema import Relation
from hetjax.metapaths.star import ITSELF
from hetjax.models.dropout import NodeMasks, dropped
from hetjax.models.layer import Layer
from hetjax.models.segment import neighbour_mean, neighbour_sum
from hetjax.sampling.blocks import Adjacency

PROJECTION, OUTPUT = 2, 2  # linear layers of a metapath's projection, and before the head


class Projections(nn.Module):
    """The perceptrons of all metapaths, `[T, metapaths, features]` to the same (equation 5): linear layers, each with layer normalisation, PReLU
    and dropout after it. As in the authors' code the normalisation is of all metapaths of a node together.

    Attributes:
      dropout: share of the entries that are dropped in training.
    """

    dropout: float

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        _, paths, features = x.shape
        draw = nn.initializers.glorot_uniform(batch_axis=(0,))
        for number in range(PROJECTION):
            kernel = self.param(f"kernel_{number}", draw, (paths, features, features))
            bias = self.param(f"bias_{number}", nn.initializers.zeros_init(), (paths, features))
            x = jnp.einsum("tpi,pio->tpo", x, kernel) + bias[None]
            x = nn.PReLU()(nn.LayerNorm(reduction_axes=(1, 2), feature_axes=(1, 2))(x))
            x = _dropped(x, self.dropout, masks, (*self.path, str(number)))
        return x


class Output(nn.Module):
    """The perceptron that follows the fusion, `[T, features]` to the same. Between its layers the code has batch normalisation, whose
    result for a node would depend on the others of the batch: here it is layer normalisation.

    Attributes:
      dropout: as in `Projections`.
    """

    dropout: float

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        for number in range(OUTPUT):
            x = nn.PReLU()(nn.LayerNorm()(nn.Dense(x.shape[1])(x)))
            x = dropped(x, self.dropout, masks, (*self.path, str(number)))
        return x


class Fusion(nn.Module):
    """Attention of a node's metapaths to each other (equations 6 and 7), `[T, metapaths, features]` to the same.

    `h'_P = h_P + gamma * sum over P' of softmax over P' of (q_P . k_P' / sqrt(d)) v_P'`, `gamma` being 0 at first. As in the authors' code queries and keys
    are a quarter as wide as values, at least 1 a head.

    Attributes:
      heads: which divide the features.
    """

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        features = x.shape[-1]
        narrow = max(1, features // self.heads // 4)
        query, key = (nn.DenseGeneral((self.heads, narrow), name=name)(x) for name in ("query", "key"))
        value = nn.DenseGeneral((self.heads, features // self.heads), name="value")(x)
        weights = nn.softmax(jnp.einsum("tphd,tqhd->thpq", query, key) / math.sqrt(narrow))
        fused = jnp.einsum("thpq,tqhd->tphd", weights, value)
        gamma = self.param("gamma", nn.initializers.zeros_init(), ())
        return x + gamma * fused.reshape(x.shape)


class SeHGNNLayer(Layer):
    """Every metapath's neighbour means are embedded, projected, fused by attention, put side by side, and projected again.

    The partial aggregate is `[T, metapaths * features]`: a metapath's embedding `x_P W_P` stands in its own columns, between zeros, so partial aggregates
    add up, and whoever owns a metapath alone reads its features and has `W_P`. All that follows is done at the nodes, from the total. There is
    one layer: metapaths have the hops. The fold never looks at the target.

    Deviation: `W_P` starts as a Glorot matrix. The authors draw its entries from -1/2 to 1/2, so that of words it stays nearly what was drawn, a random projection,
    which is worth something at their width of 512 and little at 64.

    Attributes:
      heads: of the fusion.
      dropout: share of the entries that are dropped in training, after every linear layer but the embeddings.
      residual: add a linear map of the embedding of the target's own features to what was fused.
      logits: whether the layer makes the logits, which it does not.
    """

    heads: int = 1
    dropout: float = 0.0
    residual: bool = False
    logits: bool = False
    self_term = False

    def setup(self):
        if self.logits:
            raise InputError("model.head is false, and sehgnn ends with a head")
        if len(self.targets) != 1 or any(r.source in self.targets and r.name != ITSELF for r in self.relations):
            raise InputError("model sehgnn has one layer, of metapaths: set model.layers 1 and data.metapath_hops")
        draw = nn.initializers.glorot_uniform()
        self.embed = {r.key: nn.Dense(self.features, use_bias=False, kernel_init=draw) for r in self.relations}
        self.project, self.fuse = Projections(self.dropout), Fusion(self.heads)
        self.join, self.own = nn.Dense(self.features), nn.Dense(self.features, use_bias=False)
        self.activation, self.output = nn.PReLU(), Output(self.dropout)

    @property
    def reads_target(self) -> bool:
        return False

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: jax.Array, targets: Any, masks: NodeMasks | None
    ) -> jax.Array:
        fold = neighbour_mean if adjacency.weights is None else neighbour_sum  # weights are shares in a mean already
        embedded = self.embed[relation.key](fold(adjacency, sources).astype(jnp.result_type(sources, jnp.float32)))
        place = self.relations.index(relation)
        before, after = place * self.features, (len(self.relations) - 1 - place) * self.features
        return jnp.pad(embedded, ((0, 0), (before, after)))

    def finish(self, node_type: str, partial: Any, targets: Any, masks: NodeMasks | None) -> jax.Array:
        embedded = partial.reshape(len(partial), len(self.relations), self.features)
        fused = self.fuse(self.project(embedded, masks))
        h = self.join(fused.reshape(partial.shape))
        for place, relation in enumerate(self.relations):
            if self.residual and _is_own(relation):
                h = h + self.own(embedded[:, place])
        return self.output(dropped(self.activation(h), self.dropout, masks, self.path), masks)


def _is_own(relation: Relation) -> bool:
    """Whether this is the metapath without a hop."""
    return ITSELF in (relation.name, relation.source.removeprefix(f"{relation.target} "))


def _dropped(x: jax.Array, rate: float, masks: NodeMasks | None, path: tuple[str, ...]) -> jax.Array:
    """As `dropped`, of `[T, metapaths, features]`."""
    return dropped(x.reshape(len(x), -1), rate, masks, path).reshape(x.shape)


MODEL = SeHGNNLayer
