"""Aggregates of features that never change: on the whole graph they are the same at every step, and are computed once.

Where a layer aggregates its sources times a matrix, `fold(X W)` is `fold(X) W`, and only `W` changes. SIGN (Frasca et
al., 2020) has such sums computed before training too; here they are the first layer's, exactly, and a layer does not
notice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.kernels.cost_model import Costs
from hetjax.kernels.linear import fold_product, times
from hetjax.models.layer import Layer
from hetjax.sampling.blocks import Adjacency, Block


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Known:
    """The known sums of a relation's sources, in place of its edges.

    Attributes:
      sums: `[targets, width of the sources]`.
    """

    sums: jax.Array

    @property
    def targets(self) -> int:
        """The number of rows that an aggregation returns."""
        return len(self.sums)


@fold_product.register
def _(edges: Known, fold: Callable, sources: jax.Array, kernel: Any = None) -> jax.Array:
    return edges.sums if kernel is None else times(edges.sums.astype(kernel.dtype), kernel)


def with_known(layer: Layer, block: Block, static: Mapping[str, jax.Array], costs: Costs) -> Block:
    """Return a block in which known sums stand for the edges of relations, where that is less work.

    Args:
      layer: the first.
      block: of the whole graph, on a device.
      static: features `[nodes, width]` there, per type of which all rows are read as they are, at every step.
      costs: of orders.
    """
    linear_fold = layer.traits.linear_fold
    if not linear_fold:
        return block
    known: dict[str, Any] = {
        relation.key: Known(
            jax.jit(linear_fold)(block.adjacency[relation.key], jnp.asarray(static[relation.source], float))
        )
        for relation in layer.relations
        if relation.source in static and _pays(block.adjacency[relation.key], static[relation.source], costs)
    }
    return block._replace(adjacency={**block.adjacency, **known})


def _pays(adjacency: Adjacency, x: jax.Array, costs: Costs) -> bool:
    """Return whether multiplying the sums of all targets is cheaper than multiplying all sources and aggregating the products."""
    rows, width = x.shape
    return adjacency.targets * width < rows * width + costs.move / costs.multiply * adjacency.indices.shape[0]
