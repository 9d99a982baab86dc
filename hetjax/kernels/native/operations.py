"""Operations: functions that numba compiles, here or in another process, and that the handler then finds and calls."""

import atexit
import contextlib
import ctypes
import functools
import importlib
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from types import FunctionType
from typing import Any

import jax
import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types

from hetjax.kernels.native.compilers import can_be_copied, copy_this, tasks
from hetjax.kernels.native.elsewhere import Elsewhere
from hetjax.kernels.native.frames import FRAMES
from hetjax.kernels.native.handler import FAILED, HANDLES, MOST, NOWHERE, OPERATIONS, SHARED, handle, help_out
from hetjax.kernels.native.platforms import fits, shapes_alone
from hetjax.system import runtime
from hetjax.system.compiled import named
from hetjax.system.errors import reason
from hetjax.system.internals import ffi_version, is_kept
from hetjax.system.logs import log

NAME = "hetjax"  # of the one function that XLA knows
PACKAGE = __name__.split(".")[0]  # whose operations another process can compile
NOT_COMPILED = ctypes.create_string_buffer(b"hetjax could not compile an operation of this program; its log says why")

_shared = np.full(OPERATIONS + 2 * MOST, NOWHERE, np.int64)  # read by the handler
_places: dict[int, int] = {}  # in `_shared`, by an operation's key
_compiled_operations: dict[int, Any] = {}  # by place, what machine code calls
_lock, _handling = threading.Lock(), threading.Lock()
_loading = threading.Lock()  # while numba is at work in this process: no thread may be cut off in LLVM
atexit.register(_loading.acquire)
_made: list[Any] = []  # the handler, and what helps it
_operations: dict[str, "Operation"] = {}  # by name


class Operation:
    """A function that fills rows of its results, `run(first, last, frame)`: those from `first` to before `last`.

    Threads share the rows, in blocks of `BLOCK`; nothing may depend on which blocks are filled together. `run` finds its arrays by
    `arrays`; it raises nothing, and needs no Python. `fastmath`: what LLVM may take liberties with.
    """

    def __init__(self, run: Callable, fastmath: Set[str] = frozenset()):
        self.name, self.run, self.fastmath = f"{run.__module__}.{run.__name__}", named(run), fastmath
        _operations[self.name] = self

    def of(self, floats: str) -> Callable:
        """Return the function, by another name for every kind of floats, because two processes must not write numba's
        cache of one name at once."""
        run = self.run
        own = FunctionType(run.__code__, run.__globals__, run.__name__, run.__defaults__, run.__closure__)
        own.__qualname__, own.__module__ = f"{run.__qualname__}_{floats}", run.__module__
        return own

    def key(self, floats: str) -> int:
        """Return the key that stands for the operation in programs, by the floats that it is compiled for."""
        return zlib.crc32(f"{self.name}.{floats}".encode()) >> 1

    def __call__(
        self,
        rows: int,
        *arguments: jax.Array,
        results: Sequence[jax.ShapeDtypeStruct],
        aliases: Mapping[int, int] | None = None,
    ) -> Sequence[jax.Array]:
        """Return the results, in a program that runs on a CPU.

        Args:
          rows: how many are to be filled.
          results: their shapes and dtypes.
          aliases: from the number of an argument to that of a result that starts as a copy of it, or in its place.
        """
        if not fits(*arguments, *results):
            dtypes = [*(str(x.dtype) for x in arguments), *(str(x.dtype) for x in results)]
            raise TypeError(f"{self.run.__name__} of {dtypes}")
        given = {*(np.dtype(x.dtype) for x in arguments), *(np.dtype(x.dtype) for x in results)}
        floats = "float64" if np.dtype("float64") in given else "float32"
        if not shapes_alone.get():
            _ask(self, floats)
            _handler()
        elif jax.default_backend() == "cpu":
            _ask(self, floats)
        after = {argument + 1: result for argument, result in (aliases or {}).items()}
        call = jax.ffi.ffi_call(NAME, tuple(results), input_output_aliases=after)
        return call(np.array([self.key(floats), rows], np.int32), *arguments)


def _ask(operation: Operation, floats: str) -> None:
    """Request the compilation of an operation that is not compiled, or that failed the last time; a program that calls
    it before that waits."""
    waiting = tasks() if runtime.cores() > 1 else None
    with _lock:
        key = operation.key(floats)
        place = _places.get(key, OPERATIONS + 2 * len(_places))
        if key in _places and _shared[place + 1] != FAILED:
            return
        if place == len(_shared):
            raise RuntimeError(f"{operation.name} is operation {MOST + 1}, and programs can know {MOST}")
        _shared[place] = _shared[place + 1] = NOWHERE
        _places[key] = place
        if waiting:
            waiting.put(functools.partial(_register, operation, floats, place))
        else:
            _register(operation, floats, place)


def expect(*operations: Operation) -> None:
    """Request the compilation of operations that programs will soon call with float32, while this process does other
    work; not where it has one core.

    Copies of this process compile them, where it can be copied and they are not cached.
    """
    if runtime.cores() > 1:
        if can_be_copied() and not all(_kept(operation, "float32") for operation in operations):
            copy_this(compile_one)
        if not _made:
            tasks().put(_handler_ahead)
        for operation in operations:
            _ask(operation, "float32")


def _register(operation: Operation, floats: str, place: int, elsewhere: Elsewhere | None = None) -> None:
    """Compile an operation, in another process if there is one, and put its address, and then the key that is in programs, where the handler finds them."""
    address = FAILED
    try:
        given = operation.of(floats), _signature(floats), operation.fastmath
        ours = operation.name.split(".")[0] == PACKAGE
        if elsewhere and ours and not _kept(operation, floats):
            elsewhere.compile(operation.name, floats)
        with _loading:
            _compiled_operations[place] = _callback(*given)
        address = _compiled_operations[place].address
    except Exception as error:
        log.error(f"{operation.name} was not compiled: {reason(error)}")
    finally:
        _shared[place + 1] = address
        _shared[place] = operation.key(floats)


def _kept(operation: Operation, floats: str) -> bool:
    return is_kept(operation.of(floats), _signature(floats), **_options(operation.fastmath))


def compile_one(name: str, floats: str = "") -> None:
    """Compile and keep an operation by its name and its floats, or what a function calls."""
    module, _, function = name.rpartition(".")
    found = importlib.import_module(module)
    if name in _operations:
        operation = _operations[name]
        _callback(operation.of(floats), _signature(floats), operation.fastmath)
    else:
        getattr(found, function)()


def _signature(floats: str):
    return types.void(types.intp, types.intp, FRAMES[floats])


def _options(fastmath: Set[str]) -> dict[str, Any]:
    return {"error_model": "numpy", "fastmath": set(fastmath)}


def _callback(function: Callable, signature, fastmath: Set[str] = frozenset()) -> Any:
    """Return a function that machine code can call, by its address."""
    return numba.cfunc(signature, cache=True, **_options(fastmath))(function)


def _handler(elsewhere: Elsewhere | None = None) -> None:
    """Compile the function that XLA calls and register it with XLA, unless that is done; another process compiles it, if there is one."""
    with _handling:
        version = ffi_version()
        assert version is not None  # as whoever calls an operation asked `usable`
        if _made:
            return
        if elsewhere and not is_kept(handle, HANDLES, **_options(frozenset())):
            elsewhere.compile(f"{__name__}.{_callbacks.__name__}")
        with _loading:
            helper, handler = _callbacks()
        _shared[:OPERATIONS] = *version, runtime.cores(), helper.address, ctypes.addressof(NOT_COMPILED)
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype, new_capsule.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        jax.ffi.register_ffi_target(NAME, new_capsule(handler.address, None, None), platform="cpu")
        _made.extend((helper, handler))


def _handler_ahead(elsewhere: Elsewhere) -> None:
    with contextlib.suppress(Exception):  # whoever calls an operation tries again, and says why
        _handler(elsewhere)


def _callbacks() -> tuple[Any, Any]:
    llvm.add_symbol(SHARED, _shared.ctypes.data)
    return _callback(help_out, types.void(types.intp)), _callback(handle, HANDLES)
