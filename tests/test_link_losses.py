"""Losses of links against NumPy in float64; padding, weights and negatives that do not count."""

import jax
import numpy as np
import pytest

from hetjax.tasks.links import losses

N, K = 6, 4


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def softmax_loss(p, n):
    return np.log(np.exp(p) + np.exp(n).sum()) - p


def adversarial(p, n, gap=2.0, temperature=0.7):
    shares = np.exp(temperature * n) / max(np.exp(temperature * n).sum(), 1e-300)
    return -log_sigmoid(gap + p) - (shares * log_sigmoid(-n - gap)).sum()


def mean(values):
    return values.mean() if len(values) else 0.0


LITERAL = {  # of one example: its score, and those of the negatives that count
    "binary_cross_entropy": ({}, lambda p, n: -log_sigmoid(p) - mean(log_sigmoid(-n))),
    "softmax_cross_entropy": ({}, softmax_loss),
    "bpr": ({}, lambda p, n: -mean(log_sigmoid(p - n))),
    "contrastive": ({"temperature": 0.3}, lambda p, n: softmax_loss(p / 0.3, n / 0.3)),
    "margin": ({"gap": 0.5}, lambda p, n: mean(np.maximum(0, 0.5 - p + n))),
    "self_adversarial": ({"gap": 2.0, "temperature": 0.7}, adversarial),
}


@pytest.mark.parametrize("name", LITERAL)
def test_losses_equal_numpy(name):
    options, literal = LITERAL[name]
    rng = np.random.default_rng(0)
    positive, negative = rng.standard_normal(N).astype(np.float32), rng.standard_normal((N, K)).astype(np.float32)
    weights, kept = np.array([1, 2, 0.5, 1, 0, 1], np.float32), rng.random((N, K)) < 0.6
    kept[3] = False  # no negative counts
    loss = getattr(losses, name)
    wide = positive.astype(float), negative.astype(float)
    for mask in (None, kept):
        all_kept = np.ones((N, K), bool) if mask is None else mask
        given = sum(w * literal(p, n[k]) for w, p, n, k in zip(weights, *wide, all_kept))
        np.testing.assert_allclose(loss(positive, negative, weights, mask, **options), given, rtol=1e-5)
    positive[4], negative[4], negative[~kept] = np.nan, np.inf, np.nan
    value, gradients = jax.value_and_grad(lambda p, n: loss(p, n, weights, kept, **options), (0, 1))(positive, negative)
    np.testing.assert_allclose(value, given, rtol=1e-5)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert gradients[0][4] == 0 and not gradients[1][~kept].any()


@pytest.mark.parametrize("name", LITERAL)
def test_large_scores_do_not_overflow(name):
    loss = getattr(losses, name)
    positive, negative = np.array([-1e4, 1e4], np.float32), np.array([[1e4], [-1e4]], np.float32)
    value, gradient = jax.value_and_grad(loss)(positive, negative, np.ones(2, np.float32))
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_no_gradient_flows_through_adversarial_weights():
    negative = np.array([[0.3, -1.0, 2.0]], np.float32)
    one = np.ones(1, np.float32)
    gradient = jax.grad(losses.self_adversarial, 1)(one, negative, one, gap=2.0, temperature=0.7)
    shares = np.exp(0.7 * negative) / np.exp(0.7 * negative).sum()
    np.testing.assert_allclose(gradient, shares / (1 + np.exp(-(negative + 2))), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_one_against_all(smoothing):
    rng = np.random.default_rng(1)
    scores, targets = rng.standard_normal((N, 5)).astype(np.float32), rng.integers(0, 5, N)
    weights = np.array([1, 1, 0, 2, 1, 1], np.float32)
    aims = (1 - smoothing) * np.eye(5)[targets] + smoothing / 5
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    given = -(weights * (aims * logs).sum(axis=1)).sum()
    np.testing.assert_allclose(losses.one_against_all(scores, targets, weights, smoothing), given, rtol=1e-5)
    scores[2] = np.nan
    gradient = jax.grad(losses.one_against_all)(scores, targets, weights, smoothing)
    assert np.isfinite(gradient).all()


def test_subsampling_weights():
    np.testing.assert_allclose(losses.subsampling_weights(np.array([0, 1, 4])), [1, 1, 0.5])
