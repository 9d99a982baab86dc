"""Rows to columns and back: the operations that NeutronTP calls split and gather (section 3.1), each as one all-to-all.

Nodes are divided into ranges of ids, the same number for every device; a device has all columns of its own. Or the columns are
divided, and a device has a slice of those of all nodes. Several arrays travel as one message, padded to columns that the
devices divide evenly. Either way is the other's transpose, so gradients need no rule of JAX's.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.sharding.mesh import FEATURE
from hetjax.sharding.traffic import scope

COLUMNS, ROWS, LOGITS = "rows_to_columns", "columns_to_rows", "attention_logits"  # kinds of traffic


def slice_of(columns: int, parts: int) -> int:
    """Return the number of columns that each device aggregates, padding included."""
    return -(-columns // parts)


def to_columns(parts: int, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Return this device's columns of all nodes, `[parts * rows, slice, ...]`, from all columns of its nodes, `[rows, columns, ...]`."""
    padded = []
    for x in arrays:
        more = slice_of(x.shape[1], parts) * parts - x.shape[1]
        padded.append(jnp.pad(x, [(0, 0), (0, more)] + [(0, 0)] * (x.ndim - 2)))
    return _to_columns(COLUMNS, parts, padded)


def to_rows(parts: int, arrays: Sequence[jax.Array], columns: Sequence[int]) -> list[jax.Array]:
    """Return the rows of columns: the inverse of `to_columns`.

    Args:
      columns: the number of columns of each array, without padding.
    """
    return [x[:, :width] for x, width in zip(_to_rows(ROWS, parts, list(arrays)), columns, strict=True)]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _to_columns(kind: str, parts: int, arrays: list[jax.Array]) -> list[jax.Array]:
    split = [x.reshape(len(x), parts, x.shape[1] // parts, *x.shape[2:]) for x in arrays]
    came = _swap(kind, parts, [jnp.swapaxes(x, 0, 1) for x in split])
    return [x.reshape(parts * x.shape[1], *x.shape[2:]) for x in came]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _to_rows(kind: str, parts: int, arrays: list[jax.Array]) -> list[jax.Array]:
    came = _swap(kind, parts, [x.reshape(parts, len(x) // parts, *x.shape[1:]) for x in arrays])
    joined = [jnp.swapaxes(x, 0, 1) for x in came]
    return [x.reshape(len(x), parts * x.shape[2], *x.shape[3:]) for x in joined]


def _back(move: Callable, kind: str, parts: int, _: None, gradients: list) -> tuple[list]:
    """Move the gradients of some arrays; integer arrays, which features may be, have none."""
    real = [gradient.dtype != jax.dtypes.float0 for gradient in gradients]
    moved = iter(move(kind, parts, [gradient for gradient, is_real in zip(gradients, real) if is_real]))
    return ([next(moved) if is_real else None for is_real in real],)


_to_columns.defvjp(
    lambda kind, parts, arrays: (_to_columns(kind, parts, arrays), None),
    partial(_back, _to_rows),
)
_to_rows.defvjp(
    lambda kind, parts, arrays: (_to_rows(kind, parts, arrays), None),
    partial(_back, _to_columns),
)


def _swap(kind: str, parts: int, arrays: list[jax.Array]) -> list[jax.Array]:
    """Send row `i` of every array `[parts, ...]` to device `i`; row `i` of the result comes from there."""
    if not arrays:
        return []
    dtype = common(arrays)
    message = jnp.concatenate([x.reshape(parts, -1).astype(dtype) for x in arrays], axis=1)
    with scope(kind):
        came = jax.lax.all_to_all(message, FEATURE, 0, 0, tiled=True)
    sizes = [x.size // parts for x in arrays]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    lines = [came[:, start : start + size] for start, size in zip(starts, sizes)]
    return [line.reshape(x.shape).astype(x.dtype) for line, x in zip(lines, arrays)]


def common(arrays: Sequence[jax.Array]) -> np.dtype:
    """Return a dtype that holds the values of all arrays; features may be integers beside halves, which do not hold these."""
    kinds = {x.dtype for x in arrays}
    return jnp.result_type(*kinds, *([jnp.float32] if len(kinds) > 1 else []))


def own_slice(parts: int, x: jax.Array, axis: int) -> jax.Array:
    """Return this device's part of an array that all have alike, padded with zeros to equal parts."""
    size = slice_of(x.shape[axis], parts)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, size * parts - x.shape[axis])
    return jax.lax.dynamic_slice_in_dim(jnp.pad(x, padding), jax.lax.axis_index(FEATURE) * size, size, axis)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def summed(kind: str, x: jax.Array) -> jax.Array:
    """Return the sum over all devices, each of which has a part of its gradient."""
    with scope(kind):
        return jax.lax.psum(x, FEATURE)


summed.defvjp(lambda kind, x: (summed(kind, x), None), lambda kind, _, gradient: (summed(kind, gradient),))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def all_rows(kind: str, x: jax.Array) -> jax.Array:
    """Return all columns of all nodes, `[parts * rows, ...]`, of which each device has a part of the gradient.

    The backward pass is an all-to-all and a sum, because gloo's reduce-scatter cannot be trusted.
    """
    with scope(kind):
        return jax.lax.all_gather(x, FEATURE, tiled=True)


def _all_rows_back(kind: str, like: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    lines = gradient.reshape(-1, len(like), *gradient.shape[1:])
    with scope(kind):
        return (jnp.sum(jax.lax.all_to_all(lines, FEATURE, 0, 0, tiled=True), axis=0),)


all_rows.defvjp(lambda kind, x: (all_rows(kind, x), jnp.zeros((len(x), 0))), _all_rows_back)
