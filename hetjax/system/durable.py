"""Files and folders that appear whole or not at all, also when the power goes."""

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from hetjax.system.errors import InputError
from hetjax.system.files import check_name
from hetjax.system.internals import tensorstore_errno


@contextmanager
def writing(path: str | os.PathLike, besides: str = "") -> Iterator[None]:
    """Raise what the system refuses while `path` is written, a full disk for example, as an `InputError` that names it.

    Args:
      path: what is written.
      besides: what else there is to say, such as what became of what was there.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        words = _refusal(error)
        if words is None:
            raise
        raise InputError(f"{path}: {words}{besides and f'; {besides}'}") from error


def _refusal(error: Exception) -> str | None:
    """Return what the system said, if it was the system that refused. tensorstore, deep in Orbax, gives the number of the error."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    number = tensorstore_errno(error)
    return None if number is None else os.strerror(number)


def check_new(path: str | os.PathLike) -> None:
    """Raise an `InputError` where there is something at `path` already, or it can be no path."""
    check_name(path)
    with writing(path):
        if os.path.lexists(path):
            raise InputError(f"{path}: exists already; it is to be a new folder")
        Path(path).exists()  # unlike `lexists` says when a name is too long


def check_replaceable(file: Path, overwrite: bool) -> None:
    """Raise an `InputError` unless `file` is a new name in a folder, or a regular file that may be overwritten."""
    check_name(file)
    with writing(file):
        if not file.parent.is_dir():
            raise InputError(f"{file.parent}: no such folder")
        try:
            mode = file.lstat().st_mode
        except FileNotFoundError:
            return
    if not stat.S_ISREG(mode):
        raise InputError(f"{file}: is no regular file, and is left as it is")
    if not overwrite:
        raise InputError(f"{file}: exists already; --overwrite replaces it")


@contextmanager
def parents(path: str | os.PathLike) -> Iterator[None]:
    """Make the folders above `path` that are missing. Those that are empty are removed again if the block fails.

    Raises:
      InputError: the system refuses.
    """
    folder = Path(path).parent
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for one in missing:
            with suppress(OSError):  # another process has written there since
                one.rmdir()
        raise


@contextmanager
def reserved(path: str | os.PathLike, alone: bool = True) -> Iterator[Path]:
    """Yield a new, empty folder `.NAME.TOKEN.partial` beside `path`, which is deleted at the end.

    This process holds a lock on it for as long as it exists. So one that nobody holds is of a process that was killed, and
    the next one that writes to `path` deletes it.

    Args:
      path: what is to be written.
      alone: refuse to write what another process is writing now.

    Raises:
      InputError: another process is writing to `path`, or the system refuses.
    """
    check_name(path)
    path = Path(path)
    form = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.partial")
    with ExitStack() as cleanup:
        with writing(path):
            partial = _made_and_locked(path, cleanup)
            cleanup.callback(shutil.rmtree, partial, ignore_errors=True)
            others = [entry for entry in path.parent.iterdir() if form.fullmatch(entry.name) and not entry.is_symlink()]
            busy = [other.name for other in others if other != partial and not _gone(other)]
            if alone and busy:
                raise InputError(f"{path}: another process is writing it now, in {busy[0]}")
        yield partial


def _made_and_locked(path: Path, cleanup: ExitStack) -> Path:
    """Return a new, locked folder for what is written to `path`. It is made again if another process took it for abandoned."""
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        partial.mkdir()
        handle = _opened(partial)
        with suppress(OSError):  # this file system has no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if partial.exists():
            cleanup.callback(os.close, handle)
            return partial
        os.close(handle)


def _gone(folder: Path) -> bool:
    """Delete a folder that `reserved` made, unless a process holds it. Return whether no process does."""
    try:
        handle = _opened(folder)
    except OSError:  # it is gone by now
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        return True
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


@contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a folder to write into, which becomes the new folder `path` when all is written. On an error nothing is left.

    Raises:
      InputError: `path` exists, is being written by another process, or cannot be written.
    """
    check_new(path)
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with reserved(path) as partial:
            yield partial
            check_new(path)
            rename(partial, path)


@contextmanager
def new_file(file: Path, alone: bool = True) -> Iterator[Path]:
    """Yield a file to write, which takes the place of `file` when all is written. On an error `file` is as it was.

    Args:
      alone: refuse to write what another process is writing now; if not, the last one to finish wins.

    Raises:
      InputError: it cannot be written, or another process writes it.
    """
    with writing(file), reserved(file, alone) as folder:
        yield folder / file.name
        rename(folder / file.name, file)


def write(file: Path, text: str) -> None:
    """Write a text in UTF-8 in place of a file that may exist. Errors are those of `new_file`; of several writers the last wins."""
    with new_file(file, alone=False) as partial:
        partial.write_text(text, encoding="utf-8")


def write_array(file: Path, array: np.ndarray) -> None:
    """Write a `.npy`, under its own name from the start."""
    with open(file, "xb") as stream:  # given the file itself, numpy would not say why it could not write
        if not array.flags.c_contiguous:
            np.save(SimpleNamespace(write=stream.write), array, allow_pickle=False)
        else:  # without the copies that numpy makes for anything but a file
            np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
            stream.write(array.data)


def rename(partial: Path, path: Path) -> None:
    """Rename a file, or a folder with all that is in it, once the disk has it."""
    for entry in (partial, *sorted(partial.rglob("*"))):
        sync(entry)
    partial.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Write the content of a file or a folder to the disk, as far as the file system does so.

    Raises:
      OSError: it is no folder, and cannot be written.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():  # not every file system does so with folders
            os.fsync(handle)
    finally:
        os.close(handle)
