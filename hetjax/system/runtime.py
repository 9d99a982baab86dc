"""Settings that a process that trains makes before jax starts: it keeps its buffers and its compiled programs.

glibc gives every large buffer back to the system when it is freed, and the next one is made of new pages, which are
cleared one by one: some per cent of a step on two cores (`benchmarks/step.py` with and without). Told otherwise, which it
reads once, when a process starts, it keeps them, all in one arena, as the others cannot grow. `GLIBC_TUNABLES` in the
environment, even empty, leaves it as it is. What compilers free is given back all the same (`trimming`).

Compiled programs are kept in the user's cache folder, so that a run that is started again compiles nothing; of several
processes jax lets the first alone write there. `JAX_COMPILATION_CACHE_DIR` names another folder, and
`JAX_ENABLE_COMPILATION_CACHE=false` keeps none. The folder is kept small here, once when a command starts: jax, told a
limit by `JAX_COMPILATION_CACHE_MAX_SIZE`, looks at every file there before it writes one. So that is not left to jax.

For NVIDIA's GPUs XLA would write many kernels of its own for every product, by Triton, and time them all. cuBLAS's alone are
timed here: programs of many products compile in a fraction of the time, and R-GCN's took no longer (docs/strategies/single_results.md, One GPU).
The flag in `XLA_FLAGS`, set to true, says otherwise.

There the strategies `single` and `averaging` start kernels of a step of the whole graph one by one: as CUDA graphs R-GAT's and HGT's steps took 1.2 and 1.3
times as long (docs/strategies/single_results.md, One GPU). Those of a mini-batch are CUDA graphs. `--xla_gpu_enable_command_buffer` in `XLA_FLAGS` says otherwise.
Both are asked of jaxlib 0.10 and 0.11 alone, as others may not know these flags.

jaxlib 0.11 warns in every process that GSPMD, which partitions the programs of meshes there (`sharding.mesh.leave_shardy_out`), will go. So with
that one XLA prints errors alone, and no warning of any kind; `TF_CPP_MIN_LOG_LEVEL=0` says otherwise.

NumPy's and SciPy's OpenBLAS has its threads wait for work awake, which takes cores from what compiles meanwhile: they go to sleep at once here
(docs/strategies/single_results.md, The first minute). `OPENBLAS_THREAD_TIMEOUT` says otherwise.

For CPUs XLA writes loops by way of MLIR, or by an older emitter: the latter takes less memory and time to compile (docs/strategies/single_results.md,
The first minute). jaxlib 0.10 and 0.11 have it, and are asked for it; 0.12 has not. XLA passes over names of this kind that it
does not know, as 0.10 does when tried.
"""

import contextlib
import functools
import gc
import importlib.util
import os
import platform
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

LARGEST = 2**32  # bytes up to which freed buffers are kept
MALLOC = f"glibc.malloc.mmap_threshold={LARGEST}:glibc.malloc.trim_threshold={LARGEST}:glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1"
# Signals that stop a command, and what they do unless told otherwise.
STOPS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
CUDA = ("jax_cuda13_plugin", "jax_cuda12_plugin")  # a package by which jax runs on NVIDIA's GPUs
ACCELERATORS = ("jax_plugins", "libtpu")  # packages by which jax runs on anything but CPUs
TRITON, CUDA_GRAPHS = "--xla_gpu_enable_triton_gemm", "--xla_gpu_enable_command_buffer"
KNOWING = ("0.10.", "0.11.")  # jaxlibs that know these flags; one that does not would end at them
EXTRA, OLDER_LOOPS = "--xla_backend_extra_options", "xla_cpu_disable_new_fusion_emitters"
AWAKE = "OPENBLAS_THREAD_TIMEOUT"  # threads wait awake for 2 to the power of so many cycles; OpenBLAS takes 4 at least
LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # of what XLA prints: 1 leaves out notes, as jax asks for, 2 warnings too
BY_JAX = "1"  # what jax sets it to, and a process that jax runs in hands on to those that it starts
WARNING = "0.11."  # the jaxlib that warns of GSPMD
PROGRAMS = 2**31  # the most bytes of kept programs when a command starts
MOST = "JAX_COMPILATION_CACHE_MAX_SIZE"  # which says another number


def prepare() -> None:
    """Apply all settings to this process, which is started anew if need be. Call it before anything else."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and os.path.isabs(caches()):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = programs()
        most = asked_for(os.environ.pop(MOST, str(PROGRAMS)))
        with contextlib.suppress(OSError):
            os.makedirs(programs(), 0o700, exist_ok=True)
        if most >= 0 and private(programs()):
            keep_used(programs(), most)
        if not most:
            os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    if not private(os.environ.get("JAX_COMPILATION_CACHE_DIR", "")):
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    # of two programs that differ in names alone, such as `traffic.scope`, the names are part of what is kept
    os.environ.setdefault("JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY", "1")
    os.environ.setdefault(AWAKE, "4")
    if any(map(importlib.util.find_spec, CUDA)):
        leave_triton_out()
    tell_xla(EXTRA, OLDER_LOOPS)
    alone = sys.executable and "IPython" not in sys.modules  # no notebook's process, which holds more than this run
    if "GLIBC_TUNABLES" not in os.environ and platform.libc_ver()[0] == "glibc" and alone:
        os.environ["GLIBC_TUNABLES"] = MALLOC
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    # here, as asking for jaxlib's version takes a while, and need not be done twice
    if os.environ.get(LEVEL, BY_JAX) == BY_JAX and jaxlib_version().startswith(WARNING):
        os.environ[LEVEL] = "2"


def asked_for(number: str) -> int:
    """Return the bytes of compiled programs that the user asks to keep; below zero there is no limit."""
    try:
        return int(number)
    except ValueError:
        sys.stderr.write(f"hetjax: error: {MOST} is {number!r}, and should be a number of bytes\n")
        sys.exit(2)


@functools.cache
def private(folder: str) -> bool:
    """Tell whether no other user can write into a folder of compiled code, or its files; one that does not exist yet is made so.

    Code that others can write is not run; a line on standard error says so, once.
    """
    if not folder or "://" in folder:  # none, or storage that the user names
        return True
    with contextlib.suppress(OSError):
        os.makedirs(folder, 0o700, exist_ok=True)
    try:
        status = os.stat(folder)
    except OSError:  # nothing can be kept there
        return True
    if not (why := _open_to(status)):
        reached = status.st_mode & 0o011  # others can open files in the folder
        why = next((f"has files, one of which {why}" for why in _open_files(folder)), "") if reached else ""
    if not why:
        return True
    sys.stderr.write(
        f"hetjax: {folder} {why}, so compiled code that it holds is not used, and all is compiled again; "
        f"delete it, or make it yours alone: chmod 700 {folder}\n"
    )
    return False


def _open_to(status: os.stat_result) -> str:
    """Return why others than this user can write a file or a folder, and root, who may write all; empty where they cannot."""
    if status.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    return "can be written to by others" if status.st_mode & 0o022 else ""


def _open_files(folder: str) -> Iterator[str]:
    """Yield why others can write the files of a folder, of those that they can."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file() and (why := _open_to(entry.stat())):
                yield why


def programs() -> str:
    """Return the folder in which compiled programs are kept, unless the environment says otherwise."""
    return os.path.join(caches(), "hetjax", "compiled")


def keep_used(folder: str, most: int) -> None:
    """Delete the programs in a folder that were used least lately, until the others have `most` bytes at most.

    When one was used is as the file system says, which may be up to a day late; or says only when it was made.
    """
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # it may not be there yet
        for entry in entries:
            with contextlib.suppress(OSError):  # another process deletes too
                if entry.name.endswith("-cache") and entry.is_file():
                    status = entry.stat()
                    found.append((max(status.st_atime, status.st_mtime), status.st_size, entry.path))
    total_bytes = 0
    for _, size, path in sorted(found, reverse=True):
        total_bytes += size
        if total_bytes > most:
            with contextlib.suppress(OSError):
                os.unlink(path)


def on_cpus() -> bool:
    """Return whether jax will run on CPUs, as far as that is known before it starts: it is told to, or has no package for anything else."""
    told = os.environ.get("JAX_PLATFORMS")
    return told == "cpu" if told else not any(map(importlib.util.find_spec, ACCELERATORS))


def jaxlib_version() -> str:
    """Return the version of the jaxlib that jax will load. XLA is not loaded yet."""
    from jaxlib.version import __version__

    return __version__


def leave_triton_out() -> None:
    """Have cuBLAS alone compute products, where jaxlib has such an option."""
    if jaxlib_version().startswith(KNOWING):
        tell_xla(TRITON, "false")


def tell_xla(flag: str, value: str) -> None:
    """Set one of XLA's flags before jax starts, unless the environment sets it or names a file of flags."""
    if is_unset(flag):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}={value}".strip()


def is_unset(flag: str) -> bool:
    """Return whether the environment does not set one of XLA's flags, and names no file of flags."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    in_a_file = flags and not flags[0].startswith("-")
    return not in_a_file and flag not in [setting.partition("=")[0] for setting in flags]


def whole_graph_options(platform: str, jaxlib: str) -> dict[str, str]:
    """Return `compiler_options` of `jax.jit` for a step of the whole graph: no CUDA graphs on NVIDIA's GPUs, unless `XLA_FLAGS` sets them.

    Args:
      platform: of the device, as jax names it.
      jaxlib: its version.
    """
    supported = jaxlib.startswith(KNOWING) and any(map(importlib.util.find_spec, CUDA))
    return {CUDA_GRAPHS.removeprefix("--"): ""} if platform == "gpu" and supported and is_unset(CUDA_GRAPHS) else {}


def peak_memory() -> int:
    """Return the largest memory that this process has used, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def caches() -> str:
    """Return the user's cache folder; it is no absolute path if there is none."""
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def hush() -> None:
    """Have Ctrl-C and SIGTERM end a command at once until `listen`: `python -m hetjax.train` imports for seconds, with nothing to tidy.

    Python looks for garbage again and again while thousands of modules are imported, which stay: not until `listen`.
    """
    gc.disable()
    for number, usual in STOPS.items():
        if signal.getsignal(number) == usual:
            signal.signal(number, stop)


def use_utf8() -> None:
    """Start this command anew in Python's UTF-8 mode, if the locale has another encoding.

    Names of files are then UTF-8, as in configurations and as tensorstore takes them. What is printed keeps the locale's encoding.
    """
    told = os.environ.get("PYTHONUTF8") == "1"  # and the command line says otherwise
    if told or sys.getfilesystemencoding() == "utf-8" or not sys.executable:
        return
    os.environ["PYTHONUTF8"] = "1"
    if sys.stdout:
        os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def stop(number: int, frame: FrameType | None) -> None:
    """End this process, in one line."""
    os.write(2, b"hetjax: stopped\n")
    os._exit(128 + number)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Let what runs end as by Ctrl-C, whichever signal it was."""
    raise KeyboardInterrupt(number)


def unraisable(ignored: "sys.UnraisableHookArgs") -> None:
    """Send a signal again whose error Python ignores, such as one raised in a destructor or a callback of the garbage collector.

    From another thread and a moment later: until then this may still be where it was lost.
    """
    if type(ignored.exc_value) is KeyboardInterrupt and ignored.exc_value.args:
        again = threading.Timer(0.01, os.kill, (os.getpid(), ignored.exc_value.args[0]))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(ignored)


def stopped_status(error: KeyboardInterrupt) -> int:
    """Return the exit status of a command that was stopped, as a shell has it: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (error.args[0] if error.args else signal.SIGINT)


def leave(status: int) -> None:
    """End this process, and wait for no thread: one that was cut off writing a checkpoint waits for minutes, or prints a traceback."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def listen() -> None:
    """Have Ctrl-C and SIGTERM raise a `KeyboardInterrupt` from now on, which is not lost, where they called `stop`. Any name can then be printed."""
    for number in STOPS:
        if signal.getsignal(number) == stop:
            signal.signal(number, interrupt)
            sys.unraisablehook = unraisable  # as an interrupt may come at any time
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    if not gc.isenabled():
        gc.freeze()  # what is there stays, and is not looked through again
        gc.enable()


def keep_stdout() -> None:
    """Keep stdout for this program from now on: what libraries print past Python, such as gloo's line per peer, goes nowhere."""
    try:
        is_stdout = sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):  # it goes elsewhere already
        return
    if is_stdout:
        sys.stdout.flush()
        sys.stdout = open(os.dup(1), "w", buffering=1, encoding=sys.stdout.encoding, errors="backslashreplace")  # noqa: SIM115 (until the process ends)
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)


def cores() -> int:
    """Return the number of the computer's cores that this process may use."""
    return len(core_ids())


def core_ids() -> list[int]:
    """Return the ids of the computer's cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def memory() -> int:
    """Return the bytes of memory of the computer."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
