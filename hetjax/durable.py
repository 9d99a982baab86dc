"""Files and folders that appear whole or not at all, also when the power goes."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from hetjax.errors import InputError
from hetjax.internals import tensorstore_errno


@contextmanager
def writing(path: str | os.PathLike, besides: str = "") -> Iterator[None]:
    """What the system refuses while `path` is written, a full disk say, is an `InputError` that names it.

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
    """What the system said, if it is the system that refused; tensorstore, deep in Orbax, says it by its number."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    number = tensorstore_errno(error)
    return None if number is None else os.strerror(number)


def check_new(path: str | os.PathLike) -> None:
    """Raise an `InputError` where there is something at `path` already, or it can be no path."""
    if "\0" in os.fsdecode(path):
        raise InputError(f"{os.fsdecode(path)!r}: is no name of a folder")
    with writing(path):
        if os.path.lexists(path):
            raise InputError(f"{path}: exists already; it is to be a new folder")
        Path(path).exists()  # unlike `lexists` says when a name is too long


def check_replaceable(file: Path, overwrite: bool) -> None:
    """Raise an `InputError` unless `file` is a new name in a folder, or a regular file that may be overwritten."""
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
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """A folder to write into, which becomes the new folder `path` when all is written; on an error nothing is left.

    Raises:
      InputError: `path` exists, or cannot be written.
    """
    check_new(path)
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with writing(path):
            partial.mkdir(parents=True)
            yield partial
            rename(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(file: Path) -> Iterator[Path]:
    """A file to write, which takes the place of `file` when all is written; on an error that is as it was.

    Raises:
      InputError: it cannot be written.
    """
    partial = file.with_name(f".{file.name}.partial")
    with writing(file):
        partial.unlink(missing_ok=True)
        try:
            yield partial
            rename(partial, file)
        finally:
            partial.unlink(missing_ok=True)


def write(file: Path, text: str) -> None:
    """Write a text, in place of a file that may be there; errors as `new_file`."""
    with new_file(file) as partial:
        partial.write_text(text)


def write_array(file: Path, array: np.ndarray) -> None:
    """Write a `.npy`, under its own name from the start."""
    with open(file, "xb") as stream:  # given the file itself, numpy would not say why it could not write
        if not array.flags.c_contiguous:
            np.save(SimpleNamespace(write=stream.write), array, allow_pickle=False)
        else:  # without the copies that numpy makes for anything but a file
            np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
            stream.write(array.data)


def rename(partial: Path, path: Path) -> None:
    """Give a file, or a folder with all that is in it, its name, once the disk has it."""
    for entry in (partial, *sorted(partial.rglob("*"))):
        sync(entry)
    partial.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Write what a file or a folder has to the disk, as far as the file system does so.

    Raises:
      OSError: it is no folder, and cannot be written.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():  # not every file system does so with folders
            os.fsync(handle)
    finally:
        os.close(handle)
