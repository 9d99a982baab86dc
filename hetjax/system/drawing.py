"""Conventions of all pictures: names are drawn as they are, and a picture that fails does not cost the results that it shows."""

import contextlib
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetjax.system import durable
from hetjax.system.errors import reason
from hetjax.system.logs import log

NAME = 40  # characters of a name that are drawn


def kept(make: Callable) -> Callable:
    """Decorate a function that makes a file, its last `Path` argument: an error is logged in one line, and no file is left."""

    @functools.wraps(make)
    def made(*args, **kwargs) -> None:
        file = next(argument for argument in reversed([*args, *kwargs.values()]) if isinstance(argument, Path))
        try:
            make(*args, **kwargs)
        except Exception as error:
            with contextlib.suppress(OSError):
                if file.is_file():
                    file.unlink()
            log.warning(f"no {file.name}: {reason(error)}")

    return made


def picture(draw: Callable) -> Callable:
    """Decorate a function that draws a file, its last `Path` argument, as `kept` does. A dollar sign in a name starts no formula."""

    @kept
    @functools.wraps(draw)
    def drawn(*args, **kwargs) -> None:
        import matplotlib

        with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a glyph that is missing, no room for a label
            draw(*args, **kwargs)

    return drawn


def shown(name: str) -> str:
    """Return a name as it is drawn: without its middle if it is long, and with escapes for what no font can have."""
    name = " ".join(name.encode("utf-8", "backslashreplace").decode().split())
    return name if len(name) <= NAME else f"{name[: NAME // 2]}...{name[-NAME // 2 :]}"


def headless_pyplot() -> Any:
    """Return Matplotlib's pyplot without a screen. Its import is slow."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, file: Path) -> None:
    """Write a figure, whole or not at all."""
    with durable.new_file(file) as partial:
        figure.savefig(partial, dpi=120, format=file.suffix[1:])
