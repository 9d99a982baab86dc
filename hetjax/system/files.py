"""The one way in which hetjax opens a file that it reads: a regular file, of bounded size where all of it is read at once."""

import os
import stat
import sys
from io import BufferedReader
from pathlib import Path

from hetjax.system.errors import InputError, short

MOST_TEXT = 2**30  # bytes of a file that is read at once, unless the caller allows fewer
KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def check_name(path: str | os.PathLike, utf8: bool = False) -> None:
    """Raise an `InputError` where no file can have such a name, as one with a NUL character.

    Args:
      path: a relative or absolute path.
      utf8: refuse a name that is no UTF-8 too, for libraries that take no other.
    """
    name = os.fsdecode(path) if isinstance(path, bytes) else os.fspath(path)
    try:
        encoded = os.fsencode(name)
        if utf8:
            encoded.decode("utf-8")
            name.encode("utf-8")
    except UnicodeError:
        encoding = sys.getfilesystemencoding()
        hint = (
            ""
            if encoding == "utf-8"
            else f"; file names are encoded in {encoding} here: start Python with PYTHONUTF8=1"
        )
        raise InputError(f"{short(ascii(name))}: is no name of a file or folder in UTF-8{hint}") from None
    if b"\0" in encoded:
        raise InputError(f"{short(ascii(name))}: has a NUL character, and no file or folder can have such a name")


def open_regular(file: str | os.PathLike, follow: bool = True) -> BufferedReader:
    """Open a regular file to read bytes; a named pipe, device, socket or folder is refused at once, and nothing of it is read.

    Args:
      file: its path.
      follow: whether the path may be a symbolic link to a regular file.

    Raises:
      InputError: it is no regular file.
      OSError: the system refuses to open it.
    """
    check_name(file)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(file, flags)
    except OSError:
        check_regular(file)  # a socket cannot be opened; say what it is
        raise
    try:
        _check(os.fstat(handle).st_mode, file)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_regular(file: str | os.PathLike) -> None:
    """Raise an `InputError` where something exists at `file` that is no regular file, for libraries that open it by its path."""
    check_name(file)
    try:
        mode = os.stat(file).st_mode
    except OSError:
        return
    _check(mode, file)


def read_bytes(file: str | os.PathLike, most: int = MOST_TEXT) -> bytes:
    """Return all bytes of a regular file.

    Raises:
      InputError: it is no regular file, or has over `most` bytes.
      OSError: the system refuses to read it.
    """
    with open_regular(file) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{os.fspath(file)}: over {most:,} bytes, which is more than such a file has")
    return content


def read_text(file: str | os.PathLike, most: int = MOST_TEXT) -> str:
    """Return the text of a regular file in UTF-8. Errors are those of `read_bytes`, and `UnicodeDecodeError`."""
    return read_bytes(file, most).decode("utf-8").replace("\r\n", "\n")


def _check(mode: int, file: str | os.PathLike) -> None:
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "something else")
        raise InputError(f"{Path(file)}: is no regular file but {kind}, and only regular files are read")
