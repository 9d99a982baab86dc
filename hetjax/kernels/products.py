"""Products with matrices whose gradient sums over many rows.

The gradient of `W` in `x W` is `x^T g`, a sum over the rows of both. XLA's CPU backend turns one of the two around first;
a kernel does not. Elsewhere it is XLA's operation; of several matrices of many rows it is of parts of these, as cuBLAS
divides the rows of one product among a GPU's processors, but not those of a batch of them (docs/strategies/single_results.md, One GPU).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels import native
from hetjax.kernels.native import BLOCK, Operation, arrays
from hetjax.kernels.vectors import SIDE, add_products, clear, copy

PARTS, LEAST = 16, 1024  # the most sums that threads make apart, and the fewest rows of one
MANY = 64  # products in a batch, which keep a GPU busy


@jax.custom_vjp
def product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """Return `x[b] @ matrix[b]`, `[b, rows, n]`, of `[b, rows, m]` and `[b, m, n]`."""
    return jax.lax.dot_general(x, matrix, (((2,), (1,)), ((0,), (0,))))


def _product_backward(residuals, gradient):
    x, matrix = residuals
    return product(gradient, jnp.swapaxes(matrix, 1, 2)), turned_product(x, gradient)


product.defvjp(lambda x, matrix: (product(x, matrix), (x, matrix)), _product_backward)


@jax.custom_vjp
def each_product(x: jax.Array, matrices: list[jax.Array]) -> list[jax.Array]:
    """Return `x @ matrix` of each, `[rows, n]`, of `[rows, m]` and `[m, n]`; the backward pass reads the rows once for
    the gradients of all."""
    return [x @ matrix for matrix in matrices]


def _each_product_backward(residuals, gradients):
    x, matrices = residuals
    by_x = sum(gradient @ matrix.T for gradient, matrix in zip(gradients, matrices))
    return by_x, list(turned_product(x[None], *(gradient[None] for gradient in gradients)))


each_product.defvjp(lambda x, matrices: (each_product(x, matrices), (x, matrices)), _each_product_backward)


def turned_product(x: jax.Array, *y: jax.Array) -> jax.Array:
    """Return `x[b]^T y[b]`, `[b, m, n]`, of `[b, rows, m]`, or one `[1, rows, m]` for all, and `[b, rows, n]`.

    Args:
      y: in some arrays, as if these were concatenated; a kernel reads the first two where they lie.
    """
    batch = sum(map(len, y))
    assert len(x) in (1, batch)
    if not x.size or not any(part.size for part in y):
        return jnp.zeros((batch, x.shape[2], y[0].shape[2]), x.dtype)
    return native.choose(_natively, _in_parts, x, *y)


def added(parts: jax.Array) -> jax.Array:
    """Return the sum of a few large arrays, `[parts, ...]`: as a product, because XLA's sums of few long rows take many
    times as long on a CPU."""
    count, *shape = parts.shape
    return (jnp.ones(count, parts.dtype) @ parts.reshape(count, math.prod(shape))).reshape(shape)


def _natively(x, y, *others):
    more = jnp.concatenate(others) if others else y[:0]
    (_, rows, n), m, batch = y.shape, x.shape[2], len(y) + len(more)
    parts = parts_of(rows)
    result = jax.ShapeDtypeStruct((parts, batch, m, n), x.dtype)
    return added(multiply_turned(parts * BLOCK, x, y, more, results=[result])[0])


def _in_parts(x, *given):
    """Return `turned_product` on other platforms than a CPU."""
    y = jnp.concatenate(given)
    batch, rows, m = x.shape
    if batch < len(y):  # one product, of their columns side by side
        found = _in_parts(x, jnp.concatenate(list(y), axis=1)[None])
        return jnp.stack(jnp.split(found[0], len(y), axis=1))
    parts = min(parts_of(rows), MANY // batch)
    if batch == 1 or parts <= 1:
        return turned_by_xla(x, y)
    each = -(-rows // parts)
    x, y = (jnp.pad(z, ((0, 0), (0, parts * each - rows), (0, 0))) for z in (x, y))
    x, y = (z.reshape(batch * parts, each, z.shape[2]) for z in (x, y))
    return jnp.sum(turned_by_xla(x, y).reshape(batch, parts, m, y.shape[2]), axis=1)


def parts_of(rows: int) -> int:
    """Return the number of parts into which a sum over so many rows is divided."""
    return max(1, min(PARTS, rows // LEAST))


def turned_by_xla(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `turned_product` by operations of XLA, with one `x` for each."""
    return jax.lax.dot_general(jnp.swapaxes(x, 1, 2), y, (((2,), (1,)), ((0,), (0,))))


TURNED = "f3 f3 f3 > f4"


def _turned_product(first, last, frame):
    """Compute the product in square blocks of `x`, which are copied: rows some multiple of 4 KB apart share a few
    places of the processor's cache. The next block is prefetched meanwhile."""
    x, y, more, out = arrays(frame, TURNED)
    (given, rows, m), (parts, batch, _, n) = x.shape, out.shape
    each, block = batch // given, np.empty((SIDE, SIDE), x.dtype)
    for part in range(first // BLOCK, last // BLOCK):
        clear(out, part * batch * m * n, batch * m * n)
        begin, end = rows * part // parts, rows * (part + 1) // parts
        for b in range(given):
            for r in range(begin, end, SIDE):
                for c in range(0, m, SIDE):
                    count, columns = min(SIDE, end - r), min(SIDE, m - c)
                    for row in range(count):
                        copy(block, row * SIDE, x, (b * rows + r + row) * m + c, columns)
                    shape = count, columns, n, n, 1, SIDE, n
                    below, beside = (r, c + SIDE) if c + SIDE < m else (r + SIDE, 0)
                    soon = x, (b * rows + below) * m + beside, m
                    for of in range(b * each, (b + 1) * each):
                        to = ((part * batch + of) * m + c) * n
                        own, place = (y, of) if of < len(y) else (more, of - len(y))
                        add_products(out, to, block, 0, own, (place * rows + r) * n, shape, soon)


multiply_turned = Operation(_turned_product)
