"""Learnable features of featureless node types: one row per node, updated row by row with Adam."""

import functools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels import native
from hetjax.kernels import table_rows as kernels
from hetjax.kernels.sparse import SparseRows
from hetjax.system.arrays import Array
from hetjax.system.eager import eagerly

PART = 65_536  # rows


class Table(NamedTuple):
    """The learnable features of one node type, with Adam's state of every row.

    Attributes:
      rows: float32 `[nodes, width]`.
      mu, nu: float32 `[nodes, width]`, Adam's first and second moments.
      count: int32 `[nodes]`, how often each row was updated.
    """

    rows: Array
    mu: Array
    nu: Array
    count: Array  # type: ignore[assignment]  # a tuple's method of that name is not called


class RowAdam(NamedTuple):
    """Adam (Kingma and Ba 2015) on the rows that a batch touched, and on no others.

    This is not dense Adam: a row that a batch does not touch keeps its moments, which dense Adam would decay, and corrects
    its bias by its own count of updates, by the factors that `corrections` tabulates. Where every step touches every row
    the two are the same.

    Attributes:
      learning_rate: a number, or a function of the training step as optax's schedules are.
      b1, b2, epsilon: as the paper's; the decays at least 0 and less than 1.
      weight_decay: decoupled (Loshchilov and Hutter 2019), of the rows that a batch touched.
    """

    learning_rate: float | jax.Array | Callable[[jax.Array], jax.Array]
    b1: float = 0.9
    b2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def at(self, step: jax.Array) -> "RowAdam":
        """Return the same, with the learning rate of a training step."""
        return self._replace(learning_rate=self.learning_rate(step)) if callable(self.learning_rate) else self

    def scalars(self) -> list[Any]:
        """Return the input of `kernels.scalars`, for a learning rate that is a number."""
        return [self.learning_rate, self.weight_decay, self.epsilon, self.b1, 1 - self.b1, self.b2, 1 - self.b2]


class Shape(NamedTuple):
    """The shape and scale that a table is created from.

    Attributes:
      nodes, width: rows and columns.
      scale: standard deviation of the entries.
    """

    nodes: int
    width: int
    scale: float

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with both moments and its count."""
        return 12 * self.width + 4


def create(key: jax.Array, shape: Shape) -> Table:
    """Return a table of normal entries; its moments and counts are zero."""
    parts = [fresh(key, shape, number) for number in range(parts_of(shape))]
    return Table(*(jnp.concatenate(leaves) for leaves in zip(*parts))) if len(parts) > 1 else parts[0]


def in_parts(key: jax.Array, node_type: str, shape: Shape) -> Iterator[Table]:
    """Yield the parts of a type's new table, one after the other. Not to be traced."""
    type_key = eagerly(jax.random.fold_in, key, _name_of(node_type))
    for number in range(parts_of(shape)):
        yield eagerly(functools.partial(fresh, shape=shape, number=number), type_key)


def drawn(key: jax.Array, node_type: str, shape: Shape) -> Table:
    """Return a type's new table, in host memory. Not to be traced."""
    return Table(*map(np.concatenate, zip(*in_parts(key, node_type, shape))))


def parts_of(shape: Shape) -> int:
    """Return the number of parts in which a table is created, so that one larger than memory can be written as it is made."""
    return max(1, -(-shape.nodes // PART))


def fresh(key: jax.Array, shape: Shape, number: int) -> Table:
    """Return part `number` of a new table: `PART` rows, or what is left of them; the first part is drawn from the table's own key."""
    key = jax.random.fold_in(key, number) if number else key
    return _normal(key, (min(PART, shape.nodes - number * PART), shape.width), shape.scale)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _normal(key: jax.Array, size: tuple[int, int], scale: float) -> Table:
    rows = jax.random.normal(key, size, jnp.float32) * scale
    return Table(rows, jnp.zeros_like(rows), jnp.zeros_like(rows), jnp.zeros(size[0], jnp.int32))


def read(matrix: Array, ids: "Array | None") -> jax.Array:
    """Return rows of a feature matrix: all of them for `ids=None`, and zeros for an id out of range."""
    if isinstance(matrix, SparseRows):
        return matrix.rows_at(ids)
    matrix = jnp.asarray(matrix)
    if ids is None:
        return matrix
    if not len(matrix):
        return jnp.zeros((*ids.shape, *matrix.shape[1:]), matrix.dtype)
    known = ids < len(matrix)  # asked of a row, where jax's own filling asks it of every number
    rows = matrix.at[ids].get(mode="clip")
    return jnp.where(known.reshape(known.shape + (1,) * (rows.ndim - known.ndim)), rows, 0)


def rows_at(matrix: Array, ids: "Array | None") -> jax.Array:
    """Return `read` of ids none of which is negative."""
    if ids is None or not len(ids) or not len(matrix) or isinstance(matrix, SparseRows):
        return read(matrix, ids)
    return _rows_at(jnp.asarray(matrix), jnp.asarray(ids))


@jax.custom_vjp
def _rows_at(matrix, ids):
    return native.choose(_rows_natively, read, matrix, ids)


def _rows_at_backward(residuals, gradient):
    like, ids = residuals
    return jnp.zeros((len(like), *gradient.shape[1:]), like.dtype).at[ids].add(gradient, mode="drop"), None


_rows_at.defvjp(
    lambda matrix, ids: (_rows_at(matrix, ids), (jnp.zeros((len(matrix), 0), matrix.dtype), ids)), _rows_at_backward
)


def write(matrix: Array, ids: Array, rows: Array) -> jax.Array:
    """Return the matrix with these rows in place of its own at distinct `ids`; ids out of range are ignored."""
    if not len(ids):
        return jnp.asarray(matrix)
    return native.choose(_write_natively, _write_plainly, matrix, ids, rows.astype(matrix.dtype))


def _rows_natively(matrix, ids):
    flat = _flat(matrix)
    shape = jax.ShapeDtypeStruct((len(ids), flat.shape[1]), matrix.dtype)
    return kernels.read(len(ids), flat, ids, results=[shape])[0].reshape(len(ids), *matrix.shape[1:])


def _write_natively(matrix, ids, rows):
    flat = _flat(matrix)
    shape = jax.ShapeDtypeStruct(flat.shape, matrix.dtype)
    return kernels.write(len(ids), flat, ids, _flat(rows), results=[shape], aliases={0: 0})[0].reshape(matrix.shape)


def _flat(rows: jax.Array) -> jax.Array:
    """Return `[rows, values]`, of rows of any shape."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _write_plainly(matrix, ids, rows):
    return matrix.at[ids].set(rows, mode="drop", unique_indices=True)


def take(table: Table, ids: Array) -> Table:
    """Return the rows `ids` of a table, as `rows_at` does."""
    return Table(*(rows_at(leaf, ids) for leaf in table))


def put(table: Table, ids: Array, rows: Table) -> Table:
    """Return the table with these rows in place of its own, the inverse of `take`, as `write` does."""
    return Table(*(write(old, ids, new) for old, new in zip(table, rows)))


def update(table: Table, ids: "Array | None", gradient: jax.Array, adam: RowAdam) -> Table:
    """Return the table after one step of `adam` on the rows `ids`.

    Args:
      ids: int32 `[n]`, distinct, none negative, in any order; ids out of range are ignored, and None means every row.
      gradient: float32 `[n, width]`.
      adam: whose learning rate is a number.
    """
    expected = (len(table.rows) if ids is None else len(ids), table.rows.shape[1])
    if gradient.shape != expected:
        raise ValueError(f"a gradient {gradient.shape}, and it should be {expected}")
    if not len(gradient):
        return table
    dtype = table.rows.dtype
    stacked = jnp.stack([jnp.asarray(number, dtype) for number in adam.scalars()])
    correct = [jnp.asarray(corrections(decay, dtype)) for decay in (adam.b1, adam.b2)]
    row_ids = jnp.zeros(0, jnp.int32) if ids is None else ids
    return native.choose(_update_natively, _update_plainly, table, row_ids, gradient.astype(dtype), stacked, *correct)


@functools.cache
def corrections(decay: float, dtype: np.dtype) -> np.ndarray:
    """Return the factors of Adam's bias correction, `1 / (1 - decay**count)`, for counts of updates from 1 on, `[counts]`.

    It ends where that is 1 to the last bit, as it is for all larger counts: 17,320 values for 0.999 in float32, and one for 0.
    Computed as `-1 / expm1(count * log(decay))`, because `1 - decay**count` has four right digits in float32 at first.

    Raises:
      ValueError: a decay below 0, or not below 1.
    """
    if not 0 <= decay < 1:
        raise ValueError(f"a decay of {decay}, and it should be at least 0 and less than 1")
    logarithm = math.log(decay) if decay else -math.inf
    counts = np.arange(1, 2 + math.log(np.finfo(dtype).eps / 4) / logarithm)
    factors = (-1 / np.expm1(counts * logarithm)).astype(dtype)
    factors.flags.writeable = False  # whoever asks again is given the same
    return factors


def _update_natively(table, ids, gradient, *numbers):
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in table]
    arguments, aliases = (*table, ids, gradient, *numbers), {place: place for place in range(len(table))}
    return Table(*kernels.update(len(gradient), *arguments, results=shapes, aliases=aliases))


def _update_plainly(table, ids, gradient, numbers, correct_first, correct_second):
    learning_rate, weight_decay, epsilon, b1, rest_first, b2, rest_second = numbers
    if not len(ids):  # named as well, so that XLA fuses alike, and a row's bits do not depend on where it lives
        ids = jax.lax.optimization_barrier(jnp.arange(len(gradient), dtype=jnp.int32))
    rows, mu, nu, count = take(table, ids)
    mu = b1 * mu + rest_first * gradient
    nu = b2 * nu + rest_second * jnp.square(gradient)
    mean, square = (
        moment * correct.at[count].get(mode="clip")[:, None]
        for moment, correct in ((mu, correct_first), (nu, correct_second))
    )
    change = mean / (jnp.sqrt(square) + epsilon) + weight_decay * rows
    return put(table, ids, Table(rows - learning_rate * change, mu, nu, count + 1))


def create_all(key: jax.Array, shapes: Mapping[str, Shape]) -> dict[str, Table]:
    """Return one table per node type."""
    return {name: create(key_of(key, name), shape) for name, shape in shapes.items()}


def key_of(key: jax.Array, node_type: str) -> jax.Array:
    """Return a key that depends on the type's own name, so that its rows do not depend on the other types."""
    return jax.random.fold_in(key, _name_of(node_type))


def _name_of(node_type: str) -> np.uint32:
    return np.uint32(zlib.crc32(node_type.encode()))
