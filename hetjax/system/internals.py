"""Uses of what libraries keep private: what it is, in which versions it was seen, and what happens without it.

| library | what is used | seen in | without it |
|---|---|---|---|
| jax | the names of two monitoring events | jax 0.10 to 0.12 | programs are counted as none, and what compilers free is not given back |
| jax | the name of a parameter of `jit` in a jaxpr | jax 0.10 to 0.12 | drawing weights takes longer to compile |
| jax | names of operations in a jaxpr and of their parameters, how its usual keys are hashed (eager.py, threefry.py) | jax 0.10, 0.11 | weights are drawn by XLA, which compiles longer |
| jax | `jax._src.clusters` | jax 0.10 to 0.12 | `--cluster` ends in one line; `--coordinator` still works |
| jax | `jax._src.xla_bridge.backends_are_initialized` | jax 0.10 | processes that compile take longer to start |
| jaxlib | the frame of a foreign call | its interface 0.3 to 0.5 (jax 0.10 to 0.12) | XLA's own operations do the same, slower |
| numba | `cgutils`, `populate_array` | numba 0.68 | hetjax does not start |
| numba | `CFunc`, its `_cache`, and this one's `_cache_file` and `_index_key` | numba 0.68 | what is compiled takes longer |
| numba | `Cache.save_overload` | numba 0.68 | where code cannot be kept, an error does not say where |
| numba | `Cache.__init__` and its attributes, `IndexDataCacheFile` | numba 0.68 | hetjax does not start |
| Orbax | the fields of `Context.multiprocessing`, its logger | orbax-checkpoint 0.12 | no checkpoint is read |
| absl | that `absl.logging` calls `logging.basicConfig` of its own name `logging` | absl-py 2 | warnings come twice where a program shows them itself |
| etils | `epath.gpath.PosixGPath.glob` | etils 1.15 | runs in folders with brackets in their names cannot be read |
| tensorstore | `os_error_code` in an error's words | with orbax-checkpoint 0.12 | a full disk is a traceback |
| jsonargparse | `_loaders_dumpers.yaml_default_loader` | jsonargparse 4.53 | hetjax does not start |
"""

import contextlib
import functools
import glob
import hashlib
import logging
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

COMPILED, READ_FROM_CACHE = "/jax/core/compile/backend_compile_duration", "/jax/compilation_cache/cache_hits"
COMPILER_OPTIONS = "compiler_options_kvs"

# The frame of a foreign call, in words of eight bytes, as `xla/ffi/api/c_api.h` in `jax.ffi.include_dir()` lays it out.
FFI_VERSIONS = ((0, 3), (0, 4), (0, 5))
EXTENSION, API, CONTEXT, ARGUMENTS, RESULTS = 1, 2, 3, 9, 14  # in a frame; the last two of lists of buffers
CREATE_ERROR, SCHEDULE = 6, 17  # in the API: the functions that make an error, and that give a task to XLA's threads
LOCAL = re.compile(r"/(?!/)")  # the beginning of a path of this computer, and of no bucket
INTERNAL = 13  # the kind of an error
DATA, RANK, SIZES = 3, 4, 5  # in a buffer
KIND, METADATA = 1, 3  # in an extension of a frame, by which XLA asks a function which version it was made for
VERSION = 3  # in the metadata: the major and the minor one, int32 each
ASKS_METADATA = 1  # an extension's kind


@functools.cache
def ffi_version() -> tuple[int, int] | None:
    """Return the version of jaxlib's foreign-function interface; None where it is not known, and on other systems than Linux."""
    import jax

    if sys.platform != "linux":
        return None
    try:
        header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    except OSError:
        return None
    matches = [re.search(rf"^#define XLA_FFI_API_{part} (\d+)", header, re.MULTILINE) for part in ("MAJOR", "MINOR")]
    number = tuple(int(match[1]) for match in matches if match)
    return number if number in FFI_VERSIONS else None


def numba_parts() -> tuple[Any, Any]:
    """Return `(cgutils, populate_array)`, by which machine code is written."""
    from numba.core import cgutils
    from numba.np.arrayobj import populate_array

    return cgutils, populate_array


def guard_kept_code(guard: Callable[[str], AbstractContextManager]) -> None:
    """Have numba write the code that it keeps within a context of ours, made of the folder's path."""
    from numba.core.caching import Cache

    if hasattr(Cache, "save_overload"):
        plain = Cache.save_overload

        def save(self: Any, *arguments: Any) -> None:
            with guard(self.cache_path):
                plain(self, *arguments)

        Cache.save_overload = save  # type: ignore[method-assign]


def seal_kept_code(ours: Callable[[Callable], bool], trusted: Callable[[str, Callable], bool]) -> None:
    """Have numba keep the code of our functions with a checksum. It takes none that is damaged or from a folder that is not trusted.

    Code is kept as a pickle with machine code, so a byte that was changed could do anything. What is damaged is compiled again.

    Args:
      ours: whether a function is one of ours; others are kept as numba keeps them.
      trusted: whether a folder, which a function's code is kept in, is; if not, the function is compiled and not kept.
    """
    from numba.core.caching import Cache, IndexDataCacheFile

    class Sealed(IndexDataCacheFile):
        def _load_index(self) -> dict:
            try:
                version, stamp, overloads = pickle.loads(_unsealed(self._index_path))
            except Exception:  # it is not there, or damaged
                return {}
            return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

        def _save_index(self, overloads: dict) -> None:
            with self._open_for_write(self._index_path) as stream:
                _write_alone(stream, _sealed(self._dump((self._version, self._source_stamp, overloads))))

        def _load_data(self, name: str) -> Any:
            try:
                return pickle.loads(_unsealed(self._data_path(name)))
            except Exception as error:
                raise OSError("damaged") from error  # by which numba takes it for missing

        def _save_data(self, name: str, data: Any) -> None:
            with self._open_for_write(self._data_path(name)) as stream:
                _write_alone(stream, _sealed(self._dump(data)))

    plain = Cache.__init__

    def begin(self: Any, function: Callable) -> None:
        beside = Path(function.__code__.co_filename).parent / "__pycache__"
        if not (ours(function) and beside.exists()):  # what numba makes beside the sources has the usual mode
            plain(self, function)
        else:
            usual = os.umask(0o077)
            try:
                plain(self, function)
            finally:
                os.umask(usual)
        if ours(function):
            locator = self._impl.locator
            name = f"{self._impl.filename_base}.sealed"
            self._cache_file = Sealed(self._cache_path, name, locator.get_source_stamp())
            if not trusted(self._cache_path, function):
                self.disable()

    Cache.__init__ = begin  # type: ignore[method-assign]


def _sealed(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


def _write_alone(stream: Any, content: bytes) -> None:
    """Write a file that only its user may write, whatever the usual mode of new files."""
    os.fchmod(stream.fileno(), os.fstat(stream.fileno()).st_mode & ~0o022)
    stream.write(content)


def _unsealed(file: str) -> bytes:
    with open(file, "rb") as stream:
        status, content = os.fstat(stream.fileno()), stream.read()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise ValueError(f"{file} can be written to by others")
    size = hashlib.sha256().digest_size
    if hashlib.sha256(content[size:]).digest() != content[:size]:
        raise ValueError(f"{file} is damaged")
    return content[size:]


def is_kept(function: Callable, signature: Any, **options: Any) -> bool:
    """Return whether numba has kept what `numba.cfunc` makes of a function; true where numba cannot be asked."""
    from numba.core.ccallback import CFunc
    from numba.core.sigutils import normalize_signature

    callback: Any = CFunc(function, normalize_signature(signature), {}, options)
    callback.enable_caching()
    cache: Any = getattr(callback, "_cache", None)
    if not (hasattr(cache, "_cache_file") and hasattr(cache, "_index_key")):
        return True
    key = cache._index_key(callback._sig, callback._targetdescr.target_context.codegen())
    return cache._cache_file.load(key) is not None


def jax_started() -> bool:
    """Return whether jax has begun to run on any device; true where jax cannot be asked."""
    try:
        from jax._src.xla_bridge import backends_are_initialized
    except ImportError:
        return True
    return backends_are_initialized()


def detect_cluster(*arguments: Any) -> tuple[Any, list[str]]:
    """Return the cluster that jax finds, and jax's warnings, each on one line. jax logs an error that another one follows.

    jax has no public call that detects and does nothing else.
    """
    from jax._src.clusters import ClusterEnv

    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cluster = ClusterEnv.auto_detect_unset_distributed_params(*arguments)
    finally:
        logging.disable(logging.NOTSET)
    return cluster, [" ".join(str(warning.message).split()) for warning in caught]


def orbax_alone(ocp: Any) -> Any:
    """Return Orbax's context for reading in this process, which waits for no other; `ocp` is `orbax.checkpoint.v1`."""
    import jax

    context, me = ocp.Context(), jax.process_index()
    context.multiprocessing.primary_host, context.multiprocessing.active_processes = me, {me}
    context.multiprocessing.barrier_sync_key_prefix = f"process_{me}_"
    return context


def literal_folders() -> None:
    """Have `Path.glob` of `etils.epath` take the folder's own name as it is; Orbax looks so for what it has written.

    It joins the name to the pattern, so that in `run[1]` nothing is found.
    """
    from etils.epath import gpath  # type: ignore[import-untyped]

    plain = gpath.PosixGPath.glob

    def literal(self: Any, pattern: str) -> Any:
        return plain(type(self)(glob.escape(str(self))), pattern) if LOCAL.match(str(self)) else plain(self, pattern)

    if not getattr(gpath.PosixGPath.glob, "literal", False):
        literal.literal = True  # type: ignore[attr-defined]  # so that it is done once
        gpath.PosixGPath.glob = literal


def orbax_logger() -> logging.Logger:
    """Return the logger to which Orbax writes the errors of its threads, which it also raises."""
    return logging.getLogger("absl")


def tensorstore_errno(error: Exception) -> int | None:
    """Return the system's error number in what tensorstore, deep in Orbax, raised; None if there is none."""
    code = re.search(r"os_error_code='(\d+)'", str(error))
    return int(code[1]) if code else None


def set_yaml_loader(loader: type) -> None:
    """Have jsonargparse read every value with a loader of ours: its public `set_loader` leaves the scalars out."""
    from jsonargparse import _loaders_dumpers

    _loaders_dumpers.yaml_default_loader = loader  # type: ignore[assignment]


def keep_root_logger() -> None:
    """Keep `absl.logging`, which Orbax writes to, from giving Python's root logger a handler.

    With one, each message of hetjax would be shown twice wherever a program shows it itself, and `logging.basicConfig` of the
    program would do nothing.
    """
    with contextlib.suppress(ImportError):
        import absl.logging

        theirs = ModuleType("logging")
        vars(theirs).update(vars(logging))
        vars(theirs)["basicConfig"] = lambda **_: None
        vars(absl.logging)["logging"] = theirs
