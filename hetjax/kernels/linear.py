"""Products with matrices, of nodes' rows and of linear aggregations, before or after the sum."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.kernels.products import each_product, product
from hetjax.kernels.segment import multiply_first, neighbour_sum
from hetjax.kernels.sparse import SparseRows
from hetjax.kernels.sums_at import sums_at
from hetjax.sampling.blocks import Adjacency, Edges


class Kernel(nn.Module):
    """A matrix `[width, features]`, initialised as Glorot and Bengio (2010) do.

    Attributes:
      features: as in the shape.
    """

    features: int

    @nn.compact
    def __call__(self, width: int) -> jax.Array:
        return self.param("kernel", nn.initializers.glorot_uniform(), (width, self.features))


@functools.singledispatch
def times(x: Any, kernel: jax.Array) -> jax.Array:
    """Return rows `[rows, width]`, also `SparseRows`, times a matrix `[width, ...]`: `[rows, ...]`."""
    width, *shape = kernel.shape
    return product(x[None], kernel.reshape(1, width, math.prod(shape)))[0].reshape(len(x), *shape)


@times.register
def _(x: SparseRows, kernel: jax.Array) -> jax.Array:
    columns = kernel.reshape(len(kernel), -1)
    rows = neighbour_sum(x.entries, columns) if x.picked is None else sums_at(x.entries, x.picked, columns)
    return rows.reshape(len(x), *kernel.shape[1:])


@functools.singledispatch
def times_each(x: Any, kernels: Sequence[jax.Array]) -> list[jax.Array]:
    """Return `times(x, kernel)` for each of several matrices of one shape; the backward pass reads `x` once for all."""
    width, *shape = kernels[0].shape
    matrices = [kernel.reshape(width, math.prod(shape)) for kernel in kernels]
    return [rows.reshape(len(x), *shape) for rows in each_product(x, matrices)]


@times_each.register
def _(x: SparseRows, kernels: Sequence[jax.Array]) -> list[jax.Array]:
    return [times(x, kernel) for kernel in kernels]


class Dense(nn.Module):
    """The dense layer `x W + b`, as `flax.linen.Dense`, also of `SparseRows`.

    Attributes:
      features, use_bias, kernel_init: as there.
    """

    features: int
    use_bias: bool = True
    kernel_init: Callable = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, x: Any) -> jax.Array:
        kernel = self.param("kernel", self.kernel_init, (x.shape[1], self.features))
        dtype = jnp.promote_types(x.dtype, kernel.dtype)
        h = times(x.astype(dtype), kernel.astype(dtype))
        if not self.use_bias:
            return h
        return h + jnp.expand_dims(self.param("bias", nn.initializers.zeros_init(), (self.features,)), 0)


@functools.singledispatch
def fold_product(
    adjacency: Edges, fold: Callable[[Adjacency, jax.Array], jax.Array], sources: jax.Array, kernel: Any = None
) -> Any:
    """Return a linear aggregation, `neighbour_sum` or `neighbour_mean`, of the sources times a matrix, in the cheaper order.

    Args:
      sources: `[S, width]`, of which `SparseRows` are multiplied first.
      kernel: `[width, features]`; None: the sources are aggregated without a product.

    Returns:
      `[T, features]`, of the dtype of the kernel. A layer adds it to other partial aggregates and does nothing else with it:
      where devices divide the rows, it is a sum that waits for the others of the layer.
    """
    if kernel is None:
        return fold(adjacency, sources)
    sources = sources.astype(kernel.dtype)
    if multiply_first(adjacency, sources, kernel.shape[1]):
        return fold(adjacency, times(sources, kernel))
    return times(fold(adjacency, sources), kernel)
