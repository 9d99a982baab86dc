"""What a checkpoint says of how far a run is, held against what a run can say: it decides what is kept and what is cut."""

import math
from typing import Any

from hetjax.checkpoint import Checkpoint
from hetjax.errors import InputError

COUNTS, SUMS = ("epoch", "step", "nodes", "metrics_bytes"), ("loss_sum", "seconds")
KEYS = (*COUNTS, *SUMS, "best", "graph", "capacities")
OF_BEST, QUALITY = ("step", "epoch"), ("loss", "accuracy", "micro_f1", "macro_f1")
MOST, MOST_ROWS = 2**53, 2**31  # of any count, and of what a batch has room for


def check_progress(given: dict[str, Any]) -> None:
    """Raise a ValueError for the first key or value that no run writes."""
    for key in sorted(given.keys() ^ set(KEYS)):
        raise ValueError(f"{key[:40]} is missing, or not known")
    for name in COUNTS:
        _count(name, given[name])
    for name in SUMS:
        _number(name, given[name])
    if not isinstance(given["graph"], str):
        raise ValueError("graph is no text")
    if not isinstance(given["capacities"], dict):
        raise ValueError("capacities are no dictionary")
    for name, room in given["capacities"].items():
        _count(f"the capacity of {name[:80]}", room, MOST_ROWS)
    if given["best"] is not None:
        for name in OF_BEST:
            _count(f"best.{name}", given["best"][name])
        for name in QUALITY:
            _number(f"best.{name}", given["best"][name])


def check_step(given: dict[str, Any], checkpoint: Checkpoint, steps: int) -> None:
    """Raise an InputError where the progress is that of another step than the checkpoint's, at so many steps an epoch."""
    said = given["epoch"] * steps + given["step"]
    if said != checkpoint.step:
        raise InputError(
            f"{checkpoint.folder / 'progress.json'}: step {said} of the run != {checkpoint.step}, the checkpoint's; "
            "move this checkpoint away, or give another --workdir"
        )


def _count(name: str, value: Any, most: int = MOST) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r:.40}, and should be a whole number up to {most}")


def _number(name: str, value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {value!r:.40}, and should be a number")
