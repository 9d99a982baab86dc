"""Reciprocal relations, and penalties on the embeddings of triples."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np


def reciprocal(
    heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return triples with their reciprocals after them: `(t, r + count, h)` for every `(h, r, t)`.

    A model then predicts tails alone, the head of `(?, r, t)` as the tail of `(t, r + count, ?)`: Lacroix et al., ICML 2018;
    Kazemi and Poole, NeurIPS 2018.

    Args:
      heads, relations, tails: integers `[n]`.
      count: the number of relations.

    Returns:
      Heads, relations and tails `[2 n]`, of the types that were given.
    """
    shifted = (relations + count).astype(relations.dtype)
    return np.concatenate([heads, tails]), np.concatenate([relations, shifted]), np.concatenate([tails, heads])


def moduli(rows: jax.Array) -> jax.Array:
    """Return the moduli `[..., H / 2]` of complex numbers `[..., H]`, real parts before imaginary ones; the gradient at 0 is 0."""
    real, imaginary = jnp.split(rows, 2, axis=-1)
    squares = jnp.square(real) + jnp.square(imaginary)
    above = squares > 0
    return jnp.where(above, jnp.sqrt(jnp.where(above, squares, 1)), 0)


def n3(factors: Sequence[jax.Array], weights: jax.Array) -> jax.Array:
    """Return the weighted nuclear 3-norm of triples, a scalar: a third of the sum of the cubes of all moduli.

    Lacroix et al., ICML 2018: rows that occur often are penalised often. Of complex numbers give `moduli`.

    Args:
      factors: rows `[n, ...]` of the heads, relations and tails of the triples.
      weights: `[n]`; those of padding are 0, and its rows are not looked at.
    """
    return _powers(factors, weights, 3) / 3


def l2(factors: Sequence[jax.Array], weights: jax.Array) -> jax.Array:
    """Return half of the weighted sum of the squares of all elements, a scalar; arguments as of `n3`."""
    return _powers(factors, weights, 2) / 2


def _powers(factors: Sequence[jax.Array], weights: jax.Array, power: int) -> jax.Array:
    used = weights > 0
    total = jnp.zeros(())
    for rows in factors:
        rows = jnp.where(used[:, None], rows.reshape(len(rows), -1), 0)
        total += jnp.sum(jnp.where(used, weights, 0) * jnp.sum(jnp.abs(rows) ** power, axis=1))
    return total
