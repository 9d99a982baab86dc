"""R-GCN (Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks, ESWC 2018)."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.errors import InputError
from hetjax.graph.schema import Relation
from hetjax.models.hgnn import PlainLayer
from hetjax.models.segment import degree, multiply_first, neighbour_sum


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
        kernel = matrix(self, sources.shape[1], self.features, self.bases)
        sources = sources.astype(kernel.dtype)
        if multiply_first(adjacency, sources, self.features):
            return neighbour_mean(adjacency, sources @ kernel)
        return neighbour_mean(adjacency, sources) @ kernel


class SelfTerm(nn.Module):
    """The term `W_0 h_v` of equation 2, where `W_0` is a combination of bases.

    Attributes:
      features, bases: as in `RelationMean`.
    """

    features: int
    bases: Bases

    @nn.compact
    def __call__(self, targets: jax.Array) -> jax.Array:
        return targets @ matrix(self, targets.shape[1], self.features, self.bases)


class SliceMean(nn.Module):
    """`RelationMean` where the sources' features are one-hot: the row of `W_r` that a node picks lies in the node itself.

    Attributes:
      slices: those of a node's row that hold `W_r`; of several the relation learns a combination.
    """

    slices: tuple[int, ...]

    @nn.compact
    def __call__(self, adjacency, sources: Sequence[jax.Array]) -> jax.Array:
        return neighbour_mean(adjacency, picked(self, [sources[place] for place in self.slices]))


class SliceSelf(nn.Module):
    """`SelfTerm` where the features are one-hot: a combination of a node's slices."""

    @nn.compact
    def __call__(self, slices: Sequence[jax.Array]) -> jax.Array:
        return picked(self, slices)


def matrix(module: nn.Module, width: int, features: int, bases: Bases | None) -> jax.Array:
    """A module's `[width, features]`: a combination of the bases (equation 3), or without any a matrix of its own."""
    if bases is None:
        return module.param("kernel", nn.initializers.glorot_uniform(), (width, features))
    return jnp.einsum("b,bio->io", coefficients(module, bases.count), bases(width))


def picked(module: nn.Module, slices: Sequence[jax.Array]) -> jax.Array:
    """A module's combination of slices; the slice itself if there is but one."""
    if len(slices) == 1:
        return slices[0]
    return sum(a * part for a, part in zip(coefficients(module, len(slices)), slices))


def neighbour_mean(adjacency, x: jax.Array) -> jax.Array:
    """The mean of the rows of `x` over every target's in-edges, zero without any: `[targets, width]`."""
    count = jnp.maximum(degree(adjacency), 1).astype(x.dtype)
    return neighbour_sum(adjacency, x) / count[:, None]


def coefficients(module: nn.Module, bases: int) -> jax.Array:
    """`a_rb` of equation 3, `[bases]`."""
    return module.param("coefficients", nn.initializers.normal(bases**-0.5), (bases,))


class RGCNLayer(PlainLayer):
    """Equation 2, `h_v' = relu(W_0 h_v + sum over r of the mean over N_r(v) of W_r h_u)`.

    Deviations: `W_0` is a matrix per node type, because types have different widths; and there is a bias per node type,
    as DGL and GraphStorm have, unless `bias` is unset. The fold is a sum that never looks at the target, unless there is a
    residual.

    Attributes:
      bases: number of basis matrices per source width, or 0 for a matrix per relation.
      share_self: make `W_0` of the bases, as every `W_r` is, as in the paper's code; otherwise it is a matrix of its own.
      one_hot: the features of featureless types are one-hot, as in the paper's experiments on entity classification: in the
        first layer every matrix has a row per node. A node's rows of all matrices are kept together, as its learnable
        features: a slice of `features` numbers per basis, or per relation out of its type, and one for the self term.
    """

    bases: int = 0
    share_self: bool = False
    one_hot: bool = False

    def setup(self):
        super().setup()
        if self.share_self and not self.bases:
            raise InputError("model.share_self is true, and model.bases is 0: there are no bases to share")
        learned = self.learned if self.one_hot else {}
        sharing = {r.source for r in self.relations} | set(self.selves if self.share_self else ())
        widths = sorted({self.widths[t] for t in sharing - set(learned)})
        self.shared = {str(width): Bases(self.bases, self.features) for width in widths} if self.bases else {}
        self.mean = {
            r.key: SliceMean(self._slices(r))
            if r.source in learned
            else RelationMean(self.features, self.shared.get(str(self.widths[r.source])))
            for r in self.relations
        }
        self.self_loop = {t: SliceSelf() if t in learned else self._self_term(t) for t in self.selves}

    def _self_term(self, node_type: str) -> nn.Module:
        if self.share_self:
            return SelfTerm(self.features, self.shared[str(self.widths[node_type])])
        return nn.Dense(self.features, use_bias=False)

    def prepare(self, node_type: str, sources: jax.Array):
        """The slices of one-hot sources, cut once, so that the gradient puts them together once."""
        if not (self.one_hot and node_type in self.learned):
            return sources
        return jnp.split(sources, sources.shape[1] // self.features, axis=1)

    def relation(self, relation: Relation, adjacency, sources, targets, train: bool):
        return self.mean[relation.key](adjacency, sources)

    def itself(self, node_type: str, targets):
        if self.one_hot and node_type in self.learned:
            slices = self.prepare(node_type, targets)
            targets = slices if self.share_self else slices[-1:]
        return self.self_loop[node_type](targets)

    @classmethod
    def learnable_width(cls, node_type: str, feature_width: int, **fields) -> int:
        if not fields.get("one_hot"):
            return feature_width
        slices = fields.get("bases") or len(fields["learned"][node_type])
        own = node_type in fields["selves"] and not fields.get("share_self")
        return (slices + own) * fields["features"]

    def learnable_scale(self, node_type: str, nodes: int) -> float:
        if not self.one_hot:
            return super().learnable_scale(node_type, nodes)
        return (2 / (nodes + self.features)) ** 0.5  # Glorot and Bengio's, for a matrix with a row per node

    def _slices(self, relation: Relation) -> tuple[int, ...]:
        """Where a one-hot source keeps what a relation reads."""
        return tuple(range(self.bases)) if self.bases else (self.learned[relation.source].index(relation),)


MODEL = RGCNLayer
