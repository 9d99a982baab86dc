"""R-GCN (Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks, ESWC 2018)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels.linear import Dense, fold_product, times
from hetjax.kernels.segment import multiply_first, neighbour_mean
from hetjax.kernels.together import Together
from hetjax.models.decoupled import Propagation
from hetjax.models.dropout import NodeMasks
from hetjax.models.layer import PlainLayer, glorot
from hetjax.models.traits import Grouped, Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError


class Bases(nn.Module):
    """The matrices that relations of one source width share, `[bases, width, features]` (equation 3).

    Attributes:
      count, features: as in the shape.
      users: number of relations and self terms that share them.
    """

    count: int
    features: int
    users: int

    @nn.compact
    def __call__(self, width: int) -> jax.Array:
        return self.param("bases", nn.initializers.glorot_uniform(batch_axis=(0,)), (self.count, width, self.features))


class RelationMean(nn.Module):
    """One relation's term of equation 2: the mean over the neighbours `u` of `W_r h_u`, zero without neighbours.

    Edges that have weights are weighed.

    Attributes:
      features: width of the result.
      bases: if given, `W_r` is a learned combination of them (equation 3); otherwise a matrix of its own.
    """

    features: int
    bases: Bases | None = None

    def __call__(self, adjacency: Adjacency, sources: jax.Array) -> jax.Array:
        width = sources.shape[1]
        kernel = self.own(width) if self.bases is None else combined(self.own(width), self.bases(width))
        return fold_product(adjacency, neighbour_mean, sources, kernel)

    @nn.compact
    def own(self, width: int) -> jax.Array:
        """Return the relation's own weights: a matrix `[width, features]`, or its coefficients of the bases."""
        if self.bases is None:
            return self.param("kernel", nn.initializers.glorot_uniform(), (width, self.features))
        return coefficients(self, self.bases.count, self.bases.users)


class SelfTerm(nn.Module):
    """The term `W_0 h_v` of equation 2, where `W_0` is a combination of bases.

    Attributes:
      features, bases: as in `RelationMean`.
    """

    features: int
    bases: Bases

    @nn.compact
    def __call__(self, targets: jax.Array) -> jax.Array:
        own, width = coefficients(self, self.bases.count, self.bases.users), targets.shape[1]
        return times(targets, combined(own, self.bases(width)))


def combined(own: jax.Array, bases: jax.Array) -> jax.Array:
    """Return `W_r`, the combination of the bases (equation 3); of several relations `[R, width, features]`."""
    return jnp.einsum("...b,bio->...io", own, bases)


def coefficients(module: nn.Module, bases: int, users: int) -> jax.Array:
    """Return `a_rb` of equation 3, `[bases]`: a row of a matrix that is initialised as Glorot and Bengio do."""
    return module.param("coefficients", nn.initializers.normal(glorot(bases, users)), (bases,))


class Coefficients(nn.Module):
    """The coefficients by which a matrix whose rows lie in the nodes' own rows, one per node, is combined from `bases` parts of these.

    Attributes:
      bases: number of parts.
      users: as in `Bases`.
    """

    bases: int
    users: int

    @nn.compact
    def __call__(self) -> jax.Array:
        return coefficients(self, self.bases, self.users)


class RGCNPropagation(Propagation):
    """The layer `h_v' = (1 + s_t) h_v + sum over r of (1 + s_r) times the mean over N_r(v) of h_u`: equation 2, of
    whose matrices one learned scalar each is left.

    Scalars are stored as their distance from 1, so that weight decay pulls to plain propagation, and not to none.
    """

    traits = replace(Propagation.traits, learns=True)

    def setup(self):
        super().setup()
        zeros = nn.initializers.zeros_init()
        self.scale = {r.key: self.param(f"scale_{r.key}", zeros, ()) for r in self.relations}
        self.self_scale = {t: self.param(f"scale_{t}", zeros, ()) for t in self.selves}

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> jax.Array:
        return (1 + self.scale[relation.key]) * super().relation(relation, adjacency, sources, targets, masks)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return (1 + self.self_scale[node_type]) * targets

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        return self.finished(node_type, total, targets, masks)


def one_hot_inputs(layer: "RGCNLayer", node_type: str, sources: jax.Array) -> jax.Array | Mapping[str, jax.Array]:
    """Return the source inputs; of one-hot sources `[S, features]` per relation key, all of them by one product of matrices."""
    if not layer.is_one_hot(node_type):
        return sources
    keys, parts = [relation.key for relation in layer.learned[node_type]], layer.parts(sources)
    if layer.bases:
        keys = [key for key in keys if key in layer.combine]
        weights = [layer.combine[key]() for key in keys]
        parts = jnp.einsum("rb,bnf->rnf", jnp.stack(weights), parts[: layer.bases]) if keys else parts[:0]
    # Split, not indexed, because the gradient of that is one concatenation.
    return {key: part[0] for key, part in zip(keys, jnp.split(parts, len(parts)))} if keys else {}


def relation_shape(layer: "RGCNLayer", relation: Relation) -> int | None:
    """Return the source width of a relation that can be aggregated with others; None: one-hot sources."""
    return None if layer.is_one_hot(relation.source) else layer.widths[relation.source]


def relation_weights(layer: "RGCNLayer", relation: Relation) -> list[tuple[str, ...]]:
    """Return the paths of a relation's weights."""
    return [(f"mean_{relation.key}", "coefficients" if layer.bases else "kernel")]


def aggregate_grouped(
    layer: "RGCNLayer", group: Together, sources: Mapping[str, Any], targets: Mapping[str, Any]
) -> dict[str, jax.Array]:
    """Return the partial aggregates of a group of relations, per target type."""
    x = group.of_sources(sources)
    width = x.shape[1]
    (kernels,) = group.stacked(lambda r: [layer.mean[r.key].own(width)])
    if layer.bases:
        kernels = combined(kernels, layer.shared[str(width)](width))
    x = x.astype(kernels.dtype)
    if multiply_first(group.edges, x, layer.features):
        return group.total(neighbour_mean(group.edges, group.from_sources(x, kernels)))
    return group.total(group.from_targets(neighbour_mean(group.edges, x), kernels))


class RGCNLayer(PlainLayer):
    """The layer of equation 2, `h_v' = relu(W_0 h_v + sum over r of the mean over N_r(v) of W_r h_u)`.

    Deviations: `W_0` is a matrix per node type, because types have different widths; and there is a bias per node type,
    as DGL and GraphStorm have, unless `bias` is unset. The aggregation is a sum that never reads the target, unless there is a
    residual.

    Attributes:
      bases: number of basis matrices per source width, or 0 for a matrix per relation.
      share_self: make `W_0` of the bases, as every `W_r` is, as in the paper's code; otherwise it is a matrix of its own.
      one_hot: the features of featureless types are one-hot, as in the paper's experiments on entity classification: in the
        first layer every matrix has a row per node. A node's rows of all matrices are kept together, as its learnable
        features: a slice of `features` columns per basis, or per relation out of its type, and one for the self term.
    """

    bases: int = 0
    share_self: bool = False
    one_hot: bool = False
    traits = Traits(
        reads_target=False,
        multiplies_input=True,
        linear_input=True,
        linear_fold=neighbour_mean,
        propagation=RGCNPropagation,
        grouped=Grouped(relation_shape, relation_weights, aggregate_grouped),
        source_inputs=one_hot_inputs,
    )

    def with_options(self, traits: Traits) -> Traits:
        traits = super().with_options(traits)
        if not self.one_hot:
            return traits
        widths = {t: self._parts_of(t) * self.features for t in self.learned}
        return replace(traits, linear_input=not self.learned, learnable_widths=widths, learnable_glorot=True)

    def _parts_of(self, node_type: str) -> int:
        """Return the number of slices that a one-hot node's row has."""
        own = node_type in self.selves and not self.share_self
        return (self.bases or len(self.learned[node_type])) + own

    def setup(self):
        super().setup()
        if self.share_self and not self.bases:
            raise InputError("rgcn.share_self is true, and rgcn.bases is 0: there are no bases to share")
        learned = self.learned if self.one_hot else {}
        sharing = [r.source for r in self.relations] + list(self.selves if self.share_self else ())
        users = Counter(self.widths[t] for t in sharing if t not in learned) if self.bases else {}
        self.shared = {str(width): Bases(self.bases, self.features, users[width]) for width in sorted(users)}
        self.mean = {
            r.key: RelationMean(self.features, self.shared.get(str(self.widths[r.source])))
            for r in self.relations
            if r.source not in learned
        }
        self.self_loop = {t: self._self_term(t) for t in self.selves if t not in learned}
        combined = [r for r in self.relations if r.source in learned] if self.bases else []
        combined_selves = [t for t in self.selves if t in learned and self.share_self]
        shape = self.bases, len(combined) + len(combined_selves)
        self.combine = {r.key: Coefficients(*shape) for r in combined}
        self.combine_self = {t: Coefficients(*shape) for t in combined_selves}

    def _self_term(self, node_type: str) -> nn.Module:
        if self.share_self:
            return SelfTerm(self.features, self.shared[str(self.widths[node_type])])
        return Dense(self.features, use_bias=False)

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: Any, targets: jax.Array | None, masks: NodeMasks | None
    ) -> jax.Array:
        if self.is_one_hot(relation.source):
            return fold_product(adjacency, neighbour_mean, sources[relation.key])
        return self.mean[relation.key](adjacency, sources)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        if not self.is_one_hot(node_type):
            return self.self_loop[node_type](targets)
        parts = self.parts(targets)
        return jnp.einsum("b,bnf->nf", self.combine_self[node_type](), parts) if self.share_self else parts[-1]

    def is_one_hot(self, node_type: str) -> bool:
        """Return whether the embeddings below of a type are rows of the matrices."""
        return self.one_hot and node_type in self.learned

    def parts(self, rows: jax.Array) -> jax.Array:
        """Return the rows of one-hot nodes, `[parts, nodes, features]`."""
        return jnp.moveaxis(rows.reshape(len(rows), rows.shape[1] // self.features, self.features), 1, 0)


MODEL = RGCNLayer
