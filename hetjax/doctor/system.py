"""Versions, devices and memory of this machine, and whether processes come together."""

import os
import platform
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from hetjax.doctor.finding import Finding
from hetjax.options.config import DATA_FOLDER, Processes
from hetjax.system import runtime
from hetjax.system.errors import InputError, reason
from hetjax.system.version import __version__

GIB = 2**30
NVIDIA = Path("/proc/driver/nvidia/gpus")  # a folder per graphics card, where the driver is loaded
LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")


def versions() -> Iterator[Finding]:
    """Find Python's version and those of what hetjax needs, by what is installed."""
    yield Finding("fine", f"hetjax {__version__}, Python {platform.python_version()}, {platform.platform()}")
    try:
        needed = metadata.requires("hetjax") or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "note",
            "hetjax is not installed as a package, so the versions that it needs are not known",
            "pip install -e .",
        )
        return
    found = []
    for text in needed:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            yield Finding("wrong", f"what hetjax needs cannot be read: {error}", "pip install --force-reinstall hetjax")
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Finding("wrong", f"{requirement.name} is not installed", f"pip install '{requirement}'")
            continue
        found.append(f"{requirement.name} {version}")
        if not requirement.specifier.contains(version, prereleases=True):
            words = f"{requirement.name} {version} is installed, and hetjax needs {requirement.specifier}"
            yield Finding("wrong", words, f"pip install '{requirement}'")
    yield Finding("fine", ", ".join(found))


def devices() -> Iterator[Finding]:
    """Find the devices that jax computes on; every device adds up some numbers."""
    try:
        from hetjax.system.backend import Unavailable, local_devices
    except Exception as error:
        words = f"jax cannot be imported: {reason(error)}"
        yield Finding("wrong", words, "pip install --upgrade jax, with its extra for your device")
        return
    try:
        local = local_devices()
    except Unavailable as error:
        yield Finding("wrong", error.found, error.remedy)
        return
    for device in local:
        yield _device(device)
    cards = len(list(NVIDIA.iterdir())) if NVIDIA.is_dir() else 0
    if cards and local[0].platform == "cpu":
        words = f"the NVIDIA driver has {cards} graphics card{'s' * (cards > 1)} ({NVIDIA}), and jax uses the CPU"
        unset = os.environ.get("JAX_PLATFORMS")
        yield Finding(
            "wrong",
            words,
            "unset JAX_PLATFORMS" if unset else "pip install 'jax[cuda12]' or 'jax[cuda13]', as your driver is",
        )
    from hetjax.system.internals import ffi_version

    if local[0].platform == "cpu" and ffi_version() is None:
        words = f"jaxlib {metadata.version('jaxlib')} has an interface that hetjax's kernels do not know: XLA's own operations do the same, slower"
        yield Finding("note", words, "use a jaxlib that hetjax was tried with: 0.10 to 0.12")


def _device(device: Any) -> Finding:
    import jax
    import numpy as np

    name = f"{device.platform} {device.id}, {device.device_kind}"
    try:
        total = float(jax.device_put(np.ones(1000, np.float32), device).sum())
    except Exception as error:
        return Finding(
            "wrong",
            f"device {name}: cannot add up numbers: {reason(error)}",
            "see whether another process has it, and its driver",
        )
    if total != 1000:
        return Finding("wrong", f"device {name}: 1000 ones add up to {total}", "do not train on it")
    stats = device.memory_stats() or {}
    memory = f", {stats['bytes_limit'] / GIB:.1f} GiB of memory for jax" if "bytes_limit" in stats else ""
    return Finding("fine", f"device {name}{memory}")


def memory() -> Iterator[Finding]:
    """Find memory, cores and disks."""
    free, total = available(), runtime.memory()
    words = (
        f"{runtime.cores()} cores, {total / GIB:.1f} GiB of memory, {free / GIB:.1f} GiB of it available"
        if free
        else f"{runtime.cores()} cores, {total / GIB:.1f} GiB of memory"
    )
    yield Finding("fine", words)
    limit = cgroup_limit()
    if limit is not None and limit < total:
        yield Finding(
            "note",
            f"this process's control group may have {limit / GIB:.1f} GiB of memory",
            "raise the limit of the container or job if training is killed",
        )
    kept = os.environ.get("JAX_COMPILATION_CACHE_DIR", runtime.programs())  # in no folder, if that is empty
    places = (
        *([("compiled programs are kept in", kept)] if kept else []),
        ("the current folder is", os.getcwd()),
        ("temporary files are in", tempfile.gettempdir()),
    )
    for what, place in places:
        yield _place(what, place)
    data = os.environ.get(DATA_FOLDER)
    if data is not None and not os.path.isdir(data):
        yield Finding(
            "wrong", f"{DATA_FOLDER} is {data}, which is no folder", f"export {DATA_FOLDER}=FOLDER, or unset it"
        )


def _place(what: str, place: str) -> Finding:
    """Find whether a folder, or the nearest above it that exists, can be written, and how much room its disk has."""
    folder = Path(place)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Finding(
            "wrong", f"{what} {place}, which cannot be written", "give this user the right to, or choose another folder"
        )
    return Finding("fine", f"{what} {place}, {free / GIB:.1f} GiB free")


def available() -> int | None:
    """Return the bytes of memory that can be had without swapping, as Linux says; None elsewhere."""
    try:
        match = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return 1024 * int(match[1]) if match else None


def cgroup_limit() -> int | None:
    """Return the bytes of memory that the control group of this process may have; None: any."""
    for file in LIMITS:
        try:
            return int(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or `max`
            continue
    return None


def processes(options: Processes) -> Iterator[Finding]:
    """Find what several processes need: the name of this host here, and if processes are named, that they meet and add up numbers."""
    host = socket.gethostname()
    try:
        address = socket.gethostbyname(host)
        with socket.socket() as probe:
            probe.bind((address, 0))
    except OSError as error:
        words = f"this host's name, {host}, leads to no address of its own: {reason(error)}"
        yield Finding(
            "note", words, "needed by processes on CPUs alone (gloo): name it in /etc/hosts, or with hostname"
        )
    else:
        inside = address.startswith("127.")
        words = f"this host's name, {host}, is {address}" + (", which other hosts cannot reach" if inside else "")
        remedy = (
            "needed by processes on CPUs of several hosts (gloo): give it its address in /etc/hosts" if inside else ""
        )
        yield Finding("note" if inside else "fine", words, remedy)
    if options.several:
        yield from _meeting(options)
    else:
        yield Finding(
            "fine",
            "processes: not tested; with --coordinator, --num_processes and --process_id, here and on the other hosts, the doctor tests whether they meet",
        )


def _meeting(options: Processes) -> Iterator[Finding]:
    from hetjax.processes.launch import process_group

    try:
        with process_group(options, {"hetjax": __version__}) as group:
            import jax
            import numpy as np
            from jax.experimental import multihost_utils

            from hetjax.system.backend import local_devices

            local_devices()
            numbers = multihost_utils.process_allgather(np.full(1, group.number + 1.0, np.float32))
            count = group.count
            devices = len(jax.devices())
    except InputError as error:
        yield Finding(
            "wrong",
            str(error),
            "see that all have the same --coordinator and --num_processes, and that its port is open",
        )
        return
    right = float(np.sum(numbers)) == count * (count + 1) / 2
    words = f"{count} processes meet, with {devices} devices, and give each other numbers"
    yield (
        Finding("fine", words)
        if right
        else Finding("wrong", f"{words}, but some of these are wrong", "do not train on them")
    )
