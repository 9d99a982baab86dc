"""Files and folders that appear whole or not at all, also when the power goes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np

from hetjax.errors import InputError


@contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """A folder to write into, which becomes the new folder `path` when all is written; on an error nothing is left.

    Raises:
      InputError: `path` exists, or cannot be written.
    """
    path = Path(path)
    if path.exists():
        raise InputError(f"{path}: exists already; it is to be a new folder")
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        rename(partial, path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write(file: Path, text: str) -> None:
    """Write a file, in place of one that may be there."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(text)
    rename(partial, file)


def save(file: Path, array: np.ndarray) -> None:
    """Write a `.npy`, in place of one that may be there.

    Raises:
      InputError: it cannot be written.
    """
    partial = file.with_name(f".{file.name}.partial")
    try:
        with open(partial, "wb") as stream:
            np.save(stream, array, allow_pickle=False)
        rename(partial, file)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def rename(partial: Path, path: Path) -> None:
    """Give a file, or a folder with all that is in it, its name, once the disk has it."""
    for one in (partial, *sorted(partial.rglob("*"))):
        _sync(one)
    partial.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():  # not every file system does so with folders
            os.fsync(handle)
    finally:
        os.close(handle)
