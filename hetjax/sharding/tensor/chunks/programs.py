"""The programs of a layer: one of each stage and type, whatever the number of chunks, and one of each stage's gradient.

Nothing but a stage's arguments is kept for its gradient: the way back computes it again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.models.hgnn import Stack
from hetjax.sharding.mesh import FEATURE, shard_map
from hetjax.sharding.tensor.chunks.layers import Coupled
from hetjax.sharding.traffic import GRADIENTS, Program
from hetjax.sharding.trainer import Trainer

DIVIDED, ALIKE = P(FEATURE), P()


class Drawn(NamedTuple):
    """What a step draws dropout from; of evaluation `training` is False, and nothing is drawn."""

    seed: Any
    step: Any


class Programs:
    """The programs of a layer.

    Args:
      trainer: whose layer it is.
      layer: its stages.
      mesh: with the axis `feature`.

    Attributes:
      send, fold, finish: of the stages; arguments `(training, type, parameters, drawn, ...)` as of `layers.Coupled`.
      send_back, fold_back, finish_back: of their gradients; before the stage's own arguments the sum of the parameters' gradients so far,
        which is used up, and after them the gradient of what the stage gives.
      waits: whether a call of a fold has to be waited for before another program starts, as it has collectives.
    """

    def __init__(self, trainer: Trainer, layer: Coupled, mesh: Mesh):
        self.trainer, self.layer, self.mesh = trainer, layer, mesh
        self.send, self.send_back = self._pair(self._send, (DIVIDED,), ())
        self.fold, self.fold_back = self._pair(self._fold, (DIVIDED, DIVIDED), (ALIKE, ALIKE))
        self.finish, self.finish_back = self._pair(self._finish, (DIVIDED, DIVIDED), (DIVIDED,))
        self.all = [self.send, self.send_back, self.fold, self.fold_back, self.finish, self.finish_back]

    def _pair(self, stage: Callable[..., Any], moved: tuple[P, ...], fixed: tuple[P, ...]) -> tuple[Program, Program]:
        """A stage's program, and that of its gradient.

        Args:
          stage: of `(training, type, parameters, drawn, arguments that a gradient flows to, others)`.
          moved, fixed: how these arguments are laid out.
        """

        def there(training: bool, t: str, params: Any, drawn: Drawn, *arguments: Any) -> Any:
            def run(params: Any, drawn: Drawn, *arguments: Any) -> Any:
                return stage(training, t, params, drawn, arguments[: len(moved)], arguments[len(moved) :])

            specs = (ALIKE, ALIKE, *moved, *fixed)
            return shard_map(run, self.mesh, specs, DIVIDED)(params, drawn, *arguments)

        def back(t: str, sums: Any, params: Any, drawn: Drawn, *arguments: Any) -> Any:
            def run(sums: Any, params: Any, drawn: Drawn, *arguments: Any) -> Any:
                *arguments, gradient = arguments
                flows, others = tuple(arguments[: len(moved)]), arguments[len(moved) :]

                def found(params: Any, flows: tuple) -> Any:
                    return stage(True, t, params, drawn, flows, others)

                _, pull = jax.vjp(found, params, flows)
                of_params, of_arguments = pull(gradient)
                return jax.tree.map(lambda one, more: one + more[None], sums, of_params), of_arguments

            specs = (DIVIDED, ALIKE, ALIKE, *moved, *fixed, DIVIDED)
            return shard_map(run, self.mesh, specs, DIVIDED)(sums, params, drawn, *arguments)

        forth = [NamedSharding(self.mesh, spec) for spec in (ALIKE, ALIKE, *moved, *fixed)]
        divided = NamedSharding(self.mesh, DIVIDED)
        return (
            Program(GRADIENTS, there, self.mesh, static=2, in_shardings=(*forth,)),
            Program(GRADIENTS, back, self.mesh, static=1, donate_argnums=1, in_shardings=(divided, *forth, divided)),
        )

    def _apply(self, params: Any, method: Callable[[Stack], Any]) -> Any:
        return self.trainer.model.apply(params, method=method)

    def _masks(self, training: bool, drawn: Drawn) -> Any:
        return self.trainer.masks(drawn.seed, drawn.step) if training else None

    def _send(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: Any) -> Any:
        return self._apply(params, lambda stack: self.layer.send(stack, t, flows[0]))

    def _fold(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: Any) -> Any:
        (sources, own), (adjacency, ids), masks = flows, others, self._masks(training, drawn)
        return self._apply(params, lambda stack: self.layer.fold(stack, t, adjacency, sources, own, ids, masks))

    def _finish(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: Any) -> Any:
        (rows, found), (ids,), masks = flows, others, self._masks(training, drawn)
        own = rows.get(t)
        return self._apply(params, lambda stack: self.layer.finish(stack, t, own, found, ids, masks))


class RowPrograms:
    """What is computed row by row before the first layer and after the last.

    Attributes:
      enter, enter_back: as of `Programs`, of what the first layer reads of a type's rows.
      classify: logits of the target type's rows.
      loss: `(sums, parameters, rows, labels, weights, count) -> (sums, (loss, gradient of the rows))`, each device's share of the loss.
    """

    def __init__(self, trainer: Trainer, mesh: Mesh):
        self.trainer = trainer
        pair = Programs._pair
        self.mesh = mesh
        self.enter, self.enter_back = pair(self, self._enter, (DIVIDED,), (DIVIDED,))  # type: ignore[arg-type]
        head = shard_map(self._classify, mesh, (ALIKE, DIVIDED), DIVIDED)
        self.classify = Program("evaluation", head, mesh)
        loss = shard_map(self._loss, mesh, (DIVIDED, ALIKE, DIVIDED, DIVIDED, DIVIDED, ALIKE), DIVIDED)
        self.loss = Program(GRADIENTS, loss, mesh, donate_argnums=0)
        self.all = [self.enter, self.enter_back, self.classify, self.loss]

    def _enter(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: Any) -> Any:
        from hetjax.sampling.blocks import Block

        masks, block = (
            self.trainer.masks(drawn.seed, drawn.step) if training else None,
            Block({}, {}, {}, {t: others[0]}),
        )
        return self.trainer.model.apply(
            params, method=lambda stack: _only(stack, t).enter({t: flows[0]}, block, masks)[t]
        )

    def _classify(self, params: Any, rows: jax.Array) -> jax.Array:
        logits: Any = self.trainer.model.apply(params, method=lambda stack: stack.classify(rows))
        return logits

    def _loss(
        self, sums: Any, params: Any, rows: jax.Array, labels: jax.Array, weights: jax.Array, count: jax.Array
    ) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        from hetjax.sharding.trainer import cross_entropy

        def share(params: Any, rows: jax.Array) -> jax.Array:
            losses = cross_entropy(self._classify(params, rows), labels, self.trainer.label_smoothing)
            return jnp.sum(jnp.where(weights > 0, losses, 0)) / count

        loss, (of_params, of_rows) = jax.value_and_grad(share, (0, 1))(params, rows)
        return jax.tree.map(lambda one, more: one + more[None], sums, of_params), (loss[None], of_rows)


def part_of(params: Any, names: Callable[[str], bool]) -> Any:
    """The parameters of some parts of a model."""
    return {"params": {name: part for name, part in params["params"].items() if names(name)}}


def zeros_of(params: Any, parts: int, put: Callable[[Any], Any]) -> Any:
    """On every device zeros of the shapes of parameters, to which gradients are added."""
    import numpy as np

    return put(jax.tree.map(lambda leaf: np.zeros((parts, *leaf.shape), leaf.dtype), params))


def _only(stack: Stack, t: str) -> Stack:
    return stack
