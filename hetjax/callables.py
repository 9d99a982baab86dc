"""Modules that can be called as a function is: `hetjax.train(...)`, where `hetjax.train` is a module too."""

import sys
from importlib import import_module
from types import ModuleType


def call_as(module: str, place: str, function: str) -> None:
    """Make a module callable.

    Args:
      module: its name, which is being imported.
      place, function: what is called: a function, and the module that has it, imported when it is called first.
    """

    class Callable(ModuleType):
        def __call__(self, *args, **kwargs):
            return getattr(import_module(place), function)(*args, **kwargs)

    sys.modules[module].__class__ = Callable
