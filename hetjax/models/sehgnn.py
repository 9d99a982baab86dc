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


class Perceptron(nn.Module):
    """Linear layers, each with layer normalisation, a nonlinearity (PReLU) and dropout after it.

    Attributes:
      layers, features: how many, each how wide.
      dropout: share of the entries that are dropped in training.
    """

    layers: int
    features: int
    dropout: float

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        for number in range(self.layers):
            x = nn.PReLU()(nn.LayerNorm()(nn.Dense(self.features)(x)))
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
    """Every metapath's neighbour means are projected by a perceptron of its own (equation 5), fused, and put side by side.

    The partial aggregate is `[T, metapaths * features]`: what a metapath gives stands in its own columns, and zeros in all others, so partial aggregates add up.
    The fold never looks at the target. There is one layer: metapaths have the hops.

    Deviations from the authors' code: layer normalisation is of each metapath alone, not of all together, so that whoever owns a metapath can
    do it; between the linear layers that follow it takes the place of batch normalisation, whose result for one node would depend on others.
    `model.input_projection` is the code's embedding of features before the perceptrons, on which `model.input_dropout` works.

    Attributes:
      heads: of the fusion.
      dropout: share of every perceptron's entries that are dropped in training.
      residual: add a linear map of the target's own features to what was fused.
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
        if (
            not all(r.target in self.targets and r.source not in self.targets for r in self.relations)
            or len(self.targets) != 1
        ):
            raise InputError("model sehgnn has one layer, of metapaths: set model.layers 1 and data.metapath_hops")
        self.project = {r.key: Perceptron(PROJECTION, self.features, self.dropout) for r in self.relations}
        self.fuse, self.join = Fusion(self.heads), nn.Dense(self.features)
        self.own = {r.key: nn.Dense(self.features, use_bias=False) for r in self.relations if self._is_own(r)}
        self.activation, self.output = nn.PReLU(), Perceptron(OUTPUT, self.features, self.dropout)

    def _is_own(self, relation: Relation) -> bool:
        return self.residual and ITSELF in (relation.name, relation.source.removeprefix(f"{relation.target} "))

    @property
    def reads_target(self) -> bool:
        return False

    @property
    def slots(self) -> int:
        """Of `features` columns each: one a metapath, and one for the residual."""
        return len(self.relations) + self.residual

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: jax.Array, targets: Any, masks: NodeMasks | None
    ) -> jax.Array:
        fold = neighbour_mean if adjacency.weights is None else neighbour_sum  # weights are shares in a mean already
        mean = fold(adjacency, sources)
        slot = self.relations.index(relation)
        found = self._placed(self.project[relation.key](mean, masks), slot)
        return found + self._placed(self.own[relation.key](mean), self.slots - 1) if self._is_own(relation) else found

    def _placed(self, rows: jax.Array, slot: int) -> jax.Array:
        before, after = slot * self.features, (self.slots - 1 - slot) * self.features
        return jnp.pad(rows, ((0, 0), (before, after)))

    def finish(self, node_type: str, partial: Any, targets: Any, masks: NodeMasks | None) -> jax.Array:
        width = len(self.relations) * self.features
        fused = self.fuse(partial[:, :width].reshape(len(partial), len(self.relations), self.features))
        h = self.join(fused.reshape(len(partial), width))
        if self.residual:
            h = h + partial[:, width:]
        h = dropped(self.activation(h), self.dropout, masks, self.path)
        return self.output(h, masks)


MODEL = SeHGNNLayer
