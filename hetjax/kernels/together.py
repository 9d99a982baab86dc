"""Relations of like shapes, aggregated in one operation.

A graph of ninety relations would be ninety times the operations of one, to trace, to compile and to start, and most of its relations
have few edges. So their edges are made one bipartite graph. Its rows are pairs of a relation and a node that has an edge of
it, as Hector compacts them (Wu et al., ASPLOS 2024): not a row per relation for every node. Relations with about as many pairs lie
side by side, padded to as many, so that their matrices meet their rows in one product. A padded row has no edge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.schema import Relation
from hetjax.kernels.joined import joined, joined_halves, parted
from hetjax.kernels.partials import Weighted
from hetjax.kernels.products import product
from hetjax.kernels.segment import neighbour_sum
from hetjax.sampling.blocks import Adjacency
from hetjax.system.arrays import Array


class Bucket(NamedTuple):
    """Relations with about as many pairs.

    Attributes:
      relations: how many.
      sources, targets: rows that each of them has.
    """

    relations: int
    sources: int
    targets: int


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Together:
    """The edges of `R` relations, from `Q` pairs of a relation and a source to `P` pairs of a relation and a target.

    Where targets attend over the edges of all relations at once (`Traits.joint`), edges go to the targets themselves.

    Attributes:
      edges: `P` targets by `Q` sources; the rows of all target types by `Q` where they are joint.
      sources: the source of every pair, an edge each: `Q` targets by the rows of all source types, one type after the other.
      targets: the target of every pair: `P` targets by the rows of all target types.
      totals: the same turned around.
      owners: the relation of every target pair: `P` targets by `R`. These three are None where edges are joint.
      relations: in the order of the rows.
      buckets: of these, in the same order.
      rows: how many, per target type.
      source_types: in the order of their rows.
      weights: of the relations, `[R, ...]` each, where they are stacked already (`models.packed`).
    """

    edges: Adjacency
    sources: Adjacency
    targets: Adjacency | None
    totals: Adjacency | None
    owners: Adjacency | None
    relations: tuple[Relation, ...] = field(metadata={"static": True})
    buckets: tuple[Bucket, ...] = field(metadata={"static": True})
    rows: tuple[tuple[str, int], ...] = field(metadata={"static": True})
    source_types: tuple[str, ...] = field(metadata={"static": True})
    weights: tuple[Array, ...] | None = None

    @property
    def joint(self) -> bool:
        """Return whether edges go to the targets themselves."""
        return self.targets is None

    def stacked(self, weights: Callable[[Relation], Sequence[jax.Array]]) -> Sequence[jax.Array]:
        """Return the weights of every relation, stacked, `[R, ...]`.

        Args:
          weights: of a relation, which is not asked where they are stacked already.
        """
        if self.weights:
            return list(map(jnp.asarray, self.weights))
        return [jnp.stack(alike) for alike in zip(*map(weights, self.relations))]

    def of_type(self, weights: Mapping[str, jax.Array]) -> jax.Array:
        """Return the values of every relation's source type, `[R, ...]`."""
        types = np.array([self.source_types.index(relation.source) for relation in self.relations])
        return jnp.stack([weights[t] for t in self.source_types])[types]

    def of_sources(self, x: Mapping[str, jax.Array]) -> jax.Array:
        """Return the rows of the pairs' sources, `[Q, width]`; zeros for padding."""
        return neighbour_sum(self.sources, _of_all_types([x[t] for t in self.source_types]))

    def of_targets(self, x: Mapping[str, jax.Array]) -> jax.Array:
        """Return the rows of the pairs' targets, `[P, width]`, zeros for padding; or of all targets where edges are joint."""
        rows = _of_all_types([x[t] for t, _ in self.rows])
        return rows if self.joint else neighbour_sum(self.targets, rows)

    def from_sources(self, x: jax.Array, matrices: jax.Array) -> jax.Array:
        """Return every source pair's row times its relation's matrix: `[Q, n]` from `[Q, m]` and `[R, m, n]`."""
        return joined(self._of_buckets(x, matrices, "sources"))

    def halves_from_sources(self, x: jax.Array, matrices: jax.Array, bias: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the same for `[R, m, 2 n]`, plus its relation's bias, `[R, 2 n]`: the first half of the columns, and the other."""
        return joined_halves(self._of_buckets(x, matrices, "sources", bias))

    def from_targets(self, x: jax.Array, matrices: jax.Array) -> jax.Array:
        """Return every target pair's row times its relation's matrix: `[P, n]` from `[P, m]` and `[R, m, n]`."""
        return joined(self._of_buckets(x, matrices, "targets"))

    def at_targets(self, x: jax.Array) -> jax.Array:
        """Return the values of every target pair's relation, `[P, ...]` from `[R, ...]`; zeros for padding."""
        return neighbour_sum(self.owners, jax.lax.collapse(x, 1)).reshape(-1, *x.shape[1:])

    def total(self, partial: Any) -> dict[str, Any]:
        """Return the partial aggregates of all targets per type, from those of the pairs; a target without a pair has that of no edges.

        Args:
          partial: `[P, ...]`: values to be summed, or `Weighted`, of which every relation into a type counts at every target of
            it. Where edges are joint, any, of all targets already.
        """
        if self.joint:
            return self._divided(partial)
        if isinstance(partial, Weighted):
            values = self._divided(neighbour_sum(self.totals, partial.value))
            into = {t: sum(relation.target == t for relation in self.relations) for t in values}
            return {t: Weighted(x, jnp.full((len(x), 1), into[t], x.dtype)) for t, x in values.items()}
        return self._divided(neighbour_sum(self.totals, partial))

    def _of_buckets(
        self, x: jax.Array, matrices: jax.Array, end: str, bias: jax.Array | None = None
    ) -> list[jax.Array]:
        counts = [bucket.relations for bucket in self.buckets]
        rows = parted(x, [bucket.relations * getattr(bucket, end) for bucket in self.buckets])
        parts = [
            product(own.reshape(count, len(own) // count, x.shape[1]), kernels)
            for own, kernels, count in zip(rows, parted(matrices, counts), counts)
        ]
        if bias is not None:
            parts = [part + own[:, None] for part, own in zip(parts, parted(bias, counts))]
        return [jax.lax.collapse(part, 0, 2) for part in parts]

    def _divided(self, x: Any) -> dict[str, Any]:
        """Return the rows of all target types, by type."""
        leaves, form = jax.tree.flatten(x)
        parts = zip(*(parted(leaf, [count for _, count in self.rows]) for leaf in leaves))
        return {t: jax.tree.unflatten(form, own) for (t, _), own in zip(self.rows, parts)}


def _of_all_types(rows: Sequence[jax.Array]) -> jax.Array:
    """Return the rows of all types, one type after the other, as floats that sums are made of."""
    return joined([own.astype(jnp.promote_types(own.dtype, jnp.float32)) for own in rows])
