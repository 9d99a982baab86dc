"""The one exception that a user's input can cause."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 500  # characters of an error's own words that are shown


class InputError(ValueError):
    """Something the user gave is wrong: a file, a graph, a config.

    The message is one line that names the file, the place and both values. Command lines print it and exit with status 2.
    """


@contextmanager
def reading(source: str | os.PathLike) -> Iterator[None]:
    """Whatever goes wrong while an input is read or used is an `InputError` that names the input.

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
    """What is wrong with an input, on one line of bounded length, from what reading it raised."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = short(str(error))
    if isinstance(error, InputError):
        return said
    return f"lacks {said}" if isinstance(error, KeyError) else f"{type(error).__name__}: {said}".removesuffix(": ")


def short(text: str, most: int = LONGEST) -> str:
    """A text on one line, and no longer than `most` characters and three points."""
    text = " ".join(text[: 2 * most].split()) + text[2 * most :][:1]
    return text if len(text) <= most else f"{text[:most]}..."
