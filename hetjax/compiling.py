"""Operations compiled by a process of its own: numba is Python, and of one process's threads one at a time runs Python.

`python -m hetjax.compiling` reads a line per operation: its name, and floats. It has numba compile the operation and keep it, and
answers with the same line. It ends when there are no more lines.
"""

import atexit
import os
import subprocess
import sys
from pathlib import Path


class Elsewhere:
    """That process, which is started when something is to be compiled for the first time."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None

    def compile(self, name: str, floats: str) -> None:
        """Wait until an operation is compiled and kept; where the other process cannot do it, it is left to this one."""
        line = f"{name} {floats}\n"
        try:
            self.process = self.process or _started()
            assert self.process.stdin and self.process.stdout  # as they are pipes
            self.process.stdin.write(line)
            self.process.stdin.flush()
            done = self.process.stdout.readline() == line
        except (OSError, ValueError):  # it could not be started
            return
        if not done:  # it has ended
            self.process = None


def _started() -> subprocess.Popen:
    """It imports this package from where it is, and needs no accelerator."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    command, environment = [sys.executable, "-m", __name__], os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=environment, text=True, start_new_session=True, stdin=pipe, stdout=pipe, stderr=nowhere
    )
    atexit.register(_ended, process)
    return process


def _ended(process: subprocess.Popen) -> None:
    """Leave nothing behind: what it compiles now would be for nobody."""
    process.kill()
    process.communicate()


def main() -> None:
    """Compile what is asked for, line by line."""
    from hetjax import native

    for line in sys.stdin:
        native.compile_one(*line.split())
        print(line, end="", flush=True)


if __name__ == "__main__":
    main()
