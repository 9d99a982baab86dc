"""Operations compiled by a process of its own: numba is Python, and of one process's threads one at a time runs Python.

That process reads a line per operation: its name, and floats. It has numba compile the operation and keep it, and answers with the same line. It ends
when there are no more lines.
"""

import atexit
import os
import subprocess
import sys
import threading
import time

# It imports from where this process does, and nothing but that.
CODE = "import sys; sys.path[:] = sys.argv[1:]; from hetjax.compiling import main; main()"


class Elsewhere:
    """That process, which is there as long as something is to be compiled."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None
        self.leaving = threading.Event()
        atexit.register(self.leave)

    def compile(self, name: str, floats: str) -> None:
        """Wait until an operation of this package is compiled and kept; where the other process cannot do it, it is left to this one."""
        line = f"{name} {floats}\n"
        try:
            self.process = self.process or _started()
            assert self.process.stdin and self.process.stdout  # as they are pipes
            self.process.stdin.write(line)
            self.process.stdin.flush()
            done = line in self.process.stdout  # whatever else libraries print before it
        except (OSError, ValueError, TypeError):  # it could not be started, or has ended
            done = False
        if not done:
            self.end()
        while self.leaving.is_set():  # nothing more is compiled, which could be cut off anywhere
            time.sleep(1)

    def leave(self) -> None:
        """This process ends."""
        self.leaving.set()
        self.end()

    def end(self) -> None:
        """End the other process, if there is one: what it compiles now would be for nobody."""
        process, self.process = self.process, None
        if process:
            process.kill()
            process.communicate()


def _started() -> subprocess.Popen:
    command, pipe = [sys.executable, "-P", "-c", CODE, *sys.path], subprocess.PIPE
    return subprocess.Popen(
        command, text=True, start_new_session=True, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    )


def main() -> None:
    """Compile what is asked for, line by line."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from hetjax import native

    for line in sys.stdin:
        native.compile_one(*line.split())
        print(line, end="", flush=True)
