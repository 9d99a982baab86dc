"""Weights of log-probabilities, and a shift of each class, of the lowest cross-entropy."""

from collections.abc import Sequence

import numpy as np
import scipy  # which imports its parts when they are first used

from hetjax.tasks.logistic import loss_of

LEAST = 0.003  # over the number of classes: of a probability that has a logarithm
LOOSE = 0.1  # of the penalty on `a`: that on `b` is 1


def log_probabilities(logits: np.ndarray, several: bool) -> np.ndarray:
    """Return logarithms of the probabilities, none of them below `LEAST`; with several labels, logarithms of their odds. Float64 `[nodes, classes]`."""
    wide = logits.astype(np.float64)
    if several:
        most = np.log(2 / LEAST - 1)
        return np.clip(wide, -most, most)
    share = np.maximum(scipy.special.softmax(wide, axis=1), LEAST / logits.shape[1])
    return np.log(share / share.sum(axis=1, keepdims=True))


def of_nodes(y: np.ndarray, several: bool, class_weights: Sequence[float]) -> np.ndarray | None:
    """Return the factors of each node's and class's loss, `[nodes, classes]`, with mean 1; None: nothing."""
    if not len(class_weights):
        return None
    weights = np.zeros((1, y.shape[1]))
    weights[0, : len(class_weights)] = class_weights
    factors = np.broadcast_to(weights if several else y @ weights.T, y.shape)
    return factors / factors.mean()


def fitted(
    stack: np.ndarray, labels: np.ndarray, shift: bool, class_weights: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Fit `a >= 0`, `[stack]`, and `b`, `[classes]`: the logits of a node are `sum_k a_k stack_k + b`.

    Half the squares of `a - (1, 0, ...)`, times `LOOSE`, and of `b` are added to the sum of losses.

    Args:
      stack: log-probabilities, `[stack, nodes, classes]`.
      labels: as in `HetGraph`.
      shift: whether there is a `b`; else it is 0.
      class_weights: the weight of every class in the loss; empty: all alike.
    """
    (count, _, classes), several = stack.shape, labels.ndim == 2
    y = labels.astype(np.float64) if several else np.eye(classes)[labels]
    alone, factors = np.eye(count)[0], of_nodes(y, several, class_weights)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = flat[:count], flat[count:]
        value, off = loss_of(np.tensordot(a, stack, 1) + b[None], y, several, factors)
        gradient = [np.einsum("knc,nc->k", stack, off) + LOOSE * (a - alone), off.sum(axis=0) + b]
        return value + (LOOSE * np.sum((a - alone) ** 2) + np.sum(b**2)) / 2, np.concatenate(gradient)

    bounds = [(0, None)] * count + [(None, None) if shift else (0, 0)] * classes
    start = np.concatenate([alone, np.zeros(classes)])
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[:count], found[count:]
