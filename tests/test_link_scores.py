"""Scores of links against loops written from the papers' equations, in both forms and for both ends; gradients; penalties."""

import cmath
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.system.errors import InputError
from hetjax.tasks.links import similarity
from hetjax.tasks.links.decoders import MLP, DenseBiDecoder, Relations
from hetjax.tasks.links.penalties import l2, moduli, n3, reciprocal
from hetjax.tasks.links.scores import SCORES, score_of

WIDTH, N, M = 6, 5, 7


def complexes(row):
    half = len(row) // 2
    return [complex(row[i], row[half + i]) for i in range(half)]


LITERAL = {
    "dot": lambda h, r, t: sum(a * b for a, b in zip(h, t)),
    "distmult": lambda h, r, t: sum(a * b * c for a, b, c in zip(h, r, t)),
    "complex": lambda h, r, t: sum(
        (a * b * c.conjugate()).real for a, b, c in zip(complexes(h), complexes(r), complexes(t))
    ),
    "rotate": lambda h, r, t: (
        -sum(abs(a * cmath.exp(1j * float(b)) - c) for a, b, c in zip(complexes(h), r, complexes(t)))
    ),
    "transe_l1": lambda h, r, t: -sum(abs(a + b - c) for a, b, c in zip(h, r, t)),
    "transe_l2": lambda h, r, t: -math.sqrt(sum((a + b - c) ** 2 for a, b, c in zip(h, r, t))),
    "bilinear": lambda h, r, t: sum(h[i] * r[i * WIDTH + j] * t[j] for i in range(WIDTH) for j in range(WIDTH)),
}


def rows(count, width, seed):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def test_every_score_has_a_loop():
    assert LITERAL.keys() == SCORES.keys()


@pytest.mark.parametrize("name", SCORES)
def test_scores_equal_the_equations(name):
    score = score_of(name, WIDTH)
    heads, tails, candidates = rows(N, WIDTH, 0), rows(N, WIDTH, 1), rows(M, WIDTH, 2)
    relations, literal = rows(N, score.width(WIDTH), 3), LITERAL[name]
    close = {"rtol": 1e-4, "atol": 1e-5}
    given = [literal(*triple) for triple in zip(heads, relations, tails)]
    np.testing.assert_allclose(score.triples(heads, relations, tails), given, **close)
    given = [[literal(h, r, c) for c in candidates] for h, r in zip(heads, relations)]
    np.testing.assert_allclose(score.all_tails(heads, relations, candidates), given, **close)
    many = score.triples(heads[:, None], relations[:, None], candidates[None])  # broadcast, as of negatives
    np.testing.assert_allclose(many, given, **close)
    given = [[literal(c, r, t) for c in candidates] for t, r in zip(tails, relations)]
    np.testing.assert_allclose(score.all_heads(tails, relations, candidates), given, **close)


@pytest.mark.parametrize("name", SCORES)
def test_gradients_are_finite_even_of_zeros_and_of_equal_ends(name):
    score = score_of(name, WIDTH)

    def total(heads, relations, tails):
        pairs = score.triples(heads, relations, tails).sum()
        return pairs + score.all_tails(heads, relations, tails).sum() + score.all_heads(tails, relations, heads).sum()

    for heads in (jnp.zeros((N, WIDTH)), jnp.asarray(rows(N, WIDTH, 0))):
        relations = jnp.zeros((N, score.width(WIDTH)))
        for gradient in jax.grad(total, argnums=(0, 1, 2))(heads, relations, heads):
            assert np.isfinite(gradient).all()


@pytest.mark.parametrize("form", [similarity.L1, similarity.MODULUS])
def test_blocks_change_nothing(form, monkeypatch):
    queries, candidates = rows(11, WIDTH, 0), rows(M, WIDTH, 1)

    def both():
        total = lambda q, c: (form.all_pairs(q, c) ** 2).sum()  # noqa: E731
        return form.all_pairs(queries, candidates), *jax.grad(total, argnums=(0, 1))(queries, candidates)

    whole = both()
    monkeypatch.setattr(similarity, "AT_ONCE", 3 * M * WIDTH)
    for a, b in zip(whole, both()):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert form.all_pairs(queries[:0], candidates).shape == (0, M)


def test_names_and_widths_that_do_not_go():
    with pytest.raises(InputError, match="score 'complx' is not known; the nearest known one is complex"):
        score_of("complx", 4)
    with pytest.raises(InputError, match="score 'rotate': embeddings have 5 columns, and complex numbers"):
        score_of("rotate", 5)


@pytest.mark.parametrize("decoder", [*SCORES, "mlp"])
def test_decoders_score_alike_in_each_form(decoder):
    module = MLP(3, WIDTH, 8) if decoder == "mlp" else Relations(3, WIDTH, decoder)
    heads, candidates = rows(N, WIDTH, 0), rows(M, WIDTH, 1)
    numbers = np.array([0, 1, 2, 1, 0])
    parameters = module.init(jax.random.key(0), heads, numbers, heads)
    parameters = jax.tree.map(lambda leaf: leaf + 0.1, parameters)
    tails = module.apply(parameters, heads, numbers, candidates, method="all_tails")
    others = module.apply(parameters, heads, numbers, candidates, method="all_heads")
    for j in range(M):
        column = np.broadcast_to(candidates[j], heads.shape)
        pairs = [module.apply(parameters, *ends) for ends in ((heads, numbers, column), (column, numbers, heads))]
        np.testing.assert_allclose(tails[:, j], pairs[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(others[:, j], pairs[1], rtol=1e-4, atol=1e-5)


def test_the_perceptron_is_one_of_the_three_together():
    module, (h, t) = MLP(2, WIDTH, 4), (rows(N, WIDTH, 0), rows(N, WIDTH, 1))
    own = module.init(jax.random.key(0), h, np.zeros(N, int), t)["params"]
    own = own | {"relations": rows(2, 4, 5), "bias": jnp.float32(0.3)}
    given = module.apply({"params": own}, h, np.ones(N, int), t)
    joined = np.concatenate([h, np.tile(own["relations"][1], (N, 1)), t], axis=1)
    matrix = np.concatenate([own["head"], np.eye(4), own["tail"]])
    np.testing.assert_allclose(given, (np.maximum(joined @ matrix, 0) @ own["weights"])[:, 0] + 0.3, rtol=1e-4)


def test_the_bilinear_decoder_of_classes():
    heads, tails, module = rows(N, 3, 0), rows(N, 4, 1), DenseBiDecoder(classes=5, bases=2)
    own = module.init(jax.random.key(0), heads, tails)
    matrices, shares = own["params"]["matrices"], own["params"]["shares"]
    given = module.apply(own, heads, tails)
    for i in range(N):
        for c in range(5):
            q = sum(shares[b, c] * matrices[b] for b in range(2))
            np.testing.assert_allclose(given[i, c], heads[i] @ q @ tails[i], rtol=1e-4, atol=1e-6)


def test_penalties():
    factors, weights = [rows(4, WIDTH, 0), rows(4, WIDTH, 1)], np.array([1, 0.5, 0, 2], np.float32)
    cubes = sum(w * abs(z) ** 3 for rows_ in factors for w, row in zip(weights, rows_) for z in complexes(row))
    np.testing.assert_allclose(n3([moduli(one) for one in factors], weights), cubes / 3, rtol=1e-5)
    squares = sum(w * (row**2).sum() for rows_ in factors for w, row in zip(weights, rows_))
    np.testing.assert_allclose(l2(factors, weights), squares / 2, rtol=1e-5)
    poisoned = [jnp.asarray(one).at[2].set(jnp.nan) for one in factors]
    np.testing.assert_allclose(l2(poisoned, weights), squares / 2, rtol=1e-5)
    assert np.isfinite(jax.grad(lambda x: l2([x], weights) + n3([x], weights))(poisoned[0])).all()
    assert np.isfinite(jax.grad(lambda x: n3([moduli(x)], weights))(jnp.zeros((4, WIDTH)))).all()


def test_reciprocal_relations():
    h, r, t = reciprocal(np.array([0, 1]), np.array([2, 0], np.int32), np.array([5, 6]), 3)
    assert list(zip(h, r, t)) == [(0, 2, 5), (1, 0, 6), (5, 5, 0), (6, 3, 1)] and r.dtype == np.int32
