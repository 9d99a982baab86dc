"""The one exception that a user's input can cause, and the one line that is printed for an error."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

LONGEST = 500  # characters of an error's own words that are shown


class InputError(ValueError):
    """Error of the user's input: a file, a graph, a configuration.

    The message is one line that names the file, the place and both values. Command lines print it and exit with status 2.
    """


@contextmanager
def reading(source: str | os.PathLike) -> Iterator[None]:
    """Raise whatever goes wrong while an input is read or used as an `InputError` that names the input.

    For the outermost door of a kind of input (a file, an option): what no check below foresaw is still one line. The
    exception that was raised is its `__cause__`.

    Args:
      source: the input's name, such as a file's path.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{source}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return what is wrong with an input, on one line of bounded length, from the error that reading it raised."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = short(str(error))
    if isinstance(error, InputError):
        return text
    return f"lacks {text}" if isinstance(error, KeyError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def ending(error: Exception) -> tuple[str, int] | None:
    """Return the line and the exit status that a command ends with if the user can mend the error; None: it is a fault of hetjax.

    Status 2 is for input and for what the system refuses, 1 for a run that diverged.
    """
    if isinstance(error, FloatingPointError):
        return str(error), 1
    if isinstance(error, InputError):
        return str(error), 2
    if isinstance(error, OSError):  # no command can know beforehand what the system will refuse
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{name}{reason(error)}", 2
    if isinstance(error, MemoryError):
        return f"out of memory: {error}", 2
    return None


def short(text: str, most: int = LONGEST) -> str:
    """Return a text on one line, and no longer than `most` characters and three points."""
    text = " ".join(text[: 2 * most].split()) + text[2 * most :][:1]
    return text if len(text) <= most else f"{text[:most]}..."


def nearest(name: str, names: Sequence[str], prefix: str = "") -> str:
    """Return the end of a line that says a name is not known: the nearest name that is, or all of them."""
    near = get_close_matches(str(name), names, 1, 0.4)
    return f"; the nearest known one is {prefix}{near[0]}" if near else f"; known are {', '.join(names)}"
