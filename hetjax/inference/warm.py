"""A warm start: the state before the first step, from what another run learned on another graph."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from hetjax import models
from hetjax.datasets.load import load
from hetjax.graph.carry import carried, check_one_hot
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_inputs import without_labels
from hetjax.graph.label_propagation import ways
from hetjax.inference.restored import best_state, run_of, same_shape
from hetjax.kernels.tables import Table
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.processes import digests
from hetjax.sharding.strategy import setup
from hetjax.sharding.trainer import Trainer, TrainState
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError, short
from hetjax.system.mapped import on_host

FREE = (
    "dropout",
    "input_dropout",
    "attention_dropout",
    "feature_init",
    "embedding_init",
    "logit_norm",
)  # keys of a model that weights do not depend on
GIVEN = {"neighbours": "the mean of their neighbours", "fresh": "drawn as in any run"}


class Warm(NamedTuple):
    """The state from which a run begins.

    Attributes:
      state: the state at step 0, host arrays: weights and learned features of the other run, no moments of Adam.
      chosen: a description of the checkpoint of that run.
      kept, new: the number of nodes that were known there, and of those that were not, by type with learned features.
    """

    state: TrainState
    chosen: str
    kept: Mapping[str, int]
    new: Mapping[str, int]

    def words(self, config: Config) -> Iterator[str]:
        """Yield the lines that describe the start."""
        yield f"weights of {config.train.init_from}, {self.chosen}"
        for node_type, kept in self.kept.items():
            new = self.new.get(node_type, 0)
            given = f", {new:,} new: {GIVEN[config.train.init_new]}" if new else ""
            yield f"learned features of {node_type}: {kept:,} rows kept{given}"


def warm_start(config: Config, trainer: Trainer) -> Warm:
    """Return the start that `train.init_from` gives a run.

    Weights are those of the other run's best checkpoint. Learned features are found by the users' ids where both graphs have
    them, else by the nodes' numbers. Those of new nodes are, as `train.init_new` says, what `carry.of_neighbours`
    gives, or random as they are without a warm start. Adam starts anew.

    Args:
      trainer: the trainer of the run that begins.

    Raises:
      InputError: the folder is of no run, or what was learned there does not go with this run's model or graph.
    """
    where, source = config.train.init_from, Path(config.train.init_from)
    before, trained = run_of(source, {config.model.name, *owners.task_names(config.task)}, "{}")
    _check_models(where, before, config)
    graph = models.folded(config.model.name, load(config.data, target=config.task.target))
    given = setup(before, trained)
    same_shape(f"{config.data.path or config.data.format}", graph, trained, trainer, given.trainer)
    for target in owners.targets(config.task):
        _check_classes(where, graph.with_target(target), trained.with_target(target))
    _check_ways(where, graph, trained)
    state, chosen, _ = best_state(source, given.trainer, before.train.seed, digests.of_graph(before.data, trained))
    learned = {t: on_host(table.rows) for t, table in state.tables.items()}
    check_one_hot(trainer.widths.keys() - learned.keys() - graph.features.keys(), trained, graph, where)
    first = eagerly(trainer.init, np.int32(config.train.seed))
    fresh = {t: np.asarray(table.rows) for t, table in first.tables.items()}
    rows, new = carried(learned, trained, graph, config.train.init_new, where, fresh)
    held = {t: _unmoved(matrix) for t, matrix in rows.items()}
    begun = TrainState(np.zeros((), np.int32), state.params, jax.tree.map(np.asarray, first.optimizer), held)
    return Warm(begun, chosen, {t: len(rows[t]) - new.get(t, 0) for t in rows}, new)


def _unmoved(rows: np.ndarray) -> Table:
    """Return a table of rows that Adam has not moved."""
    return Table(rows, np.zeros_like(rows), np.zeros_like(rows), np.zeros(len(rows), np.int32))


def _check_models(where: str, before: Config, now: Config) -> None:
    for key, value in vars(before.model).items():
        if key not in FREE and getattr(now.model, key) != value:
            raise InputError(f"{where}: model.{key} is {value!r} there != {getattr(now.model, key)!r}")


def _check_ways(where: str, graph: HetGraph, trained: HetGraph) -> None:
    """Raise an InputError where columns of label inputs mean other relations than they did."""
    here, there = (list(ways(without_labels(one))) for one in (graph, trained))
    if graph is not without_labels(graph) and here != there:
        raise InputError(f"{where}: labels as inputs came along {', '.join(there)} there != {', '.join(here)}")


def _check_classes(where: str, graph: HetGraph, trained: HetGraph) -> None:
    """Raise an InputError where classes are called otherwise than they were, so that a number means another one."""
    here, there = (one.names.classes for one in (graph, trained))
    if here is not None and there is not None and here != there:
        number = next(n for n in range(len(there)) if here[n] != there[n])
        raise InputError(
            f"{where}: class {number} is {short(repr(there[number]), 80)} there != {short(repr(here[number]), 80)}"
        )
