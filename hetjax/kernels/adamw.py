"""AdamW on the weights of a model: optax's, and on a CPU the same but for rounding in one pass over memory.

Kingma and Ba 2015, Algorithm 1, with decoupled weight decay (Loshchilov and Hutter 2019, Algorithm 2). As in optax the decay is multiplied by
the learning rate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hetjax.kernels import native
from hetjax.kernels.native import Operation, argument, result
from hetjax.kernels.table_rows import CONTRACT, adam_step, scalars
from hetjax.kernels.tables import RowAdam
from hetjax.system.compiled import compiled

USUAL = RowAdam(0.0)  # its decays and epsilon
MOST = 2**31 - 1  # numbers that a kernel counts


class AdamW(NamedTuple):
    """The update of a model's weights, with the state of optax's `flatten` of `adamw`: each moment is one vector of all
    weights, one weight after the other.

    Attributes:
      learning_rate: a number, or a function of the training step as optax's schedules are.
      weight_decay: decoupled; 0 is none.
    """

    learning_rate: float | Callable[[jax.Array], jax.Array]
    weight_decay: float = 0.0

    def init(self, params: Any) -> Any:
        """Return the state at step 0 for a tree of weights."""
        return self._optax().init(params)

    def step(self, gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Return the weights and the state after an update.

        Args:
          gradients: a tree like `params`, of the same shapes.
          state: as `init` gives it for `params`, or a step after.
          params: float32 or float64. Weights of other dtypes, of several dtypes, or of more than 2,147,483,647 elements in all are updated by optax.

        Raises:
          ValueError: gradients or moments of other shapes than the weights.
        """
        weights = jax.tree.leaves(params)
        shapes, own = [leaf.shape for leaf in jax.tree.leaves(gradients)], [leaf.shape for leaf in weights]
        form: Any = jax.tree.structure(gradients)
        if shapes != own or form != jax.tree.structure(params):
            raise ValueError(f"gradients of shapes {shapes}, and they should be {own}")
        numbers, kept = sum(leaf.size for leaf in weights), optax.tree.get(state, "mu").shape
        if kept != (numbers,):
            raise ValueError(f"moments {kept}, and they should be {(numbers,)}")
        if numbers > MOST:
            return self._plainly(gradients, state, params)
        return native.choose(self._natively, self._plainly, gradients, state, params)

    def _optax(self) -> optax.GradientTransformation:
        about = {"b1": USUAL.b1, "b2": USUAL.b2, "eps": USUAL.epsilon, "weight_decay": self.weight_decay}
        return optax.flatten(optax.adamw(self.learning_rate, **about))

    def _plainly(self, gradients, state, params):
        updates, state = self._optax().update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    def _natively(self, gradients, state, params):
        adam = optax.tree.get(state, "ScaleByAdamState")
        weights, form = jax.tree.flatten(params)
        ends = np.cumsum([0, *(leaf.size for leaf in weights)])
        count = optax.safe_increment(adam.count)
        in_place = adam.mu, adam.nu, *weights
        given = ends.astype(np.int32), self._numbers(adam.count, count, adam.mu.dtype)
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in in_place]
        aliases = {len(given) + place: place for place in range(len(in_place))}
        arguments = *given, *in_place, *jax.tree.leaves(gradients)
        mu, nu, *weights = update(int(ends[-1]), *arguments, results=shapes, aliases=aliases)
        return jax.tree.unflatten(form, weights), optax.tree.set(state, count=count, mu=mu, nu=nu)

    def _numbers(self, done, count, dtype):
        """Return the input of `scalars` and the factors of the moments, which are computed as in optax."""
        adam = RowAdam(self.learning_rate, weight_decay=self.weight_decay).at(done)
        correct = 1 / (1 - adam.b1**count), 1 / (1 - adam.b2**count)
        return jnp.stack([jnp.asarray(x, dtype) for x in (*adam.scalars(), *correct)])


@compiled(error_model="numpy", fastmath=set(CONTRACT))
def _move(weights, gradient, mu, nu, decays, correct, rates):
    """Update some elements of a weight in place. This is a function of its own so that LLVM knows that what it reads
    once does not change."""
    for i in range(len(weights)):
        moments = mu[i], nu[i]
        weights[i], mu[i], nu[i] = adam_step(weights[i], gradient[i], moments, decays, correct, rates)


def _update(first, last, frame):
    """Update the elements from `first` to before `last` of all weights, one weight after the other.

    Arguments are where each weight begins, int32 `[weights + 1]`; `AdamW._numbers`; both moments; the weights; their gradients. Results are
    moments and weights, which are there to begin with.
    """
    starts, numbers = argument(frame, 0, "i1"), argument(frame, 1, "f1")
    rates, decays = scalars(numbers)
    correct = numbers[7], numbers[8]
    mu, nu, count = result(frame, 0, "f1"), result(frame, 1, "f1"), len(starts) - 1
    for leaf in range(count):
        start, begin, end = starts[leaf], max(first, starts[leaf]), min(last, starts[leaf + 1])
        if begin < end:
            weights = result(frame, 2 + leaf, "f")[begin - start : end - start]
            gradient = argument(frame, 4 + count + leaf, "f")[begin - start : end - start]
            _move(weights, gradient, mu[begin:end], nu[begin:end], decays, correct, rates)


update = Operation(_update, CONTRACT)
