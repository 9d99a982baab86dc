"""Threads that request compilations in turn, each with another process at hand, while programs are traced and compiled."""

import contextlib
import functools
import queue
import threading
from collections.abc import Callable

import numba
from numba import types

from hetjax.kernels.native.elsewhere import Copy, Elsewhere
from hetjax.system import runtime
from hetjax.system.internals import jax_started

COMPILERS = 2  # processes that compile
LINGER = 5  # seconds that one stays, as more may be asked for soon

_copies: list[Copy] = []  # that nothing is asked of yet


@functools.cache
def tasks() -> queue.SimpleQueue:
    """Return the queue of compilations, which some threads work off while programs are traced and compiled; no end of a
    process waits for it."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for _ in range(COMPILERS):
        elsewhere = Elsewhere(_copies.pop() if _copies else None)
        threading.Thread(target=_work_off, args=(waiting, elsewhere), name="operations", daemon=True).start()
    return waiting


def can_be_copied() -> bool:
    """Return whether it is safe to copy this process: it has no other Python thread, and jax has not started."""
    return threading.active_count() == 1 and not jax_started()


def copy_this(compile_one: Callable[..., None]) -> None:
    """Let the processes that compile be copies of this one, as far as they can be made.

    Numba compiles something first: its registries are then loaded, and copies need not load them.

    Args:
      compile_one: compiles an operation in a copy, as of `Copy`.
    """
    numba.njit(types.void())(_nothing)
    with contextlib.suppress(OSError, AssertionError):
        while len(_copies) < COMPILERS:
            _copies.append(Copy(compile_one, tuple(_copies)))


def _nothing() -> None:
    pass


def _work_off(tasks: queue.SimpleQueue, elsewhere: Elsewhere) -> None:
    """Compile the tasks one after the other, each with another process at hand that compiles."""
    while True:
        try:
            task = tasks.get(timeout=LINGER if elsewhere.process else None)
        except queue.Empty:
            elsewhere.end()
        else:
            task(elsewhere)


def expect_calls(name: str) -> None:
    """Call a function of this package, by its name, in a process that compiles already, so that numba caches what it
    compiles for it; if there is none, all is cached."""
    if runtime.cores() > 1:
        tasks().put(lambda elsewhere: elsewhere.process and elsewhere.compile(name))
