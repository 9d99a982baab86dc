"""Losses of classes, of each example alone; they know no nodes and no edges."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax

from hetjax.system.arrays import Array

LEAST = 1e-12  # of the share that is wrong, whose power has a gradient


def cross_entropy(
    logits: jax.Array, labels: Array, smoothing: float = 0.0, class_weights: Sequence[float] = (), focal: float = 0.0
) -> jax.Array:
    """Return the loss of every example, `[n]`: the softmax's, or the mean over the classes of the sigmoid's where it has several labels.

    Args:
      logits: `[n, classes]`.
      labels: class ids `[n]`, or 0 and 1 `[n, classes]`.
      smoothing: share of every label that is spread evenly (Szegedy et al. 2016).
      class_weights: the factor of an example's loss, by its class; with several labels, the factor of each class's loss.
      focal: the power, `gamma`, of the factor `(1 - p)` of a loss, where `p` is the probability of what is true (Lin et al. 2017,
        equation 4); 0: none. It is for labels that are not smoothed.
    """
    weights = jnp.asarray(class_weights, logits.dtype)
    if labels.ndim == 2:
        losses = optax.sigmoid_binary_cross_entropy(logits, labels * (1 - smoothing) + smoothing / 2)
        losses = _focused(losses, focal)
        return jnp.mean(losses * weights[None] if len(class_weights) else losses, axis=1)
    if smoothing:
        smooth = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype), smoothing)
        losses = optax.softmax_cross_entropy(logits, smooth)
    else:
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    losses = _focused(losses, focal)
    return losses * weights[labels] if len(class_weights) else losses


def _focused(losses: jax.Array, focal: float) -> jax.Array:
    """Return losses `-log p` times `(1 - p) ** focal`."""
    return losses * jnp.maximum(-jnp.expm1(-losses), LEAST) ** focal if focal else losses
