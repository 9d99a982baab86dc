"""Threads that have things compiled in turn, each with another process at hand, while programs are traced and compiled."""

import functools
import queue
import threading

from hetjax import runtime
from hetjax.native.elsewhere import Elsewhere

COMPILERS = 2  # processes that compile
LINGER = 5  # seconds that one stays, as more may be asked for soon


@functools.cache
def tasks() -> queue.SimpleQueue:
    """What some threads do, as numba compiles, while programs are traced and compiled; no end of a process waits for it."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for _ in range(COMPILERS):
        threading.Thread(target=_work_off, args=(waiting, Elsewhere()), name="operations", daemon=True).start()
    return waiting


def _work_off(tasks: queue.SimpleQueue, elsewhere: Elsewhere) -> None:
    """Do one after the other, each with another process at hand that compiles."""
    while True:
        try:
            task = tasks.get(timeout=LINGER if elsewhere.process else None)
        except queue.Empty:
            elsewhere.end()
        else:
            task(elsewhere)


def expect_calls(name: str) -> None:
    """Call a function of this package, by its name, in a process that compiles already, so that numba keeps what it compiles for it; if there is none, all is kept."""
    if runtime.cores() > 1:
        tasks().put(lambda elsewhere: elsewhere.process and elsewhere.compile(name))
