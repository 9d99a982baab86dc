"""The command `hetjax`: `hetjax train ...` is `python -m hetjax.train ...`, and so on for the others; `python -m hetjax` is it too."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from hetjax.options.command_line import run_command
from hetjax.system.errors import InputError, short
from hetjax.system.version import __version__

COMMANDS = {
    "train": "train a model, or go on with a run",
    "predict": "predict with a model that was trained",
    "ingest": "make a store of tables, csv or parquet",
    "convert": "make a store of a graph in another format, or check one",
    "sweep": "search over options of training",
    "partition": "divide a store's graph for several devices or hosts",
    "doctor": "look at this machine, or at a graph, and say what is wrong",
}


def usage() -> str:
    """Return the text that `hetjax --help` prints."""
    lines = [f"  {name:10} {words}" for name, words in COMMANDS.items()]
    return "\n".join(
        [
            "usage: hetjax COMMAND [OPTIONS]; hetjax COMMAND --help has the options",
            "",
            *lines,
            "",
            "  --version  print the version and exit",
            "  --help     print this text and exit",
        ]
    )


def dispatch(arguments: Sequence[str]) -> None:
    """Become the process of a command.

    Raises:
      InputError: there is no such command.
    """
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        print(usage())
    elif name == "--version":
        print(f"hetjax {__version__}")
    elif name in COMMANDS:
        os.execv(sys.executable, [sys.executable, "-m", f"hetjax.{name}", *arguments[1:]])
    else:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(COMMANDS)}"
        raise InputError(f"no command {short(repr(name), 40)}; {hint}")


def main() -> None:
    """The console script."""
    run_command(dispatch)


if __name__ == "__main__":
    main()
