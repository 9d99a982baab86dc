"""Checks of values that a file may give, each error one line with the key and the value."""

import reprlib
from typing import Any

import numpy as np

from hetjax.system.errors import InputError


def require(holds: bool, key: str, value: Any, what: str) -> None:
    """Raise an InputError unless `holds`; a long value is shortened."""
    if not holds:
        raise InputError(f"{key} is {reprlib.repr(value)}, and should be {what}")


def require_whole(key: str, value: Any, most: int) -> None:
    """Raise an InputError unless `value` is a whole number in 1..`most`."""
    require(is_whole(value) and 1 <= value <= most, key, value, f"a whole number in 1..{most}")


def is_whole(value: Any) -> bool:
    """Return whether a value is of a type of whole numbers; true is none, and neither is 2.0."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
