"""Launch of the processes: each finds process 0, they compare what they were started with, and jax is told.

jax has a coordination service, in process 0, that ends every process with a C++ trace when it cannot be reached, at the
start or later. So the processes first meet by themselves, at the address that the user gave, and where something is
wrong one line says so. jax's service gets another port, and its clients reach it through a relay that stays up: whose
end is whose fault is for `ConnectedGroup` to say.
"""

import contextlib
import os
import re
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import jax

from hetjax.options.config import Processes
from hetjax.processes.group import AGAIN, ConnectedGroup, ProcessGroup
from hetjax.processes.meeting import PATIENCE, connect, find, gather
from hetjax.processes.secret import read_secret
from hetjax.system.errors import InputError, ending, reading, reason
from hetjax.system.internals import detect_cluster
from hetjax.system.runtime import stopped_status


@contextlib.contextmanager
def process_group(options: Processes, settings: dict[str, Any]) -> Iterator[ProcessGroup]:
    """Yield the group of this process, while the run lasts. jax knows the processes, and has not started its devices yet.

    An error that ends this process ends the others, each with one line.

    Args:
      options: how many there are and where they meet.
      settings: what all of them must have been started with alike, as plain values by name.

    Raises:
      InputError: the processes do not come together, in the time that the options give them, or differ.
    """
    if not options.several:
        yield ProcessGroup()
        return
    group = _join(*_place(options), settings, options)
    try:
        yield group
        group.leave()
        jax.distributed.shutdown()
    except KeyboardInterrupt as error:
        group.fail("told to stop", stopped_status(error))
    except Exception as error:
        line_and_status = ending(error)
        if line_and_status and not isinstance(error, ConnectionError):
            group.fail(*line_and_status)
        # a collective or a connection fails where another process is gone; then the group says so, and ends this one
        time.sleep(PATIENCE)
        if words := gloo_failure(error):
            group.fail(words, 1)
        traceback.print_exc()
        group.fail(f"failed: {type(error).__name__}", 1)


def gloo_failure(error: Exception) -> str | None:
    """Return one line where an error is of Gloo, by which processes on CPUs exchange arrays; None where it is another.

    A collective of Gloo waits for 30 s, whatever time it is given (jax issues 40830 and 40831). It cannot be run again by one process: the
    others have closed their connections, or are past it. So the run ends, and continues from its last checkpoint.
    """
    text = str(error)
    if "gloo" not in text.lower():
        return None
    late = re.search(r"time[d ]*-?out|DEADLINE_EXCEEDED", text, re.IGNORECASE)
    why = "a process was over 30 s later than another, as on computers that are busy" if late else "a connection broke"
    what = f"Gloo, by which processes on CPUs exchange arrays, gave up: {why} ({reason(error)})"
    return f"{what}; {AGAIN}, best with a core or more for every process"


def _place(options: Processes) -> tuple[str, int, int, list[int] | None]:
    """Return where the processes meet, how many there are, which this is, and which local devices it has (None: all).

    Raises:
      InputError: the cluster does not say.
    """
    if options.cluster == "none":
        assert options.process_id is not None  # all three are given
        return options.coordinator, options.num_processes, options.process_id, None
    requested = options.coordinator or None, options.num_processes or None, options.process_id
    method = None if options.cluster == "auto" else options.cluster
    try:
        place, warnings = detect_cluster(*requested, None, method, options.start_seconds)
    except KeyError as error:
        raise InputError(
            f"cluster {options.cluster}: {error.args[0]} is not set: this process was not started by it"
        ) from None
    except Exception as error:  # whatever a cluster's environment lacks
        raise InputError(f"cluster {options.cluster}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    names = ("coordinator", "num_processes", "process_id")
    missing = [name for name, value in zip(names, place) if value is None]
    if missing:
        why = "".join(f" ({words})" for words in warnings)
        raise InputError(f"cluster {options.cluster}: nothing here says {', '.join(missing)}{why}; give --{missing[0]}")
    return place


def _join(
    address: str, count: int, number: int, devices: list[int] | None, alike: dict, options: Processes
) -> ConnectedGroup:
    seconds, secret = options.start_seconds, read_secret(options.secret_file)
    hello = {"number": number, "count": count, "host": socket.gethostname(), "pid": os.getpid(), "about": alike}
    with reading(f"coordinator {address:.200}"):
        host, port = _address(address)
        how = hello, secret, time.monotonic() + seconds, seconds
        if number:
            connection, peers, service = find(host, port, *how)
            connections, service = {0: connection}, relay(host, service)
        else:
            connections, peers, service = gather(port, *how)
    group = ConnectedGroup(number, peers, connections)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # it would keep a process from ending when told to
    jax.distributed.initialize(
        f"127.0.0.1:{service}", count, number, devices, "deactivate", initialization_timeout=seconds
    )
    return group


def _address(address: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    match = re.fullmatch(r"\[?([^\s\[\]]+)\]?:([0-9]{1,5})", address)
    if not match or not address.isprintable() or not 0 < int(match[2]) < 2**16:
        raise InputError(f"coordinator {address[:200]!r}, and should be HOST:PORT")
    match[1].encode("idna")  # what is no name is said before it is looked up
    return match[1], int(match[2])


def relay(host: str, port: int) -> int:
    """Return a port of this computer that leads to another's. It stays open when that one closes."""
    server, streams = socket.create_server(("127.0.0.1", 0)), []

    def lead(near: socket.socket) -> None:
        streams.append(near)  # what nothing refers to is closed
        far = connect(host, port, time.monotonic() + PATIENCE)
        threading.Thread(target=_pump, args=(near, far), daemon=True).start()
        _pump(far, near)

    def accept() -> None:
        while True:
            threading.Thread(target=lead, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, name="relay", daemon=True).start()
    return server.getsockname()[1]


def _pump(source: socket.socket, sink: socket.socket) -> None:
    source.settimeout(None)
    with contextlib.suppress(OSError):
        while data := source.recv(2**16):
            sink.sendall(data)
