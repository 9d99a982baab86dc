"""GraphSAGE (Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, NIPS 2017), with its mean."""

import flax.linen as nn
import jax

from hetjax.graph.schema import Relation
from hetjax.kernels.linear import Dense, Kernel, fold_product
from hetjax.kernels.segment import neighbour_mean
from hetjax.models.decoupled import Propagation
from hetjax.models.dropout import NodeMasks
from hetjax.models.layer import PlainLayer
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency


class SAGELayer(PlainLayer):
    """Algorithm 1 with the mean: `h_v' = relu(W_self h_v + W_neigh mean over u of h_u + b)`.

    The paper's `W concat(h_v, mean)` is these two matrices side by side. Edges that have weights are weighed in the mean.
    Deviations: there is a bias, as in DGL and PyG, unless `bias` is unset; embeddings are not normalised to length 1 (line 7);
    with several relations each has a matrix, and their terms are summed.
    """

    traits = Traits(
        reads_target=False,
        multiplies_input=True,
        linear_input=True,
        linear_fold=neighbour_mean,
        propagation=Propagation,
    )

    def setup(self):
        super().setup()
        self.kernel = {r.key: Kernel(self.features) for r in self.relations}
        self.self_loop = {
            t: Dense(self.features, use_bias=False, kernel_init=nn.initializers.glorot_uniform()) for t in self.selves
        }

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> jax.Array:
        return fold_product(adjacency, neighbour_mean, sources, self.kernel[relation.key](sources.shape[1]))

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return self.self_loop[node_type](targets)


MODEL = SAGELayer
