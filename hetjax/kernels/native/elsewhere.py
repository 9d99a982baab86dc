"""Compilation by separate processes: numba is Python, and of one process's threads one at a time runs Python.

Such a process reads lines: the name of an operation and floats, or the name of a function. It has numba compile the operation, or what the function calls,
and keep it, and answers with the same line. It ends when whoever asks has ended. A copy of this process has imported all that it needs; one can be
made as long as this process does one thing at a time, and jax has not started.
"""

import atexit
import contextlib
import gc
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkProcess
from typing import TextIO

# It imports from where this process does, and nothing but that.
CODE = """import sys; sys.path[:] = sys.argv[1:]
from hetjax.kernels.native import elsewhere, operations
elsewhere.serve(operations.compile_one)"""


class Copy(ForkProcess):
    """A copy of this process that compiles; `Elsewhere` uses it as it does a `subprocess.Popen`.

    Args:
      compile_one: compiles an operation by its name and its floats, or what a function calls.
      others: copies that were made before, whose pipes this one must not hold open.

    Raises:
      OSError: no more processes or files are to be had.
      AssertionError: this is a process of `multiprocessing` that may start no other.
    """

    def __init__(self, compile_one: Callable[..., None], others: Sequence["Copy"] = ()) -> None:
        super().__init__(daemon=True)
        self.compile_one, self.others = compile_one, others
        (asked, asks), (answers, answered) = os.pipe(), os.pipe()
        self.theirs = os.fdopen(asked, encoding="utf-8"), os.fdopen(answered, "w", encoding="utf-8")
        self.stdin, self.stdout = os.fdopen(asks, "w", encoding="utf-8"), os.fdopen(answers, encoding="utf-8")
        try:
            self.start()
        except BaseException:
            self._close(self.stdin, self.stdout)
            raise
        finally:
            self._close(*self.theirs)

    def run(self) -> None:
        """Run the loop of the copy."""
        gc.freeze()  # what is there stays
        gc.enable()
        os.setsid()  # Ctrl-C is for the other
        for copy in (self, *self.others):
            self._close(copy.stdin, copy.stdout)
        sys.stdin, sys.stdout = self.theirs
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)
        serve(self.compile_one)

    def communicate(self) -> None:
        """Wait until it has ended."""
        self.join()
        self._close(self.stdin, self.stdout)

    @staticmethod
    def _close(*files: TextIO) -> None:
        for file in files:
            with contextlib.suppress(OSError):  # who was to read what is written has ended
                file.close()


class Elsewhere:
    """A process that compiles, from the first operation that is to be compiled until `end`.

    Args:
      process: the first one, if there is one already.
    """

    def __init__(self, process: Copy | None = None) -> None:
        self.process: subprocess.Popen | Copy | None = process
        self.leaving = threading.Event()
        atexit.register(self.leave)

    def compile(self, name: str, floats: str = "") -> None:
        """Wait until something of this package is compiled and stored; if the other process cannot do it, this process does."""
        line = f"{name} {floats}\n"
        try:
            self.process = process = self.process or _started()
            assert process.stdin and process.stdout  # as they are pipes
            process.stdin.write(line)
            process.stdin.flush()
            done = line in process.stdout  # whatever else libraries print before it
        except (OSError, ValueError, TypeError):  # it could not be started, or has ended
            done = False
        if not done:
            self.end()
        while self.leaving.is_set():  # nothing more is compiled, which could be cut off anywhere
            time.sleep(1)

    def leave(self) -> None:
        """Stop compiling, as this process ends."""
        self.leaving.set()
        self.end()

    def end(self) -> None:
        """End the other process, if there is one: what it compiles now would be for nobody."""
        process, self.process = self.process, None
        if process:
            process.kill()
            process.communicate()


def _started() -> subprocess.Popen:
    command, environment = [sys.executable, "-P", "-c", CODE, *sys.path], os.environ | {"JAX_PLATFORMS": "cpu"}
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(
        command, env=environment, start_new_session=True, stdin=pipe, stdout=pipe, stderr=nowhere, encoding="utf-8"
    )


def serve(compile_one: Callable[..., None]) -> None:
    """Compile what is asked for, line by line, until whoever asks has ended."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    while True:
        line = lines.get()
        compile_one(*line.split())
        print(line, end="", flush=True)


def _read(lines: queue.SimpleQueue) -> None:
    """Read what is asked for; when whoever asks has ended, end at once."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)
