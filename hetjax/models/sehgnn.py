"""SeHGNN (Yang et al., Simple and Efficient Heterogeneous Graph Neural Network, AAAI 2023).

Its graph is the one that `hetjax.metapaths` makes, in which every relation into the target type is a metapath.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hetjax.graph.schema import Relation
from hetjax.kernels.segment import neighbour_mean, neighbour_sum
from hetjax.metapaths.star import is_metapath, is_own
from hetjax.models.dropout import NodeMasks, dropped
from hetjax.models.layer import Layer
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError

PROJECTION = 2  # linear layers of a metapath's projection


def _uniform(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32) -> jax.Array:
    return jax.random.uniform(key, shape, dtype, -0.5, 0.5)


def _rectified(batch_axis: tuple[int, ...] = ()) -> nn.initializers.Initializer:
    """Return the authors' initialisation of matrices: within Glorot's bounds, times the gain of a ReLU."""
    return nn.initializers.variance_scaling(2.0, "fan_avg", "uniform", batch_axis=batch_axis)


STARTS = {"glorot": nn.initializers.glorot_uniform(), "uniform": _uniform}  # of `W_P`


class Projections(nn.Module):
    """The perceptrons of all metapaths, `[T, metapaths, features]` to the same (equation 5): linear layers, each with layer normalisation, PReLU
    and dropout after it.

    Attributes:
      dropout: share of the entries that are dropped in training.
      norm: `each` metapath of a node is normalised alone, as a perceptron of its own, or all of them `together`.
    """

    dropout: float
    norm: str

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        _, paths, features = x.shape
        draw, axes = _rectified((0,)), (2,) if self.norm == "each" else (1, 2)
        for number in range(PROJECTION):
            kernel = self.param(f"kernel_{number}", draw, (paths, features, features))
            bias = self.param(f"bias_{number}", nn.initializers.zeros_init(), (paths, features))
            x = jnp.einsum("tpi,pio->tpo", x, kernel) + bias[None]
            x = nn.PReLU()(nn.LayerNorm(reduction_axes=axes, feature_axes=(1, 2))(x))
            x = _dropped(x, self.dropout, masks, (*self.path, str(number)))
        return x


class Output(nn.Module):
    """The perceptron that follows the fusion, `[T, features]` to the same. Between its layers the code has batch normalisation, whose
    result for a node would depend on the others of the batch: here it is layer normalisation.

    Attributes:
      layers: how many.
      dropout: as in `Projections`.
    """

    layers: int
    dropout: float

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        for number in range(self.layers):
            x = nn.PReLU()(nn.LayerNorm()(nn.Dense(x.shape[1], kernel_init=_rectified())(x)))
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
    """A layer that embeds every metapath's neighbour means, projects them, fuses them by attention, concatenates them, and projects again.

    The partial aggregate is `[T, metapaths * features]`: a metapath's embedding `x_P W_P` stands in its own columns,
    between zeros, so partial aggregates add up, and whoever owns a metapath alone reads its features and has `W_P`. All
    that follows is done at the nodes, from the combined aggregate. There is one layer: metapaths have the hops. The
    aggregation never reads the target.

    Attributes:
      heads: of the fusion.
      dropout: share of the entries that are dropped in training, after every linear layer but the embeddings.
      input_dropout: share of the entries of the embeddings `z_P` that are dropped in training.
      residual: add a linear map of the embedding of the target's own features to what was fused.
      output_layers: linear layers that follow the one which joins the metapaths; the head is the last of them.
      embedding_init: how `W_P` starts. `uniform`: every entry from -1/2 to 1/2, as in the authors' code; of thousands of words it then stays nearly
        its initial value, a random projection, for which 512 columns are enough and 64 few. `glorot`: as a Glorot matrix.
      metapath_norm: what is normalised in the metapaths' projections, as of `Projections`.
      logits: whether the layer makes the logits, which it does not.
    """

    heads: int = 1
    dropout: float = 0.0
    input_dropout: float = 0.0
    residual: bool = False
    output_layers: int = 3
    embedding_init: str = "glorot"
    metapath_norm: str = "each"
    logits: bool = False
    traits = Traits(self_term=False, reads_target=False)

    def setup(self):
        if self.logits:
            raise InputError("model.head is false, and sehgnn ends with a head")
        if len(self.targets) != 1 or not all(map(is_metapath, self.relations)):
            raise InputError(
                "model sehgnn has one layer, of metapaths: set model.layers 1, data.metapath_hops 2 and sampling.fanout [-1]; with only the graph and --model.name sehgnn given they are chosen"
            )
        start = STARTS[self.embedding_init]
        self.embed = {r.key: nn.Dense(self.features, use_bias=False, kernel_init=start) for r in self.relations}
        self.project, self.fuse = Projections(self.dropout, self.metapath_norm), Fusion(self.heads)
        self.join = nn.Dense(self.features, kernel_init=_rectified())
        self.own = nn.Dense(self.features, use_bias=False, kernel_init=_rectified())
        self.activation, self.output = nn.PReLU(), Output(self.output_layers - 1, self.dropout)

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: jax.Array, targets: Any, masks: NodeMasks | None
    ) -> jax.Array:
        fold = neighbour_mean if adjacency.weights is None else neighbour_sum  # weights are shares in a mean already
        embedded = self.embed[relation.key](fold(adjacency, sources).astype(jnp.result_type(sources, jnp.float32)))
        embedded = dropped(embedded, self.input_dropout, masks, (*self.path, relation.key))
        place = self.relations.index(relation)
        before, after = place * self.features, (len(self.relations) - 1 - place) * self.features
        return jnp.pad(embedded, ((0, 0), (before, after)))

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        embedded = total.reshape(len(total), len(self.relations), self.features)
        fused = self.fuse(self.project(embedded, masks))
        h = self.join(fused.reshape(total.shape))
        for place, relation in enumerate(self.relations):
            if self.residual and is_own(relation):
                h = h + self.own(embedded[:, place])
        return self.output(dropped(self.activation(h), self.dropout, masks, self.path), masks)


def _dropped(x: jax.Array, rate: float, masks: NodeMasks | None, path: tuple[str, ...]) -> jax.Array:
    """Return the result of `dropped` for `[T, metapaths, features]`."""
    return dropped(x.reshape(len(x), -1), rate, masks, path).reshape(x.shape)


MODEL = SeHGNNLayer
