"""Similarities of a query and a candidate, pair by pair, and of all queries with all candidates.

Queries and candidates are rows of embeddings `[..., H]`. A distance counts negatively, so that a higher similarity is always the
better one. Gradients are finite everywhere; that of a distance of 0 is 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

AT_ONCE = 2**24  # differences of a query and a candidate, by column, that are in memory together


class Similarity(NamedTuple):
    """A similarity in both forms.

    Attributes:
      pairs: `(queries [..., H], candidates [..., H])` to `[...]`, which broadcasts.
      all_pairs: `(queries [n, H], candidates [m, H])` to `[n, m]`.
    """

    pairs: Callable[[jax.Array, jax.Array], jax.Array]
    all_pairs: Callable[[jax.Array, jax.Array], jax.Array]


def _dot(queries: jax.Array, candidates: jax.Array) -> jax.Array:
    return jnp.sum(queries * candidates, axis=-1)


def _dot_all(queries: jax.Array, candidates: jax.Array) -> jax.Array:
    return queries @ candidates.T


def _l1(queries: jax.Array, candidates: jax.Array) -> jax.Array:
    return -jnp.sum(jnp.abs(queries - candidates), axis=-1)


def _l2(queries: jax.Array, candidates: jax.Array) -> jax.Array:
    return -_root(jnp.sum(jnp.square(queries - candidates), axis=-1))


def _l2_all(queries: jax.Array, candidates: jax.Array) -> jax.Array:
    """Return distances by `|q - c|^2 = |q|^2 - 2 q.c + |c|^2`; rounding is relative to the norms, not to the distance."""
    squares = [jnp.sum(jnp.square(rows), axis=-1) for rows in (queries, candidates)]
    return -_root(squares[0][:, None] + squares[1][None, :] - 2 * (queries @ candidates.T))


def _modulus(queries: jax.Array, candidates: jax.Array) -> jax.Array:
    real, imaginary = jnp.split(queries - candidates, 2, axis=-1)
    return -jnp.sum(_root(jnp.square(real) + jnp.square(imaginary)), axis=-1)


def _root(squares: jax.Array) -> jax.Array:
    """Return square roots, 0 of what is not above 0, where the gradient is 0 too."""
    above = squares > 0
    return jnp.where(above, jnp.sqrt(jnp.where(above, squares, 1)), 0)


def in_blocks(pairs: Callable[[jax.Array, jax.Array], jax.Array]) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Return the form for all pairs, some queries at a time: at most `AT_ONCE` differences, or those of one query."""

    def all_pairs(queries: jax.Array, candidates: jax.Array) -> jax.Array:
        rows = max(1, AT_ONCE // max(1, candidates.size))

        @jax.checkpoint  # the backward pass computes the differences again
        def of_one(query: jax.Array) -> jax.Array:
            return pairs(query[None, :], candidates)

        return jax.lax.map(of_one, queries, batch_size=min(rows, max(1, len(queries))))

    return all_pairs


DOT = Similarity(_dot, _dot_all)
L1 = Similarity(_l1, in_blocks(_l1))
L2 = Similarity(_l2, _l2_all)
MODULUS = Similarity(_modulus, in_blocks(_modulus))  # of complex columns, real parts before imaginary ones
