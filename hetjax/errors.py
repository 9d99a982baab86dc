"""The one exception that a user's input can cause."""


class InputError(ValueError):
    """Something the user gave is wrong: a file, a graph, a config.

    The message is one line that names the file, the place and both values. Command lines print it and exit with status 2.
    """
