"""Modules that can be called as a function is: `hetjax.train(...)`, where `hetjax.train` is a module too."""

import sys
from importlib import import_module
from types import ModuleType


def call_as(module: str, place: str, function: str, doc: str | None = None) -> None:
    """Make a module callable.

    Args:
      module: its name, which is being imported.
      place, function: what is called: a function, and the module that has it, imported when it is called first.
      doc: of the function, where it is known already.
    """

    class Callable(ModuleType):
        def __call__(self, *args, **kwargs):
            return getattr(import_module(place), function)(*args, **kwargs)

        __call__.__doc__ = doc or f"As `{place}.{function}`."

    sys.modules[module].__class__ = Callable
