"""Checkpoints: written whole or not at all, checked when read, by Orbax.

A checkpoint is a folder named by its step: the state as Orbax writes it, learnable tables as a `.npy` file an array
(they may be larger than memory), `progress.json`, and `digests.json` with the size and digest of every file. It is made
under another name and renamed when complete, so a killed run leaves no half.
"""

import gc
import hashlib
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax.cache import table_files
from hetjax.graph.store import map_array
from hetjax.system import durable, files, internals
from hetjax.system.errors import InputError, reading, reason
from hetjax.system.files import open_regular

OVERHEAD = 2**15  # bytes that Orbax writes besides an array's own, and of its own: no more than this was seen
SETTLED = 0.5  # seconds in which threads end that were still writing when one failed
DIGITS = 12  # of a step, in a folder's name


def _orbax() -> Any:
    """Return `orbax.checkpoint.v1`, imported when a checkpoint is first written or read, because its import is slow."""
    internals.keep_root_logger()
    from orbax.checkpoint import v1

    internals.literal_folders()
    return v1


class Damaged(InputError):
    """Error of a checkpoint that is truncated or was changed since it was written."""


class Checkpoint(NamedTuple):
    """A checkpoint on disk, not yet verified."""

    folder: Path

    @property
    def step(self) -> int:
        return int(self.folder.name)

    def verify(self, check: Callable[[dict], None] = lambda _: None) -> dict:
        """Compare every file with its digest.

        Args:
          check: raises a ValueError for a progress that is none.

        Returns:
          The progress saved with the state.

        Raises:
          Damaged: naming the first file that differs.
        """
        try:
            digests = _json(self.folder / "digests.json")
            others = {str(file.relative_to(self.folder)) for file in self.folder.rglob("*") if not file.is_dir()} ^ {
                *digests,
                "digests.json",
            }
            if others:
                raise Damaged(
                    f"checkpoint {self.folder} is damaged: {min(others)} is missing, or was not written with it"
                )
            for name, (size, digest) in digests.items():
                file = self.folder / name
                found = file.stat().st_size
                if found != size:
                    raise Damaged(f"checkpoint {self.folder} is damaged: {name} has {found} bytes != {size}")
                if _digest(file) != digest:
                    raise Damaged(f"checkpoint {self.folder} is damaged: {name} has another content than was written")
            progress = _json(self.folder / "progress.json")
            best = progress["best"]
            if best is not None and (type(best["step"]) is not int or not 0 <= best["step"] < 10**DIGITS):
                raise ValueError(f"the best is of step {best['step']!r:.40}")
            check(progress)
            return progress
        except Damaged:
            raise
        except Exception as error:
            raise Damaged(f"checkpoint {self.folder} is damaged: {reason(error)}") from error

    def noted(self, key: str, kind: type) -> Any:
        """Return a value of `progress.json` before the checkpoint is verified; an empty one of its kind if there is none."""
        with suppress(Exception):
            found = _json(self.folder / "progress.json").get(key)
            return found if isinstance(found, kind) else kind()
        return kind()

    def state(self, like: Any) -> Any:
        """Return the state as host arrays, with the structure, shapes and dtypes of `like`; tables are mapped.

        Raises:
          InputError: a table of another shape, or a checkpoint of an older hetjax.
        """
        if not (self.folder / table_files.FOLDER).is_dir():
            raise InputError(f"{self.folder}: an older hetjax wrote this checkpoint; give another --workdir")
        ocp, leaves = _orbax(), _named(like)
        plain = {n: np.empty(leaf.shape, leaf.dtype) for n, leaf in leaves.items() if not table_files.kept(n)}
        with reading(self.folder / "state"), _quiet(), internals.orbax_alone(ocp):
            plain |= ocp.load(self.folder / "state", {name: leaf for name, leaf in plain.items() if leaf.size})
        for name, array in plain.items():
            if (array.dtype, array.shape) != (leaves[name].dtype, leaves[name].shape):
                expected = f"{leaves[name].dtype} {leaves[name].shape} of the run's options"
                raise InputError(f"{self.folder / 'state'}: {name} is {array.dtype} {array.shape} != {expected}")
        arrays = plain | self._mapped({name: leaf for name, leaf in leaves.items() if table_files.kept(name)})
        return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in leaves])

    def own(self, like: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a strategy kept beside the state, mapped, with the structure, shapes and dtypes of `like`; None if it is not there.

        Raises:
          InputError: an array of another shape.
        """
        leaves = _named({table_files.OWN: like})
        if not all((self.folder / table_files.of(name)).exists() for name in leaves):
            return None
        arrays = self._mapped(leaves)
        return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in leaves])

    def _mapped(self, leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {n: map_array(self.folder / table_files.of(n), x.dtype, x.shape, n) for n, x in leaves.items()}


class Checkpoints:
    """The checkpoints of one run: the last two, and the one that did best when each of these was written.

    Args:
      folder: where they lie; made by the first `save`.
    """

    def __init__(self, folder: Path):
        self.folder = folder.absolute()
        self.chosen: int | None = None  # by `newest_whole`
        self.damaged: list[Checkpoint] = []

    def at(self, step: int) -> Checkpoint:
        return Checkpoint(self.folder / f"{step:0{DIGITS}d}")

    def newest_first(self) -> Iterator[Checkpoint]:
        for folder in sorted(self.folder.glob("[0-9]" * DIGITS), reverse=True):
            yield Checkpoint(folder)

    def newest_whole(
        self, say: Callable[[str], None], check: Callable[[dict], None] = lambda _: None
    ) -> tuple[Checkpoint, dict] | None:
        """Return the newest checkpoint that is whole, as is the best that it names, with its progress. Damaged ones are reported.

        If there is none, the newest that is whole, with no best: from there on another becomes that. On disk all stays as it
        is, until `wait`.

        Args:
          say: is told what is damaged.
          check: raises a ValueError for a progress that is none.
        """
        damaged: list[Checkpoint] = []
        newest: tuple[Checkpoint, dict] | None = None
        lost: Damaged | None = None
        for checkpoint in self.newest_first():
            try:
                progress = checkpoint.verify(check)
            except Damaged as error:
                damaged.append(checkpoint)
                if not newest:
                    say(f"{error}; the one before it is used")
                continue
            try:
                if progress["best"]:
                    self.at(progress["best"]["step"]).verify(check)
            except Damaged as error:
                newest, lost = newest or (checkpoint, progress | {"best": None}), lost or error
                continue
            if lost:
                say(f"{lost}; {checkpoint.folder} is used")
            newest = checkpoint, progress
            break
        else:
            if newest:
                say(
                    f"{lost}; it was the best: the run goes on from {newest[0].folder}, and the best from there on counts"
                )
            elif damaged:
                say(f"no checkpoint in {self.folder} is whole: the run starts anew")
        self.chosen, self.damaged = newest and newest[0].step, damaged
        return newest

    def wait(self) -> None:
        """Delete checkpoints newer than the one that was chosen, because the run will reach their steps again, and half-written ones.

        What is damaged is renamed, so that nobody takes it for whole.
        """
        for leftover in self.folder.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for checkpoint in self.damaged:
            aside = checkpoint.folder.with_name(f"damaged_{checkpoint.folder.name}")
            _delete(aside)
            checkpoint.folder.rename(aside)
        for checkpoint in list(self.newest_first()):
            if self.chosen is not None and checkpoint.step > self.chosen:
                self.remove(checkpoint)

    def save(self, step: int, state: Any, progress: dict) -> None:
        """Write a checkpoint; `progress["best"]["step"]`, if there is one, names the best so far.

        Raises:
          InputError: there is no room for it; those before it are as they were.
        """
        ocp = _orbax()  # if it cannot be imported, that is no fault of the folder
        with durable.writing(self.folder, "the checkpoints before it are as they were"):
            self.folder.mkdir(parents=True, exist_ok=True)
            needed, free = sum(leaf.nbytes for leaf in jax.tree.leaves(state)), shutil.disk_usage(self.folder).free
            if needed > free:
                raise InputError(f"{self.folder}: a checkpoint takes {needed:,} bytes, and {free:,} are free")
            try:
                self._save(ocp, step, state, progress)
            finally:
                shutil.rmtree(self._partial(step), ignore_errors=True)

    def _save(self, ocp: Any, step: int, state: Any, progress: dict) -> None:
        partial = self._partial(step)
        partial.mkdir()
        leaves = _named(state)
        named = {n: np.asarray(leaf) for n, leaf in leaves.items() if leaf.size and not table_files.kept(n)}
        _reserve(partial / "room", sum(leaf.nbytes + OVERHEAD for leaf in named.values()) + OVERHEAD)
        with _quiet():
            ocp.save(partial / "state", named)  # empty arrays it does not save
        (partial / table_files.FOLDER).mkdir()
        for name, leaf in leaves.items():
            if table_files.kept(name):
                (partial / table_files.of(name)).parent.mkdir(exist_ok=True)
                table_files.write(partial / table_files.of(name), leaf)
        (partial / "progress.json").write_text(json.dumps(progress), encoding="utf-8")
        files = sorted(file for file in partial.rglob("*") if file.is_file())
        digests = {str(file.relative_to(partial)): (file.stat().st_size, _digest(file)) for file in files}
        (partial / "digests.json").write_text(json.dumps(digests), encoding="utf-8")
        durable.rename(partial, self.at(step).folder)
        last = list(self.newest_first())[:2]
        kept_steps = {checkpoint.step for checkpoint in last} | {_best(checkpoint) for checkpoint in last}
        for checkpoint in list(self.newest_first()):
            if checkpoint.step not in kept_steps:
                self.remove(checkpoint)

    def wait_for(self, step: int) -> None:
        """Take part in a `save` of process 0: Orbax waits for every process, and writes what process 0 has."""
        _orbax().save(self._partial(step) / "state", {"nothing": np.zeros(1)})

    def _partial(self, step: int) -> Path:
        return self.folder / f".{step}.partial"

    def remove(self, checkpoint: Checkpoint) -> None:
        """Delete a checkpoint, so that a kill in between leaves nothing that looks like one."""
        doomed = checkpoint.folder.with_name(f".{checkpoint.folder.name}.removed")
        checkpoint.folder.rename(doomed)
        _delete(doomed)


def _delete(path: Path) -> None:
    """Delete a folder with all that is in it, or a file, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _best(checkpoint: Checkpoint) -> int | None:
    """Return the step that was best when a checkpoint was written; None if there was none or its progress cannot be read."""
    try:
        return _json(checkpoint.folder / "progress.json")["best"]["step"]
    except Exception:
        return None


def parameters(tree: Any) -> int:
    """Count the values in a tree of arrays."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def _reserve(file: Path, size: int) -> None:
    """Raise an OSError where the disk has no room, before Orbax is deep in it, whose threads write on when one has failed."""
    if hasattr(os, "posix_fallocate"):
        with open(file, "xb") as stream:
            os.posix_fallocate(stream.fileno(), 0, size)
        file.unlink()


@contextmanager
def _quiet() -> Iterator[None]:
    """Raise errors without also printing them, thread by thread: Orbax logs them, and tensorstore calls the hook.

    Of several tasks that fail Orbax awaits one, and asyncio logs each of the others when it is collected as garbage: so that is
    done here, for which nothing may keep them.
    """
    loggers, hook = [internals.orbax_logger(), logging.getLogger("asyncio")], sys.unraisablehook
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    sys.unraisablehook = lambda ignored: hook(ignored) if ignored.exc_type is KeyboardInterrupt else None
    try:
        yield
    except Exception as error:
        time.sleep(SETTLED)
        error.__traceback__ = error.__cause__ = error.__context__ = None
        gc.collect()
        raise
    finally:
        for logger, was in zip(loggers, before):
            logger.disabled = was
        sys.unraisablehook = hook


def _named(tree: Any) -> dict[str, Any]:
    """Return leaves by the name of their path, such as `params/params/head/kernel`."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _json(file: Path) -> Any:
    """Return the content of a file. An InputError names it if it is no JSON, for example because it was cut off."""
    with reading(file.name):
        return json.loads(files.read_text(file))


def _digest(file: Path) -> str:
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
