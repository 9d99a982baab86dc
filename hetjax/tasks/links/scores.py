"""Scores of triples (head, relation, tail) as pure functions: the higher, the more likely the link.

Every score is a similarity of a query and a candidate. The query is made of the relation and of the end that is known, so that many
candidates take one matrix product, whichever end they stand for. Embeddings of nodes are `[..., H]`, float32; that of a relation is
`[..., W]`, with `W` by `width(H)`. Complex numbers are `H / 2` real parts, then `H / 2` imaginary parts.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hetjax.system.errors import InputError, nearest
from hetjax.tasks.links.similarity import DOT, L1, L2, MODULUS, Similarity

Query = Callable[[jax.Array, jax.Array], jax.Array]


class Score(NamedTuple):
    """A score of triples.

    Attributes:
      of_tails: `(heads [..., H], relations [..., W])` to the queries `[..., H]` of candidates that are tails.
      of_heads: `(tails [..., H], relations [..., W])` to the queries `[..., H]` of candidates that are heads.
      similarity: of a query and a candidate.
      width: `H` to `W`.
      even: whether `H` has to be even, as that of complex numbers.
    """

    of_tails: Query
    of_heads: Query
    similarity: Similarity
    width: Callable[[int], int]
    even: bool = False

    def triples(self, heads: jax.Array, relations: jax.Array, tails: jax.Array) -> jax.Array:
        """Return the score of every triple: heads `[..., H]`, relations `[..., W]` and tails `[..., H]`, which broadcast, to `[...]`."""
        return self.similarity.pairs(self.of_tails(heads, relations), tails)

    def all_tails(self, heads: jax.Array, relations: jax.Array, candidates: jax.Array) -> jax.Array:
        """Return scores `[n, m]` of heads `[n, H]` and relations `[n, W]` with candidates `[m, H]` as tails."""
        return self.similarity.all_pairs(self.of_tails(heads, relations), candidates)

    def all_heads(self, tails: jax.Array, relations: jax.Array, candidates: jax.Array) -> jax.Array:
        """Return scores `[n, m]` of tails `[n, H]` and relations `[n, W]` with candidates `[m, H]` as heads."""
        return self.similarity.all_pairs(self.of_heads(tails, relations), candidates)


def _known_end(end: jax.Array, relations: jax.Array) -> jax.Array:
    return end


def _product(end: jax.Array, relations: jax.Array) -> jax.Array:
    return end * relations


def _complex_product(end: jax.Array, relations: jax.Array) -> jax.Array:
    (a, b), (c, d) = jnp.split(end, 2, axis=-1), jnp.split(relations, 2, axis=-1)
    return jnp.concatenate([a * c - b * d, a * d + b * c], axis=-1)


def _conjugate(relations: jax.Array) -> jax.Array:
    real, imaginary = jnp.split(relations, 2, axis=-1)
    return jnp.concatenate([real, -imaginary], axis=-1)


def _complex_product_back(end: jax.Array, relations: jax.Array) -> jax.Array:
    return _complex_product(end, _conjugate(relations))


def _rotated(end: jax.Array, phases: jax.Array) -> jax.Array:
    return _complex_product(end, jnp.concatenate([jnp.cos(phases), jnp.sin(phases)], axis=-1))


def _rotated_back(end: jax.Array, phases: jax.Array) -> jax.Array:
    return _rotated(end, -phases)


def _sum(end: jax.Array, relations: jax.Array) -> jax.Array:
    return end + relations


def _difference(end: jax.Array, relations: jax.Array) -> jax.Array:
    return end - relations


def _matrices(relations: jax.Array, width: int) -> jax.Array:
    return relations.reshape(*relations.shape[:-1], width, width)


def _times_matrix(end: jax.Array, relations: jax.Array) -> jax.Array:
    return jnp.einsum("...i,...ij->...j", end, _matrices(relations, end.shape[-1]))


def _matrix_times(end: jax.Array, relations: jax.Array) -> jax.Array:
    return jnp.einsum("...ij,...j->...i", _matrices(relations, end.shape[-1]), end)


dot = Score(_known_end, _known_end, DOT, lambda width: 0)
"""The dot product `<h, t>`, which knows no relation: matrix factorisation (Koren et al., Computer 42(8), 2009, equation 1)."""

distmult = Score(_product, _product, DOT, lambda width: width)
"""DistMult, `<h, r, t>` (Yang et al., ICLR 2015, equation 2 with a diagonal matrix): the same for head and tail exchanged."""

complex_ = Score(_complex_product, _complex_product_back, DOT, lambda width: width, even=True)
"""ComplEx, `Re <h, r, conj(t)>` (Trouillon et al., ICML 2016, equations 9 to 11)."""

rotate = Score(_rotated, _rotated_back, MODULUS, lambda width: width // 2, even=True)
"""RotatE, `-|h o r - t|` with `r = exp(i phase)` (Sun et al., ICLR 2019, equation 3): the sum of the moduli, as in the authors' code.

A relation is `H / 2` phases. The margin of their equation 6 is added by the loss.
"""

transe_l1 = Score(_sum, _difference, L1, lambda width: width)
"""TransE, `-|h + r - t|` in the 1-norm (Bordes et al., NeurIPS 2013, section 2 and equation 1); many candidates in blocks."""

transe_l2 = Score(_sum, _difference, L2, lambda width: width)
"""TransE, `-|h + r - t|` in the 2-norm (as `transe_l1`); many candidates by a matrix product, rounded relative to the norms."""

bilinear = Score(_times_matrix, _matrix_times, DOT, lambda width: width * width)
"""RESCAL, `h R t` with a matrix per relation, stored by rows (Nickel et al., ICML 2011, section 3)."""

SCORES = {
    "dot": dot,
    "distmult": distmult,
    "complex": complex_,
    "rotate": rotate,
    "transe_l1": transe_l1,
    "transe_l2": transe_l2,
    "bilinear": bilinear,
}


def score_of(name: str, width: int) -> Score:
    """Return a score by its name, for embeddings of nodes of so many columns.

    Raises:
      InputError: there is no such score, or it needs an even number of columns.
    """
    if name not in SCORES:
        raise InputError(f"score {name!r} is not known{nearest(name, list(SCORES))}")
    if SCORES[name].even and width % 2:
        raise InputError(f"score {name!r}: embeddings have {width} columns, and complex numbers take an even number")
    return SCORES[name]
