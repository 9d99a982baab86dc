"""Versioned JSON files: read within a bound, and refused where the format or the version is another."""

import json
from pathlib import Path

from hetjax.errors import InputError

LARGEST = 64 * 2**20  # bytes


def read(file: Path, kind: str, version: int, what: str, hint: str) -> dict:
    """The keys and values of a file of format `kind` and of this version; nothing else of it is checked.

    Args:
      what: the file is, for an error: `a schema`.
      hint: where it comes from, for when it cannot be read.

    Raises:
      InputError: a missing, oversized or unreadable file, or another format or version.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise ValueError(f"{file.stat().st_size} bytes, and {what} has at most {LARGEST}")
        given = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; {hint}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: {error}") from None
    about = (given.get("format"), given.get("version")) if isinstance(given, dict) else (None, None)
    if about != (kind, version):
        raise InputError(
            f"{file}: format {about[0]!r} version {about[1]!r}, and this hetjax reads {kind!r} version {version}"
        )
    return given
