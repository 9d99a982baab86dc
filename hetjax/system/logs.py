"""hetjax's messages: by Python's `logging`, as "hetjax", so that a program that uses it can quiet it, or send it elsewhere.

A command shows results on stdout, and on stderr what went wrong or may surprise; `--verbose` has it show details too.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

log = logging.getLogger("hetjax")

PREFIXES = {logging.WARNING: "hetjax: ", logging.ERROR: "hetjax: error: "}


class Plain(logging.Handler):
    """Handler that shows messages as they are, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = PREFIXES.get(record.levelno, "")
        try:
            tqdm.write(prefix + record.getMessage(), file=sys.stderr if prefix else sys.stdout)
        except BrokenPipeError:  # who read it has ended, as `head` does: the work goes on
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), (sys.stderr if prefix else sys.stdout).fileno())
        except Exception:
            self.handleError(record)


@contextmanager
def shown(verbose: bool = False) -> Iterator[None]:
    """Show messages as a command does: details too if it is `verbose`."""
    handler, before = Plain(), (log.level, log.propagate)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before
        log.setLevel(before[0])


@contextmanager
def timed(part: str) -> Iterator[None]:
    """Log, as a detail, how many seconds a part took."""
    started = time.perf_counter()
    yield
    log.debug(f"{part}: {time.perf_counter() - started:.2f} s")


def hides_bar() -> bool | None:
    """Return tqdm's `disable`: a bar is for terminals and notebooks, unless a program asked for less than results.

    It does so by `logging.getLogger("hetjax").setLevel(logging.WARNING)`.
    """
    if log.level > logging.INFO:
        return True
    return False if "ipykernel" in sys.modules else None


def counted(number: int, word: str) -> str:
    """Return a number of things in words: `1 relation`, `2 relations`."""
    return f"{number:,} {word}{'s' * (number != 1)}"
