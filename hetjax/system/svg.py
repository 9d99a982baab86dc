"""Pictures as vector graphics inside a page, which then needs no other file."""

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

WIDTH = 5.2  # inches: on a phone the text can still be read


def drawn(place: Path, draw: Callable, *args: Any) -> str:
    """Return what a function draws into a file, its last argument, as the address of an image; empty if it fails.

    Args:
      place: a folder, where the file is while it is drawn.
    """
    with tempfile.TemporaryDirectory(prefix=".report-", dir=place) as folder:
        file = Path(folder, "picture.svg")
        draw(*args, file)
        return address(file, "svg+xml")


def address(file: Path, kind: str) -> str:
    """Return an image as an address that needs no other file."""
    return f"data:image/{kind};base64,{base64.b64encode(file.read_bytes()).decode()}" if file.exists() else ""
