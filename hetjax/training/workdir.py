"""The folder of a run: the process that may write there, and its content when a run is done."""

import fcntl
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TextIO

import yaml

from hetjax.options import owners, renamed
from hetjax.options.config import Task, flat
from hetjax.options.run_folder import check_folder
from hetjax.system import durable, yaml_file
from hetjax.system.errors import InputError, short

WRITTEN = (
    "metrics.jsonl",
    "checkpoints",
    "summary.json",
    "report.html",
    "*.png",
    "partition_*",
    "tables*",
    "penalties*.json",
    "stacking.npz",
)
FILES = "config.yaml", "metrics.jsonl", "summary.json", "report.html", "curves.png", "cache.png", "stacking.npz"
FOLDERS = "checkpoints", "tables", "tables_[0-9]", "partition_*"
FIXED = {
    "data",
    "model",
    "sampling",
    "train",
    "task",
    *owners.chooser_sections(),
}  # sections that results depend on; others may change when a run is continued
# Of these, what results do not depend on: `order_costs` is in checkpoints.
FREE = (
    "train.loggers",
    "train.order_costs",
    "train.checkpoint_seconds",
    "train.recipe",
    "train.search_share",
    "sampling.threads",
)
LATER = {
    "task.name": Task.name,
    "task.target": Task.target,
}  # options that runs of before do not record, and what they were
MOST_SAID = 200  # characters of the names of options that differ
EPOCHS = "train.epochs"  # which may become more, even of a run that is done, if no schedule is made for so many


def _open_lock(file: Path) -> TextIO:
    """Open the file that the process which trains holds a lock on; its content is not changed.

    Raises:
      InputError: it is a symbolic link, or no regular file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(file, flags, 0o666)
    except OSError as error:
        if not file.is_symlink():
            raise
        raise InputError(
            f"{file}: is a symbolic link, and is left as it is; remove it, or give another --workdir"
        ) from error
    stream = os.fdopen(handle, "r+", encoding="utf-8")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        stream.close()
        raise InputError(f"{file}: is no regular file, and is left as it is; remove it, or give another --workdir")
    return stream


class Workdir:
    """A run's folder. Nothing is written before `claim`.

    Args:
      path: may exist, empty or with a run of the same configuration, which is then continued; also for more epochs.
      config: the configuration as nested plain values.
      writes: whether it is this process that writes there; another one only reads.

    Raises:
      InputError: the folder holds a run of another configuration (but for its mesh, strategy and cache), or files of no run.
    """

    def __init__(self, path: Path, config: dict, writes: bool = True):
        self.path, self.config, self.writes = path, config, writes
        self._held: TextIO | None = None
        self._longer = False
        try:
            if writes:
                self._look()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None

    def _look(self) -> None:
        check_folder(self.path)
        for names, kind, right in ((FILES, "file", Path.is_file), (FOLDERS, "folder", Path.is_dir)):
            for path in (path for name in names for path in self.path.glob(name)):
                if path.is_symlink() and kind == "file":
                    raise InputError(
                        f"{path}: is a symbolic link, and is left as it is; remove it, or give another --workdir"
                    )
                if not right(path):
                    raise InputError(
                        f"{path}: is no {kind}, and should be one; move it away, or give another --workdir"
                    )
        file = self.file("config.yaml")
        if file.exists():
            self._compare(file)
            self._lock()
        else:
            others = [path.name for pattern in WRITTEN for path in self.path.glob(pattern)]
            if others:
                raise InputError(
                    f"{self.path}: holds {others[0]} but no config.yaml, so it is of no run; give another --workdir"
                )

    def file(self, name: str) -> Path:
        return self.path / name

    def claim(self) -> None:
        """Make the folder this process's own until it ends, however it ends, and write its configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            if self._longer:  # its results are those of fewer epochs
                for name in ("summary.json", "report.html", "stacking.npz"):
                    self.file(name).unlink(missing_ok=True)
            self.write("config.yaml", yaml.safe_dump(self.config, sort_keys=False))
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}") from None

    def _lock(self) -> None:
        self._held = self._held or _open_lock(self.file(".lock"))
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self.path}: another process is training there") from None

    def close(self) -> None:
        """Let others have the folder before this process ends."""
        if self._held:
            self._held.close()
            self._held = None

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        durable.write(self.file(name), text)

    def clear_tables(self, processes: int) -> None:
        """Delete the tables on disk of processes beyond so many: those of a run that was killed, and had more."""
        for leftover in self.path.glob("tables_*"):
            number = re.fullmatch(r"tables_([1-9][0-9]{0,8})", leftover.name)
            if number and int(number[1]) >= processes:
                shutil.rmtree(leftover, ignore_errors=True)

    def summary_file(self) -> Path | None:
        """Return the file of the summary, for the process that writes, if there is one that counts."""
        file = self.file("summary.json")
        return file if self.writes and not self._longer and file.exists() else None

    def _compare(self, file: Path) -> None:
        try:
            before = yaml_file.read(file)
        except InputError as error:
            raise InputError(f"{error}; give another --workdir") from error
        there, here = LATER | flat(renamed.content(before)), flat(self.config)
        fewer = there.get(EPOCHS)
        self._longer = isinstance(fewer, int) and fewer < here[EPOCHS] and here["train.schedule"] != "cosine"
        free = {*FREE, *([EPOCHS] if self._longer else [])}
        fixed = FIXED & self.config.keys()  # a file of before has the options of all readers and models
        keys = [key for key in here | there if key.split(".")[0] in fixed and key not in free]
        differ = [key for key in keys if there.get(key, "absent") != here.get(key, "absent")]
        if differ:
            key, *others = differ
            more = f" (and {len(others)} more: {short(', '.join(others), MOST_SAID)})" if others else ""
            words = f"{file}: {key} is {there.get(key, 'absent')!r} there != {here.get(key, 'absent')!r}{more}"
            raise InputError(f"{words}; give another --workdir")
