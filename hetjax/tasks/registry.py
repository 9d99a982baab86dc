"""The tasks that there are, by name; a user's own is found by `MODULE:NAME`."""

import importlib

from hetjax.options.config import Config
from hetjax.system.errors import InputError, reading, short
from hetjax.tasks.task import Task

BUILT_IN = {"node_classification": "NodeClassification"}  # by the name of its file, the name of its class


def find(config: Config) -> type[Task]:
    """Return the task of a configuration.

    Raises:
      InputError: there is none of that name.
    """
    name = config.task.name
    if name in BUILT_IN:
        return getattr(importlib.import_module(f"hetjax.tasks.{name}"), BUILT_IN[name])
    module, _, attribute = name.partition(":")
    if not attribute:
        raise InputError(
            f"task.name is {short(name)!r}, and must be {', '.join(BUILT_IN)}, or MODULE:NAME of one of your own"
        )
    with reading(f"task.name is {short(name)!r}"):
        task = getattr(importlib.import_module(module), attribute)
        if not (isinstance(task, type) and issubclass(task, Task)):
            raise TypeError("should be a class that inherits from hetjax.tasks.task.Task")
        return task
