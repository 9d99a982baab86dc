"""Matrices that a fold multiplies what it sums by, before or after."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from hetjax.models.segment import multiply_first
from hetjax.sampling.blocks import Adjacency, Edges


class Kernel(nn.Module):
    """A matrix `[width, features]`, drawn as Glorot and Bengio (2010) do.

    Attributes:
      features: as in the shape.
    """

    features: int

    @nn.compact
    def __call__(self, width: int) -> jax.Array:
        return self.param("kernel", nn.initializers.glorot_uniform(), (width, self.features))


@functools.singledispatch
def fold_product(
    adjacency: Edges, fold: Callable[[Adjacency, jax.Array], jax.Array], sources: jax.Array, kernel: Any = None
) -> Any:
    """A fold that is linear, `neighbour_sum` or `neighbour_mean`, of the sources times a matrix, in the cheaper order.

    Args:
      sources: `[S, width]`.
      kernel: `[width, features]`; None: the sources are folded as they are.

    Returns:
      `[T, features]`, of the dtype of the kernel. A layer adds it to other partial aggregates and does nothing else with it:
      where devices divide the rows, it is a sum that waits for the others of the layer.
    """
    if kernel is None:
        return fold(adjacency, sources)
    sources = sources.astype(kernel.dtype)
    if multiply_first(adjacency, sources, kernel.shape[1]):
        return fold(adjacency, sources @ kernel)
    return fold(adjacency, sources) @ kernel
