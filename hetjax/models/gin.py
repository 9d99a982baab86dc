"""GIN (Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019)."""

from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels.linear import Dense, Kernel, fold_product, times
from hetjax.kernels.segment import neighbour_sum
from hetjax.models.activations import relu
from hetjax.models.decoupled import Propagation
from hetjax.models.dropout import NodeMasks, dropped
from hetjax.models.layer import Layer
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency


class Rest(nn.Module):
    """The multi-layer perceptron after its first matrix: `W_2 relu(x + b_1) + b_2`.

    Attributes:
      features: width of what it makes, and of its hidden layer.
      norm: `layer`: layer normalisation in the place of `b_1`, which has a bias of its own; or `none`.
    """

    features: int
    norm: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        if self.norm == "layer":
            x = nn.LayerNorm()(x)
        else:
            x = x + jnp.expand_dims(self.param("bias", nn.initializers.zeros_init(), (self.features,)), 0)
        return Dense(self.features, kernel_init=nn.initializers.glorot_uniform())(relu(x))


class GINPropagation(Propagation):
    """The propagation `h_v' = (1 + eps) h_v + sum over u of h_u`, which is not scaled down: it tells neighbourhoods of any size apart.

    Attributes:
      epsilon, learn_epsilon: as of `GINLayer`.
    """

    epsilon: float = 0.0
    learn_epsilon: bool = False
    traits = Traits(reads_target=False, linear_fold=neighbour_sum)

    def with_options(self, traits: Traits) -> Traits:
        return replace(super().with_options(traits), learns=self.learn_epsilon)

    def setup(self):
        super().setup()
        start = nn.initializers.constant(self.epsilon)
        self.eps = {
            t: self.param(f"epsilon_{t}", start, ()) if self.learn_epsilon else self.epsilon for t in self.selves
        }

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return (1 + self.eps[node_type]) * targets

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        return self.finished(node_type, total, targets, masks)


class GINLayer(Layer):
    """Equation 4.1, `h_v' = relu(MLP((1 + eps) h_v + sum over u of h_u))`; the MLP has two layers.

    The MLP's first matrix is linear, so it is applied to what is summed: `W_1 ((1 + eps) h_v + sum h_u)` is
    `(1 + eps) W_1 h_v + sum W_1 h_u`, and partial aggregates have one width whatever the widths below are. With several types
    each has a `W_1` of its own, which all relations out of it and its self term share; the rest of the MLP is the
    target type's. Deviations: where the paper's code normalises over the batch, `norm layer` does over a node's
    entries; edges that have weights multiply what they bring. Sampled neighbours are summed as they are: without weights nothing
    scales it up to all neighbours.

    Attributes:
      epsilon: where `eps` starts, or stays.
      learn_epsilon: whether it is learned, one per node type and layer (GIN-eps of the paper; otherwise GIN-0).
      norm: `layer`: normalise between the MLP's layers; or `none`.
      dropout: share of the entries that are dropped in training.
      logits: whether these are the logits: then nothing comes after the MLP.
    """

    epsilon: float = 0.0
    learn_epsilon: bool = False
    norm: str = "none"
    dropout: float = 0.0
    logits: bool = False
    traits = Traits(
        reads_target=False,
        multiplies_input=True,
        linear_input=True,
        linear_fold=neighbour_sum,
        one_matrix=True,
        propagation=GINPropagation,
    )

    def setup(self):
        reads = sorted({*(relation.source for relation in self.relations), *self.selves})
        self.first = {t: Kernel(self.features) for t in reads}
        start = nn.initializers.constant(self.epsilon)
        self.eps = {
            t: self.param(f"epsilon_{t}", start, ()) if self.learn_epsilon else self.epsilon for t in self.selves
        }
        self.rest = {t: Rest(self.features, self.norm) for t in self.targets}

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> jax.Array:
        return fold_product(adjacency, neighbour_sum, sources, self.first[relation.source](sources.shape[1]))

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return (1 + self.eps[node_type]) * times(targets, self.first[node_type](targets.shape[1]))

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        h = self.rest[node_type](total)
        return h if self.logits else dropped(relu(h), self.dropout, masks, (*self.path, node_type))


MODEL = GINLayer
