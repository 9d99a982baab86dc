"""Memory that compilers free, given back to the system.

Compilers leave free memory in pieces between what they keep, and the arrays of a step do not fit there: a process that keeps freed memory, as
`runtime` asks for, would hold both (docs/strategies/single_results.md, Parts of a step).
"""

import ctypes
import functools
import os

import jax

from hetjax.system.internals import COMPILED
from hetjax.system.runtime import MALLOC


@functools.cache
def trim_after_compiling() -> None:
    """Give all free memory back to the system whenever jax has made a program, if this process keeps it as `runtime.prepare` asks for."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None or os.environ.get("GLIBC_TUNABLES") != MALLOC:
        return
    trim.argtypes = [ctypes.c_size_t]

    def made(event: str, duration_secs: float, **_: str | int) -> None:
        if event == COMPILED:
            trim(0)

    jax.monitoring.register_event_duration_secs_listener(made)
