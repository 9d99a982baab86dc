"""Modules that can be called like functions: `hetjax.train(...)`, where `hetjax.train` is a module too."""

import inspect
import sys
from collections.abc import Callable as Function
from importlib import import_module
from types import ModuleType


def call_as(module: str, place: str, function: str, doc: str | None = None) -> None:
    """Make a module callable; `help` and `inspect.signature` then show the function.

    Args:
      module: its name, which is being imported.
      place, function: what is called: a function, and the module that has it, imported when it is called or shown first.
      doc: of the function, where it is known already.
    """

    def called() -> Function:
        return getattr(import_module(place), function)

    class Callable(ModuleType):
        def __call__(self, *args, **kwargs):
            return called()(*args, **kwargs)

        @property
        def __signature__(self) -> inspect.Signature:
            return inspect.signature(called())

        @property
        def __doc__(self) -> str:  # type: ignore[override]
            text = inspect.cleandoc(doc or called().__doc__ or "")
            first, _, rest = text.partition("\n")
            return f"{first}\n\n{module}{inspect.signature(called())}\n{rest}"

        __call__.__doc__ = doc or f"As `{place}.{function}`."

    vars(sys.modules[module]).setdefault("__all__", [])  # so that `help` shows nothing else
    sys.modules[module].__class__ = Callable
