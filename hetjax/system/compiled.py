"""Functions that numba compiles. The compiled code is kept as long as nothing that is compiled into it changes."""

import functools
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, overload

import numba
from numba.extending import intrinsic as numba_intrinsic

from hetjax.system import durable, internals, runtime

PACKAGE = "hetjax"

internals.guard_kept_code(
    lambda folder: durable.writing(folder, "compiled code is kept there; NUMBA_CACHE_DIR names another folder")
)
internals.seal_kept_code(lambda function: function.__module__.split(".")[0] == PACKAGE, lambda f, g: _trusted(f, g))
Function = TypeVar("Function", bound=Callable)
intrinsic: Callable[..., Any] = numba_intrinsic  # whose own type says that callers give the typing context


@overload
def compiled(function: Function) -> Function: ...
@overload
def compiled(**options: Any) -> Callable[[Function], Function]: ...
def compiled(function: Callable | None = None, **options: Any) -> Any:
    """Compile a function with `numba.njit`. The code is kept, runs without the interpreter's lock, and takes numba's options."""
    if function is None:
        return functools.partial(compiled, **options)
    return numba.njit(nogil=True, cache=True, **options)(named(function))


def _trusted(folder: str, function: Callable) -> bool:
    """Return whether nobody else can write into the folder that keeps a function's code.

    The `__pycache__` beside the function's own file is as trusted as that file.
    """
    beside = Path(function.__code__.co_filename).parent / "__pycache__"
    return Path(folder) == beside or runtime.private(folder)


def named(function: Function) -> Function:
    """Add a digest of the code to the name by which numba keeps a function, and return the function.

    Numba compiles anew when the function's own file changes, but not when another does that is compiled into it; and writes
    which file holds the new code before the code, so that two processes that start after a change could take the old. What it
    kept of code before stays beside it, unused.
    """
    function.__qualname__ += f"_{digest(function.__module__)}"
    return function


def digest(name: str) -> str:
    """Return a digest of the code of a module and of all modules of this package that it uses."""
    content = hashlib.sha256()
    for module in sorted(modules(name)):
        content.update(_content(sys.modules[module].__file__))
    return content.hexdigest()[:12]


def modules(name: str) -> set[str]:
    """Return the names of a module and of all modules of this package from which it, or one of these, has functions, classes or modules."""
    reached, waiting = set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            values = vars(sys.modules[name]).values()
            names = (v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", None) for v in values)
            waiting += [other for other in map(str, names) if other.split(".")[0] == PACKAGE and other in sys.modules]
    return reached


@functools.cache
def _content(file: str) -> bytes:
    return Path(file).read_bytes()
