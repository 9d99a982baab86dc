"""AdamW (Kingma and Ba 2015; Loshchilov and Hutter 2019), of a model's weights: optax's, and on a CPU the same in one pass over memory."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hetjax import native
from hetjax.compiled import compiled
from hetjax.native import Operation, argument, result

B1, B2, EPSILON = 0.9, 0.999, 1e-8
CONTRACT = frozenset({"contract"})  # a product and a sum may be rounded once


class AdamW(NamedTuple):
    """How weights are updated. What it keeps is as optax's `flatten` of `adamw`: the moments are vectors, of all weights one after the other.

    Attributes:
      learning_rate: a number, or a function of the training step as optax's schedules are.
      weight_decay: decoupled.
    """

    learning_rate: float | Callable[[jax.Array], jax.Array]
    weight_decay: float = 0.0

    def init(self, params: Any) -> Any:
        """What is kept at step 0, of a tree of weights."""
        return self._optax().init(params)

    def step(self, gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """The weights and what is kept after an update.

        Args:
          gradients: a tree as `params`, which may have any shapes.
          state: as `init` gives it.
        """
        if not jax.tree.leaves(params):
            return params, state
        return native.choose(self._natively, self._plainly, gradients, state, params)

    def _optax(self) -> optax.GradientTransformation:
        return optax.flatten(optax.adamw(self.learning_rate, B1, B2, EPSILON, weight_decay=self.weight_decay))

    def _plainly(self, gradients, state, params):
        updates, state = self._optax().update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    def _natively(self, gradients, state, params):
        adam, *others = state
        leaves, form = jax.tree.flatten(params)
        count, dtype = adam.count + 1, adam.mu.dtype
        rate = self.learning_rate(adam.count) if callable(self.learning_rate) else self.learning_rate
        corrected = [1 / (1 - decay**count) for decay in (B1, B2)]
        given = B1, 1 - B1, B2, 1 - B2, *corrected, rate, self.weight_decay, EPSILON
        numbers = jnp.stack([jnp.asarray(number, dtype) for number in given])
        starts = np.cumsum([0, *(leaf.size for leaf in leaves)]).astype(np.int32)
        held = adam.mu, adam.nu, *leaves
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in held]
        aliases = {2 + place: place for place in range(len(held))}
        given = starts, numbers, *held, *jax.tree.leaves(gradients)
        mu, nu, *new = update(int(starts[-1]), *given, results=shapes, aliases=aliases)
        params = jax.tree.unflatten(form, new)
        return params, (adam._replace(count=count, mu=mu, nu=nu), *jax.tree.map(lambda counted: counted + 1, others))


@compiled(inline="always")
def moved(number, g, moments, decays, correct, rates):
    """In numba's language: a number and its moments after an update by its gradient.

    Args:
      decays: of the first moment the decay, and what is left of 1; of the second the same.
      correct: what the moments are multiplied by.
      rates: learning rate, weight decay, epsilon.
    """
    mean, square = decays[0] * moments[0] + decays[1] * g, decays[2] * moments[1] + decays[3] * (g * g)
    change = (mean * correct[0]) / (math.sqrt(square * correct[1]) + rates[2])
    return number - rates[0] * (change + rates[1] * number), mean, square


@compiled(error_model="numpy", fastmath=set(CONTRACT))
def _move(weights, gradient, mu, nu, decays, correct, rates):
    for i in range(len(weights)):
        moments = mu[i], nu[i]
        weights[i], mu[i], nu[i] = moved(weights[i], gradient[i], moments, decays, correct, rates)


def _update(first, last, frame):
    """One step on the numbers from `first` to before `last` of all weights, one after the other.

    Given are where weights begin, the numbers that `moved` takes, moments and weights, which the results are to begin with, and gradients.
    """
    starts, numbers = argument(frame, 0, "i1"), argument(frame, 1, "f1")
    decays, correct = (numbers[0], numbers[1], numbers[2], numbers[3]), (numbers[4], numbers[5])
    rates = numbers[6], numbers[7], numbers[8]
    mu, nu, count = result(frame, 0, "f1"), result(frame, 1, "f1"), len(starts) - 1
    for leaf in range(count):
        start, begin, end = starts[leaf], max(first, starts[leaf]), min(last, starts[leaf + 1])
        if begin < end:
            weights = result(frame, 2 + leaf, "f")[begin - start : end - start]
            gradient = argument(frame, 4 + count + leaf, "f")[begin - start : end - start]
            _move(weights, gradient, mu[begin:end], nu[begin:end], decays, correct, rates)


update = Operation(_update, CONTRACT)
