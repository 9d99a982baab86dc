"""Products of each head's rows and its own matrix.

XLA multiplies heads one by one, each a product for which it first copies the head's columns; or all at once, by a matrix most of which is
zeros, as it does here where matrices are narrow. A kernel reads heads where they lie.
"""

import jax
import jax.numpy as jnp

from hetjax.kernels import native
from hetjax.kernels.native import BLOCK, Operation, arrays
from hetjax.kernels.products import added, parts_of, product, turned_product
from hetjax.kernels.vectors import add_products, clear

ROWS = 64  # that are multiplied for one head after the other, while they are in the processor's cache
NARROW = 32  # rows and columns up to which XLA multiplies all heads at once; not timed


def each_head(x: jax.Array, matrices: jax.Array) -> jax.Array:
    """Return `x[i, h] @ matrices[h]`, `[rows, heads, e]`, of `[rows, heads, d]` and `[heads, d, e]`; floats of one dtype.

    With several relations all three have an axis for them first, `[relations, ...]`. Not to be mapped by `vmap`.
    """
    return _each_head(x, matrices) if x.ndim == 4 else _each_head(x[None], matrices[None])[0]


@jax.custom_vjp
def _each_head(x, matrices):
    """Return `each_head` of several relations."""
    return _chosen(_natively, _plainly, x, matrices)


def _backward(residuals, gradient):
    x, matrices = residuals
    return _each_head(gradient, jnp.swapaxes(matrices, 2, 3)), _turned(x, gradient)


_each_head.defvjp(lambda x, matrices: (_each_head(x, matrices), (x, matrices)), _backward)


def each_head_turned(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `x[:, h]^T y[:, h]`, `[heads, d, e]`, of `[rows, heads, d]` and `[rows, heads, e]`; floats of one dtype.
    It has no gradient."""
    return _turned(x[None], y[None])[0]


def _turned(x, y):
    """Return `x[r, :, h]^T y[r, :, h]`, `[relations, heads, d, e]`, of `[relations, rows, heads, d]` and `[relations, rows, heads, e]`."""
    return _chosen(_turned_natively, _turned_plainly, x, y)


def _chosen(natively, plainly, *given: jax.Array) -> jax.Array:
    return native.choose(natively, plainly, *given) if all(one.size for one in given) else plainly(*given)


def _natively(x, matrices):
    relations, rows, heads, _ = x.shape
    result = jax.ShapeDtypeStruct((relations, rows, heads, matrices.shape[3]), x.dtype)
    return multiply_heads(relations * rows, x, matrices, results=[result])[0]


def _plainly(x, matrices):
    """Return `each_head` by operations of XLA; where one relation is narrow, as one product with a matrix most of which is zeros."""
    if len(x) != 1:
        return jnp.einsum("rwhd,rhde->rwhe", x, matrices)
    if max(matrices.shape[2:]) > NARROW:
        return jnp.swapaxes(product(jnp.swapaxes(x[0], 0, 1), matrices[0]), 0, 1)[None]
    _, rows, heads, _ = x.shape
    return (jax.lax.collapse(x[0], 1) @ apart(matrices[0])).reshape(1, rows, heads, matrices.shape[3])


def apart(matrices: jax.Array) -> jax.Array:
    """Return the matrices `[heads, d, e]` along the diagonal of one, `[heads * d, heads * e]`."""
    heads, rows, columns = matrices.shape
    spread = matrices[:, :, None] * jnp.eye(heads, dtype=matrices.dtype)[:, None, :, None]
    return spread.reshape(heads * rows, heads * columns)


def _turned_natively(x, y):
    relations, rows, heads, d = x.shape
    parts = parts_of(rows)
    result = jax.ShapeDtypeStruct((parts, relations, heads, d, y.shape[3]), x.dtype)
    sums = multiply_heads_turned(parts * relations * BLOCK, x, y, results=[result])[0]
    return added(sums) if parts > 1 else sums[0]


def _turned_plainly(x, y):
    if len(x) != 1:
        return jnp.einsum("rwhd,rwhe->rhde", x, y)
    (heads, d), e = x.shape[2:], y.shape[3]
    if max(d, e) > NARROW:
        return turned_product(*(jnp.swapaxes(z[0], 0, 1) for z in (x, y)))[None]
    whole = jax.lax.collapse(x[0], 1).T @ jax.lax.collapse(y[0], 1)
    return jnp.moveaxis(jnp.diagonal(whole.reshape(heads, d, heads, e), axis1=0, axis2=2), 2, 0)[None]


EACH, EACH_TURNED = "f4 f4 > f4", "f4 f4 > f5"


def _multiply_heads(first, last, frame):
    x, matrices, out = arrays(frame, EACH)
    (_, rows, heads, d), e = x.shape, matrices.shape[3]
    begin = first
    while begin < last:
        relation = begin // rows
        end = min(begin + ROWS, last, (relation + 1) * rows)
        clear(out, begin * heads * e, (end - begin) * heads * e)
        for h in range(heads):
            shape = d, end - begin, e, heads * e, heads * d, 1, e
            at = begin * heads + h
            add_products(out, at * e, x, at * d, matrices, (relation * heads + h) * d * e, shape, None)
        begin = end


def _multiply_heads_turned(first, last, frame):
    """Compute the sums over every part of the rows, for all relations; a sum of one relation and part takes `BLOCK` rows of the result."""
    x, y, out = arrays(frame, EACH_TURNED)
    (relations, rows, heads, d), e, parts = x.shape, y.shape[3], len(out)
    for unit in range(first // BLOCK, last // BLOCK):
        part, relation = unit // relations, unit % relations
        clear(out, unit * heads * d * e, heads * d * e)
        end = rows * (part + 1) // parts
        for begin in range(rows * part // parts, end, ROWS):
            for h in range(heads):
                shape = min(ROWS, end - begin), d, e, e, 1, heads * d, heads * e
                at = (relation * rows + begin) * heads + h
                add_products(out, (unit * heads + h) * d * e, x, at * d, y, at * e, shape, None)


multiply_heads, multiply_heads_turned = Operation(_multiply_heads), Operation(_multiply_heads_turned)
