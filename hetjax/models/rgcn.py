"""R-GCN (Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks, ESWC 2018)."""

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation, Schema
from hetjax.models.hgnn import HGNN, Finish, Layer
from hetjax.models.segment import degree, neighbour_sum

EDGE_COST = 8  # multiplications in the time that a sum over edges takes to move one number: a guess, not measured


class Bases(nn.Module):
    """The matrices that relations of one source width share, `[bases, width, features]` (equation 3)."""

    count: int
    features: int

    @nn.compact
    def __call__(self, width: int) -> jax.Array:
        return self.param("bases", nn.initializers.glorot_uniform(batch_axis=(0,)), (self.count, width, self.features))


class RelationMean(nn.Module):
    """One relation's term of equation 2: the mean over the neighbours `u` of `W_r h_u`, zero without neighbours.

    Attributes:
      features: width of the result.
      bases: if given, `W_r` is a learned combination of them (equation 3); otherwise a matrix of its own.
    """

    features: int
    bases: Bases | None = None

    @nn.compact
    def __call__(self, adjacency, sources: jax.Array) -> jax.Array:
        kernel = self._kernel(sources.shape[1])
        count = jnp.maximum(degree(adjacency), 1).astype(kernel.dtype)[:, None]
        if _multiply_first(adjacency, sources, self.features):
            return neighbour_sum(adjacency, sources.astype(kernel.dtype) @ kernel) / count
        return neighbour_sum(adjacency, sources.astype(kernel.dtype)) / count @ kernel

    def _kernel(self, width: int) -> jax.Array:
        if self.bases is None:
            return self.param("kernel", nn.initializers.glorot_uniform(), (width, self.features))
        coefficients = self.param("coefficients", nn.initializers.normal(self.bases.count**-0.5), (self.bases.count,))
        return jnp.einsum("b,bio->io", coefficients, self.bases(width))


def _multiply_first(adjacency, sources: jax.Array, features: int) -> bool:
    """Whether multiplying every source row costs less than summing first and multiplying every target row.

    The same mathematics either way; the shapes decide, when the program is traced.
    """
    rows, width = sources.shape
    targets, edges = adjacency.indptr.shape[0] - 1, adjacency.indices.shape[0]
    first = rows * width * features + EDGE_COST * edges * features
    return first < targets * width * features + EDGE_COST * edges * width


class RGCNLayer(Layer):
    """Equation 2, `h_v' = relu(W_0 h_v + sum over r of the mean over N_r(v) of W_r h_u)`.

    Deviations: `W_0` is a matrix per node type, because types have different widths; and there is a bias per node type,
    as DGL and GraphStorm have. The fold is a sum that never looks at the target.

    Attributes:
      bases: number of basis matrices per source width, or 0 for a matrix per relation.
      norm, dropout, logits: as in `Finish`.
    """

    bases: int = 0
    norm: str = "none"
    dropout: float = 0.0
    logits: bool = False

    def setup(self):
        widths = sorted({self.widths[relation.source] for relation in self.relations})
        self.shared = {str(width): Bases(self.bases, self.features) for width in widths} if self.bases else {}
        self.mean = {
            r.key: RelationMean(self.features, self.shared.get(str(self.widths[r.source]))) for r in self.relations
        }
        self.self_loop = {node_type: nn.Dense(self.features, use_bias=False) for node_type in self.selves}
        self.finishing = {node_type: Finish(self.norm, self.dropout, self.logits) for node_type in self.targets}

    def relation(self, relation: Relation, adjacency, sources, targets):
        return self.mean[relation.key](adjacency, sources)

    def itself(self, node_type: str, targets):
        return self.self_loop[node_type](targets)

    def finish(self, node_type: str, carrier, train: bool):
        return self.finishing[node_type](carrier, train)


def build(
    schema: Schema,
    widths: Mapping[str, int],
    hidden: int,
    layers: int,
    bases: int = 0,
    norm: str = "none",
    dropout: float = 0.0,
    head: bool = True,
) -> HGNN:
    """An R-GCN of `layers` layers, each `hidden` wide.

    The paper's last layer makes the class logits itself (`head=False`). By default it is as wide as the others and a linear
    head follows, as in GraphStorm, so that what crosses partitions is `hidden` wide however many classes there are.

    Args:
      schema: of the graph.
      widths: of the features, static or learnable, per node type.
      hidden, layers: size of the stack; layer `k` has the relations and types that the target needs at that depth.
      bases, norm, dropout: as in `RGCNLayer`.
      head: whether a linear head makes the logits.
    """
    needed, stack = schema.layer_types(layers), []
    for depth in range(layers):
        targets = tuple(node_type for node_type in schema.nodes if node_type in needed[depth + 1])
        relations = tuple(relation for relation in schema.relations if relation.target in targets)
        below = {t: widths[t] if depth == 0 else hidden for t in schema.nodes if t in needed[depth]}
        logits = depth == layers - 1 and not head
        features = schema.classes if logits else hidden
        stack.append(RGCNLayer(relations, targets, targets, below, features, bases, norm, dropout, logits))
    return HGNN(tuple(stack), schema.target, schema.classes, head)
