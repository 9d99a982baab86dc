"""Checks of the values of options."""

from typing import Any

from hetjax.system.errors import InputError, short

SHOWN = 100  # characters of a value that an error shows


def require(holds: bool, name: str, value: Any, expected: str) -> None:
    """Raise an InputError that names an option, its value and the values that it takes, unless a condition holds."""
    if not holds:
        raise InputError(f"{name} is {short(str(value), SHOWN)}, and must be {expected}")
