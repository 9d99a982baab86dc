"""Meters of a run: programs compiled, the time of a step's parts, rises of the loss, and versions of libraries."""

import platform
import time
from collections import deque
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from hetjax.system.internals import COMPILED, READ_FROM_CACHE
from hetjax.system.version import __version__

STEEP, LOUD = 20.0, 1.0  # a loss over `LOUD`, and so many times that of two steps before, is said


class ProgramCounter:
    """The counter of the programs that are made while this process runs.

    Attributes:
      count: all of them.
      kept: the programs that were read from jax's cache rather than compiled.
    """

    def __init__(self):
        self.count = self.kept = 0
        import jax  # here, because help and errors of the command line need no more of this file than its words

        jax.monitoring.register_event_duration_secs_listener(self._made)
        jax.monitoring.register_event_listener(self._read)

    def _made(self, event: str, duration_secs: float, **_: str | int) -> None:
        self.count += event == COMPILED

    def _read(self, event: str, **_: str | int) -> None:
        self.kept += event == READ_FROM_CACHE


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    names = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "numba")
    here = {"python": platform.python_version(), "hetjax": __version__}
    return here | {name: version(name) for name in names}


class Rises:
    """The detector of a loss that rises steeply, which is reported once.

    Args:
      before: the losses of the two steps before, of a run that is continued.
    """

    def __init__(self, before: Sequence[float] = ()):
        self.before: deque[float] = deque(before, maxlen=2)
        self.said = False

    def note(self, loss: float) -> str:
        """Return the message about the loss of the next step: empty, or a text that may help.

        It is steep where it is over 1 (a guess among three classes) and twenty times the lowest of the two steps before.
        """
        lowest = min(self.before, default=loss)
        self.before.append(loss)
        if self.said or loss < LOUD or loss < STEEP * abs(lowest):
            return ""
        self.said = True
        return (
            f"the loss rose from {lowest:.3g} to {loss:.3g} within two steps; a lower --train.learning_rate may help, "
            "or --model.norm layer, --train.gradient_clip 1, or features that are scaled to about 1"
        )


class Clock:
    """The clock of the parts of a step."""

    def __init__(self):
        self.laps: dict[str, list[float]] = {}

    def start(self) -> None:
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.note(name, now - self.last)
        self.last = now

    def note(self, name: str, seconds: float) -> None:
        self.laps.setdefault(name, []).append(seconds)

    def medians(self) -> dict[str, float]:
        """Return the median milliseconds of each part."""
        return {name: round(1000 * float(np.median(laps)), 2) for name, laps in self.laps.items()}
