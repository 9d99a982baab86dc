"""One target of a run that learned several: its task, its labels and its head."""

from collections.abc import Mapping
from typing import Any

from hetjax import models
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.hidden import hidden
from hetjax.models.hgnn import Stack
from hetjax.sharding.strategy import Setup
from hetjax.sharding.trainer import Trainer, make_trainer
from hetjax.system.errors import InputError
from hetjax.system.logs import log
from hetjax.tasks import registry
from hetjax.tasks.several import Several
from hetjax.tasks.sub_tasks import SubTask
from hetjax.tasks.task import Task


def of_run(task: Task, trained: HetGraph, target: str) -> SubTask | None:
    """Return the target of a run that is to be predicted; None: the only one.

    Args:
      task: of the run.
      trained: the graph that was trained on.
      target: the name of a column of labels, as of `HetGraph.column`; empty: the first, which a line says.

    Raises:
      InputError: the run does not predict it.
    """
    name = target and trained.column_name(target, "target")
    if isinstance(task, Several):
        part = task.part(name)
        if not target:
            others = ", ".join(one.target for one in task.parts[1:])
            log.info(f"{part.target} is predicted, the first target of the run; --target chooses another: {others}")
        return part
    if name not in ("", trained.target):
        raise InputError(f"target is {name}, and this run predicts {trained.target}")
    return None


def on_graph(given: Setup, part: SubTask, graph: HetGraph) -> tuple[HetGraph, Trainer, Task]:
    """Return another graph as the model aggregates its edges, a trainer for it, and the target's task on it.

    Edges of labelled pairs are left out as in training, of every target whose column the graph has.

    Args:
      given: of the run.
      graph: whose labels are the target's.
    """
    config, has = given.config, {graph.target, *graph.columns}
    assert isinstance(given.task, Several)
    targets = [one.target for one in given.task.parts if one.target in has] or [""]
    made = models.changed(config.model.name, hidden(graph, config.task.hide_targets, targets))
    return made, make_trainer(made, config, given.task, 1), registry.make(part.config, made)


def model_of(model: Stack, params: Any, part: SubTask) -> tuple[Stack, Any]:
    """Return a model with the head of one target alone, and its weights."""
    weights: Mapping[str, Any] = params["params"]
    head = weights["head"][f"heads_{part.number}"]
    task = part.task
    alone = model.clone(roots=task.roots, outputs=task.outputs, head=task.head(True))
    return alone, {"params": {**weights, "head": head}}
