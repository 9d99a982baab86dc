"""The targets of a run that learns several: their columns, their tasks, and the module that has their heads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError
from hetjax.tasks import registry
from hetjax.tasks.declared.several import Options
from hetjax.tasks.task import Task


class SubTask(NamedTuple):
    """One target of a run.

    Attributes:
      number: its place among the targets, from 0 on.
      target: the full name of its column of labels.
      config: the configuration of the run with this task alone.
      task: the task that predicts it.
      first: the number that example 0 of the task has among all examples.
      start: the first column of its outputs.
      classes: the names of its classes, where they are known.
    """

    number: int
    target: str
    config: Config
    task: Task
    first: int
    start: int
    classes: Any

    def own(self, outputs: Any) -> Any:
        """Return the task's outputs of those of all targets."""
        return outputs[:, self.start : self.start + self.task.outputs]


class Arrays(NamedTuple):
    """The arrays of one task's examples; rows of zeros are other tasks' examples.

    Attributes:
      rows: the position of each example's only node among the seeds of its type, int32 `[n]`; None: `arrays` has positions.
      arrays: as the task gives them.
    """

    rows: "Array | None"
    arrays: Any


class Heads(nn.Module):
    """The heads of all targets, their outputs side by side.

    Attributes:
      heads: one per target.
      roots: of a task whose examples have one node each, the type of these, per target; else empty.
      learned: whether a column per target follows with the logarithm of its variance, the same for all examples.
    """

    heads: tuple[nn.Module, ...]
    roots: tuple[str, ...]
    learned: bool = False

    @nn.compact
    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: tuple[Arrays, ...]) -> jax.Array:
        """Return outputs `[examples, outputs]`, from embeddings `[seeds, width]` per root type."""
        outputs = []
        for head, root, own in zip(self.heads, self.roots, arrays):
            read = embeddings if own.rows is None else {root: embeddings[root][own.rows]}
            outputs.append(head(read, own.arrays))
        if self.learned:
            shape = (len(outputs),)
            variances = self.param("log_variance", nn.initializers.zeros_init(), shape)
            outputs.append(jnp.broadcast_to(variances[None], (len(outputs[0]), *shape)))
        return jnp.concatenate(outputs, axis=1)


def options_of(config: Config) -> Options:
    """Return the section of options of several targets."""
    options: Options = owners.own(config.task, owners.SEVERAL)
    return options


def kinds_of(graph: HetGraph, config: Config) -> dict[str, str]:
    """Return the name of each target's task by the full name of its column, in the order of the options.

    Raises:
      InputError: there is no target, one is no column or is there twice, or there is no such task.
    """
    found: dict[str, str] = {}
    for name, kind in options_of(config).named:
        target = graph.column_name(name, "several.targets")
        if target in found:
            raise InputError(f"several.targets has {target} twice")
        found[target] = kind or kind_of(graph.with_target(target))
        if found[target] == owners.SEVERAL:
            raise InputError(f"several.targets: the task of {target} is {kind}, and must be one of a single target")
    if not found:
        raise InputError(
            f"task.name is several, and several.targets names no columns; the graph has {', '.join([graph.target, *graph.columns])}"
        )
    return found


def kind_of(graph: HetGraph) -> str:
    """Return the name of the task that predicts a graph's labels."""
    rows = "node" if graph.relation is None else "edge"
    return f"{rows}_{'regression' if graph.numeric else 'classification'}"


def config_of(config: Config, target: str, kind: str) -> Config:
    """Return the configuration of a run with the task of one target alone."""
    read = {key.split(".")[0] for key in registry.find(kind).options}
    own = {name: section for name, section in config.task.own.items() if name in read}
    return replace(config, task=replace(config.task, name=kind, target=target, own=own))


def weights_of(config: Config, count: int) -> np.ndarray:
    """Return the weight of each target's mean loss, float64 `[count]`.

    Raises:
      InputError: there is another number of weights.
    """
    weights = options_of(config).weights
    if isinstance(weights, str):
        return np.ones(count)
    if len(weights) != count:
        raise InputError(f"several.weights has {len(weights)} numbers != {count} targets")
    return np.array(weights, float)


def chosen_by(graph: HetGraph, config: Config, targets: Mapping[str, str]) -> str:
    """Return the full name of the target that chooses the best epoch; empty: the loss does.

    Raises:
      InputError: it is none of the targets.
    """
    name = options_of(config).chosen_by
    target = name and graph.column_name(name, "several.chosen_by")
    if target and target not in targets:
        raise InputError(f"several.chosen_by is {target}, and several.targets are {', '.join(targets)}")
    return target


def row_of_target(target: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a baseline's row with the names that the metrics of a target have among those of all."""
    found = {}
    for name, value in row.items():
        split = "validation_" if name.startswith("validation_") else ""
        plain = name in ("how", "seconds")
        found[name if plain else f"{split}{target}.{name.removeprefix(split)}"] = value
    return found


def spread_rows(rows: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """Return `[count, ...]` with some rows at their places, and zeros elsewhere."""
    found = np.zeros((count, *rows.shape[1:]), rows.dtype)
    found[places] = rows
    return found
