"""Versioned JSON files: read within a bound, and refused where the format or the version is another."""

import json
import reprlib
import stat
from pathlib import Path

from hetjax.system import files
from hetjax.system.errors import InputError, reading

LARGEST = 64 * 2**20  # bytes


def read(file: Path, kind: str, version: int, what: str, hint: str) -> dict:
    """Return the keys and values of a file of format `kind` and of this version; nothing else of it is checked.

    Args:
      what: the file is, for an error: `a schema`.
      hint: where it comes from, for when it cannot be read.

    Raises:
      InputError: a missing, oversized or unreadable file, or another format or version.
    """
    files.check_name(file)
    try:
        status = file.stat()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; {hint}") from None
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{file}: is no regular file; {hint}")
    if status.st_size > LARGEST:
        raise InputError(f"{file}: {status.st_size} bytes, and {what} has at most {LARGEST}")
    with reading(file):
        content = json.loads(files.read_text(file))
    header = (content.get("format"), content.get("version")) if isinstance(content, dict) else (None, None)
    if header != (kind, version):
        raise InputError(
            f"{file}: format {reprlib.repr(header[0])} version {reprlib.repr(header[1])}, and this hetjax reads {kind!r} version {version}"
        )
    return content
