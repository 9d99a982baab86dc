"""A layer in three stages: it sends, aggregates, and finishes its nodes; models know of none of them.

A layer works row by row, except for its aggregations, which it calls by functions that ask their adjacency (`tensor.folds`). So the layer
runs three times, with an adjacency that takes another part each time: `Asking` notes the inputs of an aggregation, `Folding` aggregates
them, `Answering` gives the results, as rows. The other parts are zeros, for which XLA computes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.kernels.cost_model import current
from hetjax.kernels.linear import fold_product
from hetjax.kernels.segment import multiply_first
from hetjax.models.dropout import NodeMasks, edge_keep_mask
from hetjax.sampling.blocks import Adjacency
from hetjax.sharding.columns import slice_of
from hetjax.sharding.tensor.folds import Asked, ColumnFold, Divided, Folded, sooner
from hetjax.sharding.tensor.together import Fold


@dataclass(frozen=True)
class Stage(Divided):
    """A relation's edges in one of the three stages.

    Attributes:
      work: rows of sources and of targets of one device, and edges times the share of the columns that it aggregates, of the whole graph.
      calls: the aggregations so far, one after the other.
      made: products by their factors, which relations may share.
    """

    work: tuple[int, int, float] = (1, 1, 1.0)
    calls: list[Any] = field(default_factory=list)
    made: dict[tuple[int, int], Any] = field(default_factory=dict)

    def shapes(self, asked: Asked, fold: ColumnFold, widths: Sequence[int]) -> Folded:
        """Return zeros of the shape of an aggregation's rows."""

        def sliced(x: jax.Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((len(x) * self.parts, slice_of(x.shape[1], self.parts), *x.shape[2:]), x.dtype)

        def all_rows(x: jax.Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.adjacency.targets, x.shape[1]), x.dtype)

        sources: Any = [*map(sliced, asked.sources)]
        targets: Any = [*map(sliced, asked.targets)]
        whole: Any = [*map(all_rows, asked.whole)]
        given = Asked(sources, targets, whole)
        found = jax.eval_shape(lambda given: fold(self.adjacency, given), given)
        columns = [jnp.zeros((self.targets, w, *x.shape[2:]), x.dtype) for x, w in zip(found.columns, widths)]
        return Folded(columns, [jnp.zeros((self.targets, *x.shape[1:]), x.dtype) for x in found.alike])


@dataclass(frozen=True)
class Asking(Stage):
    """The stage that notes the inputs of aggregations."""

    def folded(self, asked: Asked, fold: ColumnFold, widths: Sequence[int]) -> Folded:
        across = [jnp.tile(x, (1, self.parts)) for x in asked.whole]  # of which every device's slice is all
        self.calls.append(asked._replace(whole=across))
        return self.shapes(asked, fold, widths)


@dataclass(frozen=True)
class Folding(Stage):
    """The stage that aggregates the inputs, in turn, and notes the results and their widths; `ids` are those of all targets."""

    given: Sequence[Asked] = ()
    ids: jax.Array | None = None

    def folded(self, asked: Asked, fold: ColumnFold, widths: Sequence[int]) -> Folded:
        self.calls.append((fold(self.adjacency, self.given[len(self.calls)]), tuple(widths)))
        return self.shapes(asked, fold, widths)


@dataclass(frozen=True)
class Answering(Stage):
    """The stage that gives the rows of the results, in turn."""

    given: Sequence[Folded] = ()

    def folded(self, asked: Asked, fold: ColumnFold, widths: Sequence[int]) -> Folded:
        self.calls.append(None)
        return self.given[len(self.calls) - 1]


def no_edges(targets: int) -> Adjacency:
    """Return the adjacency of so many targets without edges; nothing is aggregated."""
    return Adjacency(jnp.zeros(targets + 1, jnp.int32), jnp.zeros(1, jnp.int32))


@multiply_first.register
def _(adjacency: Stage, sources: jax.Array, features: int, heads: int = 0, products: int = 1) -> bool:
    """Return the choice of the whole graph, whatever this stage knows of it."""
    rows, targets, _ = adjacency.work
    if heads % adjacency.parts == 0 and heads > 1:
        return True
    width = sources.shape[1]
    sent = rows * (heads > 1 or not adjacency.still), targets
    return width < adjacency.parts or sooner(current(), adjacency.work, sent, width, features, max(1, heads))


@fold_product.register
def _(adjacency: Stage, fold: Fold, sources: jax.Array, kernel: Any = None) -> jax.Array:
    dtype = sources.dtype if kernel is None else kernel.dtype
    before = kernel is not None and multiply_first(adjacency, sources, kernel.shape[1])
    given = sources
    if before:
        key = id(sources), id(kernel)
        given, *_ = adjacency.made.setdefault(key, (sources.astype(dtype) @ kernel, sources, kernel))

    def of_columns(edges: Adjacency, asked: Asked) -> Folded:
        return Folded([fold(edges, asked.sources[0].astype(dtype))])

    (rows,) = adjacency.folded(Asked([given]), of_columns, [given.shape[1]]).columns
    return rows if kernel is None or before else rows @ kernel


@edge_keep_mask.register
def _(
    adjacency: Stage, heads: int, rate: float, masks: NodeMasks | None, path: tuple[str, ...], dtype=float
) -> jax.Array | None:
    """Return the mask of a chunk's edges where they are aggregated; in the other stages only its existence matters."""
    if isinstance(adjacency, Folding):
        everyone = masks and masks._replace(ids=adjacency.ids)
        return edge_keep_mask(adjacency.adjacency, heads, rate, everyone, path, dtype)
    return jnp.ones((1, heads), dtype) if masks is not None and rate else None


def unique(calls: Mapping[tuple[str, bool], Sequence[Asked]]) -> tuple[list[jax.Array], dict[tuple[str, bool], Any]]:
    """Return what is sent of a type's nodes, each array once, and by relation and side the positions of each aggregation's inputs among the arrays."""
    arrays: list[jax.Array] = []

    def place(x: jax.Array) -> int:
        found = next((i for i, y in enumerate(arrays) if y is x), None)
        if found is None:
            arrays.append(x)
        return len(arrays) - 1 if found is None else found

    return arrays, {at: [jax.tree.map(place, asked) for asked in of] for at, of in calls.items()}
