"""How processes come together: each finds process 0, they compare what they were started with, and jax is told.

jax has a coordination service, in process 0, that ends every process with a C++ trace when it cannot be reached, at the
start or later. So the processes first meet by themselves, at the address that the user gave, and where something is
wrong one line says so. jax's service gets another port, and its clients reach it through a relay that stays up: whose
end is whose fault is for `Peers` to say.
"""

import contextlib
import logging
import os
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from hetjax.config import Processes
from hetjax.errors import InputError
from hetjax.processes.channel import Connection
from hetjax.processes.peers import Alone, Peer, Peers

PATIENCE = 10  # seconds that a newcomer has to introduce itself, and that an error waits for a peer's end to explain it


@contextlib.contextmanager
def joined(options: Processes, about: dict[str, Any]) -> Iterator[Alone]:
    """The peers of this process, while the run lasts; jax knows them, and has not started its devices yet.

    An error that ends this process ends its peers, each with one line.

    Args:
      options: how many there are and where they meet.
      about: what all of them must have been started with alike, as plain values by name.

    Raises:
      InputError: the processes do not come together, in the time that the options give them, or differ.
    """
    if not options.several:
        yield Alone()
        return
    peers = _join(*_place(options), about, options.start_seconds)
    try:
        yield peers
        peers.leave()
        jax.distributed.shutdown()
    except (InputError, FloatingPointError) as error:
        peers.fail(f"{error}", 2 if isinstance(error, InputError) else 1)
    except KeyboardInterrupt:
        peers.fail("stopped from the keyboard", 130)
    except Exception as error:
        time.sleep(PATIENCE)  # a collective fails where a peer is gone, and then `peers` says so and ends this process
        traceback.print_exc()
        peers.fail(f"failed: {type(error).__name__}", 1)


def _place(options: Processes) -> tuple[str, int, int, list[int] | None]:
    """Where the processes meet, how many there are, which this is, and which local devices it has (None: all).

    Raises:
      InputError: the cluster does not say.
    """
    given = options.coordinator or None, options.num_processes or None, options.process_id
    if options.cluster == "none":
        return *given, None
    method = None if options.cluster == "auto" else options.cluster
    try:
        found, said = _detect(*given, None, method, options.start_seconds)
    except KeyError as error:
        raise InputError(
            f"cluster {options.cluster}: {error.args[0]} is not set: this process was not started by it"
        ) from None
    except Exception as error:  # whatever a cluster's environment lacks
        raise InputError(f"cluster {options.cluster}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    names = ("coordinator", "num_processes", "process_id")
    missing = [name for name, value in zip(names, found) if value is None]
    if missing:
        why = "".join(f" ({words})" for words in said)
        raise InputError(f"cluster {options.cluster}: nothing here says {', '.join(missing)}{why}; give --{missing[0]}")
    return found


def _detect(*given):
    """What jax finds of a cluster, and its warnings, each on one line; it logs an error that another one follows."""
    from jax._src.clusters import ClusterEnv  # jax has no public call that detects and does nothing else

    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = ClusterEnv.auto_detect_unset_distributed_params(*given)
    finally:
        logging.disable(logging.NOTSET)
    return found, [" ".join(str(warning.message).split()) for warning in said]


def _join(address: str, count: int, number: int, devices: list[int] | None, about: dict, seconds: int) -> Peers:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError(f"coordinator {address!r}, and should be HOST:PORT")
    host, deadline = host.strip("[]"), time.monotonic() + seconds
    hello = {"number": number, "count": count, "host": socket.gethostname(), "pid": os.getpid(), "about": about}
    try:
        if number:
            connection, (every, service) = _find(host, int(port), hello, deadline, seconds)
            connections, service = {0: connection}, relay(host, service)
        else:
            connections, every, service = _receive(int(port), hello, deadline, seconds)
    except OSError as error:
        raise InputError(f"coordinator {address}: {error.strerror or error}") from None
    peers = Peers(number, [Peer(*one) for one in every], connections)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # it would keep a process from ending when told to
    jax.distributed.initialize(
        f"127.0.0.1:{service}", count, number, devices, "deactivate", initialization_timeout=seconds
    )
    return peers


def _find(host: str, port: int, hello: dict, deadline: float, seconds: int):
    """Introduce this process to process 0; returns the connection and what it says: all processes, and jax's port."""
    try:
        stream = _connect(host, port, deadline)
    except OSError as error:
        raise InputError(
            f"coordinator {host}:{port} does not answer within {seconds} s: {error.strerror or error}"
        ) from None
    connection = Connection(stream)
    connection.send(hello)
    stream.settimeout(max(0.1, deadline - time.monotonic()) + PATIENCE)
    try:
        (kind, *said), _ = connection.receive()
    except (OSError, ValueError) as error:
        raise InputError(f"coordinator {host}:{port} does not answer as process 0 would: {error}") from None
    if kind == "refused":
        raise InputError(said[0])
    return Connection(stream), said


def _receive(port: int, hello: dict, deadline: float, seconds: int):
    """Wait for all others; returns connections to them, all processes, and a port for jax's service."""
    connections: dict[int, Connection] = {}
    hellos = {0: hello}
    with _server(port) as server:
        while len(hellos) < hello["count"]:
            server.settimeout(max(0.0, deadline - time.monotonic()) or 0.001)
            try:
                stream, _ = server.accept()
            except TimeoutError:
                missing = ", ".join(str(one) for one in range(hello["count"]) if one not in hellos)
                _refuse(connections.values(), f"process {missing} of {hello['count']} did not come within {seconds} s")
            connection = Connection(stream)
            stream.settimeout(PATIENCE)
            try:
                other, _ = connection.receive()
                number, wrong = other["number"], _difference(hello, other, hellos)
            except (OSError, ValueError, KeyError, TypeError):
                connection.close()  # it is none of us
                continue
            if wrong:
                _refuse([*connections.values(), connection], wrong)
            connections[number], hellos[number] = connection, other
    every = [[hellos[one][key] for key in Peer._fields] for one in range(hello["count"])]
    service = _free_port()
    for number, connection in connections.items():
        try:
            connection.send(["welcome", every, service])
        except OSError:
            line = f"process {number} on {hellos[number]['host']} ended before all {hello['count']} had come"
            _refuse(connections.values(), line)
    return {number: Connection(connections[number].stream) for number in sorted(connections)}, every, service


def _difference(here: dict, there: dict, known: dict) -> str | None:
    """What is wrong with a process that introduces itself; None if nothing is."""
    who = f"process {there['number']} on {there['host']}"
    if there["count"] != here["count"]:
        return f"{who} was started with num_processes {there['count']} != {here['count']} of process 0"
    if there["number"] in known:
        return f"process_id {there['number']} was given to two processes, on {there['host']} and on {known[there['number']]['host']}"
    for key in here["about"] | there["about"]:
        mine, its = (hello["about"].get(key, "absent") for hello in (here, there))
        if mine != its:
            return f"{who} was started with {key} {its!r} != {mine!r} of process 0"
    return None


def _refuse(connections: Iterable[Connection], line: str) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(["refused", line])
    raise InputError(line)


def _connect(host: str, port: int, deadline: float) -> socket.socket:
    """Connect, and try again until `deadline`.

    Raises:
      OSError: it did not answer until then.
    """
    while True:
        try:
            return socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic()))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _free_port() -> int:
    with _server(0) as server:
        return server.getsockname()[1]


def relay(host: str, port: int) -> int:
    """A port of this computer's own that leads to another's; it stays open when that one closes."""
    server, kept = socket.create_server(("127.0.0.1", 0)), []

    def lead(near: socket.socket) -> None:
        kept.append(near)  # what nothing refers to is closed
        far = _connect(host, port, time.monotonic() + PATIENCE)
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
