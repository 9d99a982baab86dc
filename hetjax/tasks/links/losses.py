"""Losses of links against negatives, each a weighted sum over the examples.

Arguments that they share:

- `positive`: scores `[n]` of the links of the graph;
- `negative`: scores `[n, k]` of the negatives of each;
- `weights`: `[n]`, at least 0: those of the edges, 0 of padding, whose scores are not looked at;
- `kept`: bool `[n, k]`, False of negatives that do not count, such as links of the graph among shared ones. None: all count.

An example's negatives count together as much as its link: a sum over them is divided by how many count. An example without any
negative that counts has the loss of its link alone. The sum of the weights is what a task divides by.
"""

import jax
import jax.numpy as jnp


def binary_cross_entropy(
    positive: jax.Array, negative: jax.Array, weights: jax.Array, kept: jax.Array | None = None
) -> jax.Array:
    """Return the sum of `-log s(p) - mean_j log s(-n_j)`, `s` being the logistic function (Trouillon et al., ICML 2016, section 4)."""
    positive, negative, kept = _inputs(positive, negative, weights, kept)
    return _total(jax.nn.softplus(-positive) + _mean(jax.nn.softplus(negative), kept), weights)


def softmax_cross_entropy(
    positive: jax.Array, negative: jax.Array, weights: jax.Array, kept: jax.Array | None = None
) -> jax.Array:
    """Return the sum of `-log(exp p / (exp p + sum_j exp n_j))` (the multiclass loss of Lacroix et al., ICML 2018, over sampled negatives)."""
    positive, negative, kept = _inputs(positive, negative, weights, kept)
    logits = jnp.concatenate([positive[:, None], jnp.where(kept, negative, -jnp.inf)], axis=1)
    return _total(jax.nn.logsumexp(logits, axis=1) - positive, weights)


def one_against_all(scores: jax.Array, targets: jax.Array, weights: jax.Array, smoothing: float = 0.0) -> jax.Array:
    """Return the sum of `-log softmax(scores)[target]` over all candidates (Lacroix et al., ICML 2018).

    Args:
      scores: `[n, m]`.
      targets: integers `[n]`, each example's own candidate.
      weights: `[n]`, as of the other losses.
      smoothing: the share of a target's probability that is spread over all candidates.
    """
    scores = jnp.where((weights > 0)[:, None], scores, 0)
    own = jnp.take_along_axis(scores, targets[:, None], axis=1)[:, 0]
    aim = (1 - smoothing) * own + smoothing * scores.mean(axis=1) if smoothing else own
    return _total(jax.nn.logsumexp(scores, axis=1) - aim, weights)


def bpr(positive: jax.Array, negative: jax.Array, weights: jax.Array, kept: jax.Array | None = None) -> jax.Array:
    """Return the sum of `-mean_j log s(p - n_j)`: Bayesian personalised ranking (Rendle et al., UAI 2009, section 4.1)."""
    positive, negative, kept = _inputs(positive, negative, weights, kept)
    return _total(_mean(jax.nn.softplus(negative - positive[:, None]), kept), weights)


def contrastive(
    positive: jax.Array,
    negative: jax.Array,
    weights: jax.Array,
    kept: jax.Array | None = None,
    temperature: float = 1.0,
) -> jax.Array:
    """Return `softmax_cross_entropy` of scores divided by a temperature: InfoNCE (van den Oord et al., 2018, equation 4)."""
    return softmax_cross_entropy(positive / temperature, negative / temperature, weights, kept)


def margin(
    positive: jax.Array, negative: jax.Array, weights: jax.Array, kept: jax.Array | None = None, gap: float = 1.0
) -> jax.Array:
    """Return the sum of `mean_j max(0, gap - p + n_j)` (Bordes et al., NeurIPS 2013, equation 1)."""
    positive, negative, kept = _inputs(positive, negative, weights, kept)
    return _total(_mean(jax.nn.relu(gap - positive[:, None] + negative), kept), weights)


def self_adversarial(
    positive: jax.Array,
    negative: jax.Array,
    weights: jax.Array,
    kept: jax.Array | None = None,
    gap: float = 12.0,
    temperature: float = 1.0,
) -> jax.Array:
    """Return the sum of `-log s(gap + p) - sum_j w_j log s(-n_j - gap)`, scores being negative distances.

    Sun et al., ICLR 2019, equations 5 and 6: `w_j` is the softmax over `temperature * n_j`, through which no gradient flows. Here `gap`
    is their gamma and `temperature` their alpha; with 0 all negatives weigh the same. Their code halves the sum, and their paper does not.
    """
    positive, negative, kept = _inputs(positive, negative, weights, kept)
    some = kept.any(axis=1, keepdims=True)
    shares = jax.nn.softmax(jnp.where(kept | ~some, temperature * negative, -jnp.inf), axis=1)
    shares = jax.lax.stop_gradient(jnp.where(kept, shares, 0))
    losses = jax.nn.softplus(-positive - gap) + jnp.sum(shares * jax.nn.softplus(negative + gap), axis=1)
    return _total(losses, weights)


def subsampling_weights(counts: jax.Array) -> jax.Array:
    """Return `1 / sqrt(count)` of numbers of triples like each, which RotatE's code weights examples by (its option `uni_weight` unset)."""
    return 1 / jnp.sqrt(jnp.maximum(counts, 1))


def _inputs(positive, negative, weights, kept) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return scores with zeros in place of padding and of negatives that do not count, so that neither reaches a gradient."""
    used = (weights > 0)[:, None]
    kept = jnp.broadcast_to(used, negative.shape) if kept is None else kept & used
    return jnp.where(used[:, 0], positive, 0), jnp.where(kept, negative, 0), kept


def _mean(losses: jax.Array, kept: jax.Array) -> jax.Array:
    return jnp.sum(jnp.where(kept, losses, 0), axis=1) / jnp.maximum(kept.sum(axis=1), 1)


def _total(losses: jax.Array, weights: jax.Array) -> jax.Array:
    used = weights > 0
    return jnp.sum(jnp.where(used, weights * losses, 0))
