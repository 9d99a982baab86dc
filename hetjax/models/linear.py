"""Matrices that a fold multiplies what it sums by, before or after."""

from collections.abc import Callable

import flax.linen as nn
import jax

from hetjax.models.segment import multiply_first
from hetjax.sampling.blocks import Adjacency


class Kernel(nn.Module):
    """A matrix `[width, features]`, drawn as Glorot and Bengio (2010) do.

    Attributes:
      features: as in the shape.
    """

    features: int

    @nn.compact
    def __call__(self, width: int) -> jax.Array:
        return self.param("kernel", nn.initializers.glorot_uniform(), (width, self.features))


def fold_product(
    fold: Callable[[Adjacency, jax.Array], jax.Array], adjacency: Adjacency, sources: jax.Array, kernel: jax.Array
) -> jax.Array:
    """A fold that is linear, `neighbour_sum` or `neighbour_mean`, of the sources times a matrix, in the cheaper order.

    Args:
      sources: `[S, width]`.
      kernel: `[width, features]`.

    Returns:
      `[T, features]`, of the dtype of the kernel.
    """
    sources = sources.astype(kernel.dtype)
    if multiply_first(adjacency, sources, kernel.shape[1]):
        return fold(adjacency, sources @ kernel)
    return fold(adjacency, sources) @ kernel
