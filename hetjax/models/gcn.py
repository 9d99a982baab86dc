"""GCN (Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017)."""

import jax

from hetjax.graph.csc import CSC
from hetjax.graph.loops import normalised, with_loops
from hetjax.graph.schema import Relation
from hetjax.kernels.linear import Kernel, fold_product
from hetjax.kernels.segment import neighbour_sum
from hetjax.models.decoupled import Propagation
from hetjax.models.dropout import NodeMasks
from hetjax.models.layer import PlainLayer
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency


def normalised_edges(relation: Relation, csc: CSC, sources: int) -> CSC:
    """Return the entries of `D^-1/2 (A + I) D^-1/2` as weights, as PyG's `gcn_norm`; a relation between two types has no `I`.

    See `with_loops` and `normalised`.
    """
    return normalised(with_loops(csc) if relation.source == relation.target else csc, sources)


class GCNPropagation(Propagation):
    """The propagation `H' = D^-1/2 (A + I) D^-1/2 H`, as equation 9 of NeutronTP's paper; with several relations their mean."""

    traits = Traits(reads_target=False, self_term=False, linear_fold=neighbour_sum, changed_edges=normalised_edges)


class GCNLayer(PlainLayer):
    """Equation 2, `h_v' = relu(sum over u of w_uv / sqrt(d_u d_v) W h_u + b)`, over the in-edges of v and a loop of its own.

    `w` is 1 where edges have no weights, and `d_v` the sum of `w` over these edges. A sampled neighbourhood keeps the weights of
    the whole graph, scaled up to all edges. Deviations: there is a bias, as in PyG (the paper's equation has none), unless
    `bias` is unset; a loop that the graph has is not doubled, as in PyG; with several relations there is a matrix for each, and
    the layer is their sum. A relation between two types has no loops; there `d_u` sums over the out-edges of the source.
    """

    traits = Traits(
        self_term=False,
        reads_target=False,
        multiplies_input=True,
        linear_input=True,
        linear_fold=neighbour_sum,
        changed_edges=normalised_edges,
        propagation=GCNPropagation,
    )

    def setup(self):
        super().setup()
        self.kernel = {r.key: Kernel(self.features) for r in self.relations}

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> jax.Array:
        return fold_product(adjacency, neighbour_sum, sources, self.kernel[relation.key](sources.shape[1]))


MODEL = GCNLayer
