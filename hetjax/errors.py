"""The one exception that a user's input can cause."""


class InputError(ValueError):
    """Something the user gave is wrong: a file, a graph, a config.

    The message is one line that names the file, the place and both values. Command lines print it and exit with status 2.
    """


def reason(error: Exception) -> str:
    """What is wrong with values of which nothing was taken for granted, from what reading them raised."""
    return f"lacks {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
