"""The programs of a layer: one of each stage and type, whatever the number of chunks, and one of each stage's gradient.

Nothing but a stage's arguments is kept for its gradient: the backward pass computes it again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.models.dropout import Masks
from hetjax.models.hgnn import Stack, read_seeds
from hetjax.sampling.blocks import Block
from hetjax.sharding.columns import ROWS, all_rows
from hetjax.sharding.mesh import FEATURE, shard_map
from hetjax.sharding.tensor.chunks.layers import Coupled, Read, Summed
from hetjax.sharding.traffic import GRADIENTS, Program
from hetjax.sharding.trainer import Rows, Trainer

DIVIDED, ALIKE = P(FEATURE), P()


class Drawn(NamedTuple):
    """The seed and the step from which dropout is sampled; in evaluation `training` is False, and nothing is sampled."""

    seed: Any
    step: Any


Stage = Callable[[bool, str, Any, Drawn, tuple, tuple], Any]  # of a training step or not, a type, parameters, arguments


def pair(
    stage: Stage,
    mesh: Mesh,
    moved: tuple[P, ...],
    fixed: tuple[P, ...],
    wanted: Callable[[str, tuple], tuple],
    known: Callable[[str, tuple], tuple] = lambda t, flows: flows,
    again: Stage | None = None,
) -> tuple[Program, Program]:
    """Return a stage's program, and that of its gradient.

    The first's arguments are `(training, type, parameters, drawn, ...)`. The second's are `(type, sum of the parameters' gradients so far,
    parameters, drawn, ..., gradient of what the stage gives)`; it returns that sum, whose buffer is donated, and the gradients of the moved arguments.

    Args:
      stage: the stage; its last two arguments are tuples: the arguments to which gradients flow, and all others.
      moved, fixed: the shardings of these two.
      wanted: maps a type and the gradients of the moved arguments to those that are read; XLA computes no others.
      known: maps a type and the moved arguments that the gradient's program is given to all of them.
      again: the function that the gradient's program computes again and differentiates; None: the stage.
    """

    def there(training: bool, t: str, params: Any, drawn: Drawn, *arguments: Any) -> Any:
        def run(params: Any, drawn: Drawn, *arguments: Any) -> Any:
            return stage(training, t, params, drawn, arguments[: len(moved)], arguments[len(moved) :])

        return shard_map(run, mesh, (ALIKE, ALIKE, *moved, *fixed), DIVIDED)(params, drawn, *arguments)

    def back(t: str, sums: Any, params: Any, drawn: Drawn, *arguments: Any) -> Any:
        def run(sums: Any, params: Any, drawn: Drawn, *arguments: Any) -> Any:
            *given, gradient = arguments
            flows, others = known(t, tuple(given[: len(moved)])), tuple(given[len(moved) :])

            def anew(params: Any, flows: tuple) -> Any:
                return (again or stage)(True, t, params, drawn, flows, others)

            of_params, of_flows = jax.vjp(anew, params, flows)[1](gradient)
            return jax.tree.map(lambda one, more: one + more[None], sums, of_params), wanted(t, of_flows)

        specs = (DIVIDED, ALIKE, ALIKE, *moved, *fixed, DIVIDED)
        return shard_map(run, mesh, specs, DIVIDED)(sums, params, drawn, *arguments)

    laid = tuple(NamedSharding(mesh, spec) for spec in (ALIKE, ALIKE, *moved, *fixed))
    divided = NamedSharding(mesh, DIVIDED)
    back_laid = divided, *laid, divided
    return (  # what a program does not use is on the device all the same, and is counted
        Program(GRADIENTS, there, mesh, static=2, keep_unused=True, in_shardings=laid),
        Program(GRADIENTS, back, mesh, static=1, keep_unused=True, donate_argnums=1, in_shardings=back_laid),
    )


class Programs:
    """The programs of a layer.

    Args:
      trainer: the trainer of the model with the layer.
      layer: its stages.
      mesh: the mesh with the axis `feature`.

    Attributes:
      send, fold, finish: the programs of the stages, as `pair` gives them, with arguments as of `layers.Coupled`. The last gives the embeddings, and
        in training the gathered sums, which its gradient's program is given: nothing travels a second time.
      send_back, fold_back, finish_back: the programs of their gradients.
    """

    def __init__(self, trainer: Trainer, layer: Coupled, mesh: Mesh):
        self.trainer, self.layer = trainer, layer
        self.send, self.send_back = pair(self._send, mesh, (DIVIDED,), (), self._rows)
        self.fold, self.fold_back = pair(self._fold, mesh, (DIVIDED,), (ALIKE,), self._columns, self._known)
        self.read: dict[str, Any] = {}  # per type the shapes of what its fold reads
        self.found: dict[str, Any] = {}  # and of what it gives
        self.finish, self.finish_back = pair(
            self._finish, mesh, (DIVIDED,), (DIVIDED,), self._sums, again=self._finished
        )
        if not layer.sums_logits:  # nothing in it that other processes wait for
            self.fold.waits = self.fold_back.waits = False

    @property
    def all(self) -> list[Program]:
        return [self.send, self.send_back, self.fold, self.fold_back, self.finish, self.finish_back]

    def _apply(self, params: Any, method: Callable[[Stack], Any]) -> Any:
        return self.trainer.model.apply(params, method=method)

    def _masks(self, training: bool, drawn: Drawn) -> Masks | None:
        return self.trainer.masks(drawn.seed, drawn.step) if training else None

    def _send(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: tuple) -> Any:
        return self._apply(params, lambda stack: self.layer.send(stack, t, flows[0]))

    def _fold(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: tuple) -> Any:
        (read,), (edges,), masks = flows, others, self._masks(training, drawn)
        self.read[t] = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), read)
        return self._apply(params, lambda stack: self.layer.fold(stack, t, read, edges, masks))

    def _finish(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: tuple) -> Any:
        (summed,) = flows
        self.found[t] = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), summed.found)
        gathered = summed._replace(found=self.layer.gather(t, summed.found))
        made = self._finished(training, t, params, drawn, (gathered,), others)
        return made, gathered.found if training else {}

    def _finished(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: tuple) -> Any:
        (summed,), (ids,), masks = flows, others, self._masks(training, drawn)
        return self._apply(params, lambda stack: self.layer.finish(stack, t, summed, ids, masks))

    def _known(self, t: str, flows: tuple) -> tuple:
        """Return the residuals of an aggregation; the gradient of a linear one needs no values of its inputs, and gets zeros."""
        if self.layer.keeps:
            return flows
        return (jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self.read[t]),)

    def _rows(self, t: str, gradients: tuple) -> tuple:
        return () if t in self.layer.still else gradients

    def _columns(self, t: str, gradients: tuple[Read]) -> tuple:
        (read,), constant = gradients, self.layer.constant
        sources = {s: columns for s, columns in read.sources.items() if s not in constant}
        return (Read(sources, {} if t in constant else read.own),)

    def _sums(self, t: str, gradients: tuple[Summed]) -> tuple:
        (summed,) = gradients
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self.found[t])
        (found,) = jax.vjp(lambda found: self.layer.gather(t, found), nothing)[1](summed.found)
        return (Summed({s: x for s, x in summed.rows.items() if s not in self.layer.still}, found),)


class RowPrograms:
    """The programs that run row by row before the first layer and after the last.

    Attributes:
      enter, enter_back: as of `pair`, for the rows of a type that the first layer reads.
      loss: `(sums, parameters, rows, places, arrays, weight) -> (sums, (loss, gradient of the rows))`, each device's share of the
        loss, from the embeddings that devices give and where their seeds' are among these; the second one sends them to all devices.
    """

    def __init__(self, trainer: Trainer, mesh: Mesh):
        self.trainer = trainer
        self.enter, self.enter_back = pair(self._enter, mesh, (DIVIDED,), (DIVIDED,), self._learned)
        specs = (DIVIDED, ALIKE, DIVIDED, DIVIDED, DIVIDED, ALIKE)
        mapped = [shard_map(partial(self._loss, shared), mesh, specs, DIVIDED) for shared in (False, True)]
        self.loss = [Program(GRADIENTS, one, mesh, donate_argnums=0) for one in mapped]

    @property
    def all(self) -> list[Program]:
        return [self.enter, self.enter_back, *self.loss]

    def _enter(self, training: bool, t: str, params: Any, drawn: Drawn, flows: tuple, others: tuple) -> Any:
        masks = self.trainer.masks(drawn.seed, drawn.step) if training else None
        block = Block({}, {}, {}, {t: others[0]})
        return self.trainer.model.apply(params, method=lambda stack: stack.enter({t: flows[0]}, block, masks)[t])

    def _learned(self, t: str, gradients: tuple) -> tuple:
        return gradients if t in self.trainer.learnable else ()

    def _loss(
        self, shared: bool, sums: Any, params: Any, rows: Rows, places: Rows, arrays: Any, weight: jax.Array
    ) -> tuple[Any, tuple[jax.Array, Rows]]:
        model, task = self.trainer.model, self.trainer.task

        def share(params: Any, rows: Rows) -> jax.Array:
            every = {t: all_rows(ROWS, of) for t, of in rows.items()} if shared else rows
            outputs: Any = model.apply(params, read_seeds(every, model.roots, places), arrays, method="read_out")
            return task.loss(outputs, arrays) / weight

        loss, (of_params, of_rows) = jax.value_and_grad(share, (0, 1))(params, rows)
        return jax.tree.map(lambda one, more: one + more[None], sums, of_params), (loss[None], of_rows)


def part_of(params: Any, names: Callable[[str], bool]) -> Any:
    """Return the parameters of some parts of a model."""
    return {"params": {name: part for name, part in params["params"].items() if names(name)}}
