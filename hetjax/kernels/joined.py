"""Concatenation of the rows of several arrays, and its inverse.

XLA's CPU backend fuses a reshape into the concatenation that reads it, and then searches the part of every element; it
also divides element by element. Rows that follow each other are one piece of memory, and copied so here.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels import native
from hetjax.kernels.native import Operation, argument, result
from hetjax.kernels.vectors import copy
from hetjax.system.compiled import compiled

ZERO = np.int64(0)  # numba compiles a function once for numbers, and once more for those that stand in the code


def joined(parts: Sequence[jax.Array]) -> jax.Array:
    """Return the rows of all parts, one part after the other: `[rows, ...]` of floats of one dtype. Not to be mapped by `vmap`."""
    if len(parts) == 1:
        return parts[0]
    (whole,) = _joined(1, tuple(map(_matrix, parts)))
    return whole.reshape(len(whole), *parts[0].shape[1:])


def joined_halves(parts: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Return `joined` of `[rows, 2 n]` as two arrays: the first `n` columns, and the others."""
    assert parts[0].shape[1] % 2 == 0
    return _joined(2, tuple(parts))


def parted(x: jax.Array, counts: Sequence[int]) -> tuple[jax.Array, ...]:
    """Return the inverse of `joined`, by the number of each part's rows."""
    assert sum(counts) == len(x)
    if len(counts) == 1:
        return (x,)
    return tuple(part.reshape(len(part), *x.shape[1:]) for part in _parted(tuple(map(int, counts)), (_matrix(x),)))


def _matrix(x):
    return x.reshape(len(x), math.prod(x.shape[1:]))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _joined(pieces, parts):
    """Return the columns of the concatenated parts, in pieces of as many columns each."""

    def plainly(*parts):
        return jnp.split(jnp.concatenate(parts), pieces, axis=1)

    def natively(*parts):
        rows, width, dtype = sum(map(len, parts)), parts[0].shape[1] // pieces, parts[0].dtype
        return _join(rows, *parts, results=pieces * [jax.ShapeDtypeStruct((rows, width), dtype)])

    return tuple(native.choose(natively, plainly, *parts))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _parted(counts, pieces):
    """Return the inverse of `_joined`."""

    def plainly(*pieces):
        return jnp.split(jnp.concatenate(pieces, axis=1), np.cumsum(counts)[:-1])

    def natively(*pieces):
        width, dtype = sum(piece.shape[1] for piece in pieces), pieces[0].dtype
        return _part(sum(counts), *pieces, results=[jax.ShapeDtypeStruct((count, width), dtype) for count in counts])

    return tuple(native.choose(natively, plainly, *pieces))


_joined.defvjp(
    lambda pieces, parts: (_joined(pieces, parts), tuple(len(part) for part in parts)),
    lambda pieces, counts, gradients: (_parted(counts, tuple(gradients)),),
)
_parted.defvjp(
    lambda counts, pieces: (_parted(counts, pieces), len(pieces)),
    lambda counts, pieces, gradients: (_joined(pieces, tuple(gradients)),),
)


def _join_rows(first, last, frame):
    place, begin = 0, ZERO
    while begin < last:
        part = argument(frame, place, "f2")
        rows, piece, column = (max(first, begin), min(last, begin + len(part))), 0, ZERO
        while column < part.shape[1]:
            whole = result(frame, piece, "f2")
            _copy(whole, (ZERO, ZERO), part, (begin, column), rows, whole.shape[1])
            piece, column = piece + 1, column + whole.shape[1]
        place, begin = place + 1, begin + len(part)


def _part_rows(first, last, frame):
    place, begin = 0, ZERO
    while begin < last:
        part = result(frame, place, "f2")
        rows, piece, column = (max(first, begin), min(last, begin + len(part))), 0, ZERO
        while column < part.shape[1]:
            whole = argument(frame, piece, "f2")
            _copy(part, (begin, column), whole, (ZERO, ZERO), rows, whole.shape[1])
            piece, column = piece + 1, column + whole.shape[1]
        place, begin = place + 1, begin + len(part)


@compiled
def _copy(out, to, x, start, rows, width):
    """Copy some columns of rows that are counted in the whole.

    Args:
      to, start: of either array, which row of the whole is its first, and the first of the columns.
      rows: from which to before which.
    """
    first, last = rows
    if out.shape[1] == x.shape[1]:
        copy(out, (first - to[0]) * width, x, (first - start[0]) * width, max(0, last - first) * width)
        return
    for row in range(first, last):
        copy(out, (row - to[0]) * out.shape[1] + to[1], x, (row - start[0]) * x.shape[1] + start[1], width)


_join, _part = Operation(_join_rows), Operation(_part_rows)
