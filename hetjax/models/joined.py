"""Rows of several arrays as one array's, and the other way round.

XLA's CPU backend asks of every number in which part it lies, where parts are made in the operation that joins them, if only their shape
changes there; and copies parts number by number too. Rows that follow each other are one piece of memory.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from hetjax import native
from hetjax.compiled import compiled
from hetjax.native import Operation, argument, result
from hetjax.vectors import copy


def joined(parts: Sequence[jax.Array]) -> jax.Array:
    """The rows of all parts, one part after the other: `[rows, ...]` of floats of one dtype."""
    return _joined(tuple(parts)) if len(parts) > 1 else parts[0]


def parted(x: jax.Array, counts: Sequence[int]) -> tuple[jax.Array, ...]:
    """The inverse of `joined`, by the number of each part's rows."""
    return _parted(tuple(map(int, counts)), x) if len(counts) > 1 else (x,)


@jax.custom_vjp
def _joined(parts):
    return native.choose(_join_natively, lambda *parts: jnp.concatenate(parts), *parts)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _parted(counts, x):
    def plainly(x):
        return jnp.split(x, np.cumsum(counts)[:-1])

    return tuple(native.choose(functools.partial(_part_natively, counts), plainly, x))


_joined.defvjp(
    lambda parts: (_joined(parts), tuple(len(part) for part in parts)),
    lambda counts, gradient: (_parted(counts, gradient),),
)
_parted.defvjp(lambda counts, x: (_parted(counts, x), None), lambda counts, _, gradients: (_joined(tuple(gradients)),))


def _join_natively(*parts):
    count, more = sum(map(len, parts)), parts[0].shape[1:]
    shape = jax.ShapeDtypeStruct((count, math.prod(more)), parts[0].dtype)
    return _join(count, *map(_matrix, parts), results=[shape])[0].reshape(count, *more)


def _part_natively(counts, x):
    more = x.shape[1:]
    shapes = [jax.ShapeDtypeStruct((count, math.prod(more)), x.dtype) for count in counts]
    return [part.reshape(len(part), *more) for part in _part(len(x), _matrix(x), results=shapes)]


def _matrix(x):
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _join_rows(first, last, frame):
    whole, place, begin = result(frame, 0, "f2"), 0, 0
    while begin < last:
        part = argument(frame, place, "f2")
        _copy(whole, part, max(first, begin), min(last, begin + len(part)), 0, begin)
        place, begin = place + 1, begin + len(part)


def _part_rows(first, last, frame):
    whole, place, begin = argument(frame, 0, "f2"), 0, 0
    while begin < last:
        part = result(frame, place, "f2")
        _copy(part, whole, max(first, begin), min(last, begin + len(part)), begin, 0)
        place, begin = place + 1, begin + len(part)


@compiled
def _copy(out, x, first, last, out_begin, begin):
    """Rows from `first` to before `last` of both, counted in the whole."""
    width = x.shape[1]
    copy(out, (first - out_begin) * width, x, (first - begin) * width, (last - first) * width)


_join, _part = Operation(_join_rows), Operation(_part_rows)
