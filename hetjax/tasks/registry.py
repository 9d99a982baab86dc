"""The tasks that there are, by name; a user's own is found by `MODULE:NAME`."""

import importlib

from hetjax.graph.hetgraph import HetGraph
from hetjax.options import owners, renamed
from hetjax.options.config import Config, changed
from hetjax.system.errors import InputError, reading, short
from hetjax.tasks.task import OPTIONS, Task

BUILT_IN = {
    "node_classification": "NodeClassification",
    "node_regression": "NodeRegression",
    "edge_classification": "EdgeClassification",
    "edge_regression": "EdgeRegression",
    "several": "Several",
}  # by the name of its file, the name of its class


def find(name: str) -> type[Task]:
    """Return the task of a name.

    Raises:
      InputError: there is none.
    """
    if name in BUILT_IN:
        return getattr(importlib.import_module(f"hetjax.tasks.{name}"), BUILT_IN[name])
    module, _, attribute = name.partition(":")
    known = ", ".join(BUILT_IN)
    if not attribute:
        raise InputError(f"task.name is {short(name)!r}, and must be {known}, or MODULE:NAME of one of your own")
    with reading(f"task.name is {short(name)!r}"):
        task = getattr(importlib.import_module(module), attribute)
        if not (isinstance(task, type) and issubclass(task, Task)):
            raise TypeError("should be a class that inherits from hetjax.tasks.task.Task")
        return task


def make(config: Config, graph: HetGraph) -> Task:
    """Return the task of a configuration on a graph.

    Raises:
      InputError: there is none of that name, an option is set that it does not have, or one does not go with the graph.
    """
    task = find(config.task.name)
    read = {renamed.new_name(key, {}) for key in task.options_for(graph, config)}
    for section, options in owners.sections_of(config).items():
        for key, value in changed(options).items():
            if f"{section}.{key}" in OPTIONS - read:
                raise InputError(f"{section}.{key} is {value}, and task.name {config.task.name} has no such option")
    place = f"task.name is {short(config.task.name)!r}"
    if missing := sorted(task.__abstractmethods__):
        raise InputError(f"{place}: it lacks {', '.join(missing)}, which every task has")
    made = task(graph, config)
    _check(made, place)
    return made


def alone(config: Config, graph: HetGraph, place: str) -> Task:
    """Return the task of a configuration that is to be one of several.

    Args:
      place: what an error names.

    Raises:
      InputError: it does not go with the graph, or could not find its nodes among those of other tasks.
    """
    try:
        made = make(config, graph)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    examples = made.examples("train")
    one_each = made.aligned and len(made.roots) == 1
    if made.aligned and not (one_each and len(made.seeds(examples).nodes[made.root]) == len(examples)):
        raise InputError(
            f"{place}: task {config.task.name} has examples of several nodes and no method relocated, which one of several targets needs"
        )
    return made


def _check(task: Task, place: str) -> None:
    """Raise an InputError where a task has no root type, or names a metric that is none of its own."""
    for name in ("roots", "outputs", "metrics", "headline", "metric", "compared_by"):
        if not hasattr(task, name):
            raise InputError(f"{place}: it has no {name}, which every task has")
    for name in (
        "loss",
        *(getattr(task, name) for name in ("headline", "metric", "compared_by")),
        *task.beside,
        *task.also_compared_by,
    ):
        if name not in task.metrics:
            raise InputError(f"{place}: {name!r} is none of its metrics {', '.join(task.metrics)}")
