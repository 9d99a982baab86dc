"""The meeting of the processes: the others come to process 0, which compares what all were started with.

Anybody may connect while process 0 waits. A newcomer has a thread, little time and few bytes to prove that it belongs to
the group and to say who it is; whoever does not is dropped, whatever it sends.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue

from hetjax.options.config import MOST_PROCESSES
from hetjax.processes import secret as secrets
from hetjax.processes.channel import Connection
from hetjax.processes.group import Peer
from hetjax.system.errors import InputError, reading, reason

PATIENCE = 10  # seconds that a newcomer has to introduce itself, and that a far end has to answer
MOST_HELLO = 2**20  # bytes in which it does
AT_ONCE = 256  # newcomers that are listened to before they have proved anything; the oldest makes room for the next
GRACE = 1  # seconds that each of them is listened to in any case, so that who comes again and again drives nobody out
GLANCE = 0.1  # seconds between looks at whether all have come


class Door:
    """The listening socket of process 0, at which newcomers arrive.

    Args:
      port: on all addresses of this computer.
      secret: of the group.
      deadline: by `time.monotonic()`; nobody is listened to for longer.

    Attributes:
      came: `(connection, hello)` of everyone who belongs to the group.
      dropped: how many did not, and what is wrong with the last: words.
    """

    def __init__(self, port: int, secret: bytes, deadline: float):
        self.server, self.secret, self.deadline = server(port), secret, deadline
        self.came: SimpleQueue[tuple[Connection, dict]] = SimpleQueue()
        self.dropped = 0, ""
        self.closed, self.lock = threading.Event(), threading.Lock()
        self.unproved: dict[socket.socket, float] = {}  # when they came by `time.monotonic()`, the oldest first
        self.keeper = threading.Thread(target=self._accept, name="door", daemon=True)

    def __enter__(self) -> "Door":
        self.keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self.keeper.join()
        with contextlib.suppress(Empty):
            while True:
                self.came.get_nowait()[0].close()

    def _accept(self) -> None:
        self.server.settimeout(GLANCE)
        with self.server:
            while not self.closed.is_set():
                try:
                    stream, (host, *_) = self.server.accept()
                except OSError:  # nobody came, or is gone again
                    continue
                self._make_room(stream)
                threading.Thread(target=self._meet, args=(stream, host), daemon=True).start()

    def _make_room(self, newcomer: socket.socket) -> None:
        """Listen to a newcomer, and no longer to the oldest ones that are too many, once each has had its time."""
        while not self.closed.is_set():
            with self.lock:
                if len(self.unproved) < AT_ONCE:
                    break
                oldest, came = next(iter(self.unproved.items()))
                left = came + GRACE - time.monotonic()
                if left <= 0:
                    del self.unproved[oldest]
                    with contextlib.suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)
            self.closed.wait(min(max(left, 0), GLANCE))
        with self.lock:
            self.unproved[newcomer] = time.monotonic()

    def _meet(self, stream: socket.socket, host: str) -> None:
        until = min(self.deadline, time.monotonic() + PATIENCE)
        try:
            connection = Connection(stream)
            secrets.challenge(connection, self.secret, until)
            hello, _ = connection.receive(until, MOST_HELLO)
            _check(hello)
            with self.lock:
                if stream not in self.unproved:
                    raise ConnectionError("too many newcomers at once")
                del self.unproved[stream]
            self.came.put((connection, hello))
            if self.closed.is_set():
                raise ConnectionError("too late")
        except Exception as error:  # whatever it did, it is none of us
            self.dropped = self.dropped[0] + 1, f"{host}: {reason(error)}"
            with self.lock:
                self.unproved.pop(stream, None)
            stream.close()


def _check(hello: dict) -> None:
    """Check that a newcomer says of itself what a process does, each of the right kind; raise any error if not."""
    complete = hello.keys() == {"number", "count", "host", "pid", "about"}
    kinds = all(type(hello[key]) is int for key in ("number", "count", "pid")) and isinstance(hello["about"], dict)
    if not complete or not kinds or not hello["host"].isprintable() or len(hello["host"]) > 255:
        raise ValueError("it does not introduce itself as a process does")
    if not (0 < hello["number"] < hello["count"] <= MOST_PROCESSES and 0 <= hello["pid"] < 2**63):
        raise ValueError("it is no process of any group")


def find(
    host: str, port: int, hello: dict, secret: bytes, deadline: float, seconds: int
) -> tuple[Connection, list[Peer], int]:
    """Introduce this process to process 0. Return the connection and what process 0 says: all processes, and jax's port.

    Args:
      deadline: by `time.monotonic()`, `seconds` after the start.

    Raises:
      InputError: it does not answer in time, has another secret, or was started with something else.
    """
    try:
        stream = connect(host, port, deadline)
    except OSError as error:
        raise InputError(
            f"coordinator {host}:{port} does not answer within {seconds} s: {error.strerror or error}"
        ) from None
    connection, until = Connection(stream), max(deadline, time.monotonic()) + PATIENCE
    why = f"coordinator {host}:{port} does not answer as process 0 would"
    with contextlib.ExitStack() as opened, reading(why):
        opened.callback(connection.close)
        secrets.answer(connection, secret, until)
        connection.send(hello)
        (kind, *reply), _ = connection.receive(until)
        if kind == "refused":
            raise InputError(reply[0])
        rows, service = reply
        peers = [Peer(*row) for row in rows]
        opened.pop_all()
    return connection, peers, service


def gather(
    port: int, hello: dict, secret: bytes, deadline: float, seconds: int
) -> tuple[dict[int, Connection], list[Peer], int]:
    """Wait for all others, in process 0. Return connections to them, all processes, and a port for jax's service.

    Raises:
      InputError: not all came in time, or one was started with something else.
    """
    connections: dict[int, Connection] = {}
    hellos, count = {0: hello}, hello["count"]
    with Door(port, secret, deadline) as door:
        while len(hellos) < count:
            try:
                connection, other = door.came.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                missing = ", ".join(str(number) for number in range(count) if number not in hellos)
                many, last = door.dropped
                strangers = f"; {many} connections were dropped, the last from {last}" if many else ""
                line = f"process {missing} of {count} did not come within {seconds} s{strangers}"
                _refuse(connections.values(), line)
            wrong = _difference(hello, other, hellos)
            if wrong:
                _refuse([*connections.values(), connection], wrong)
            connections[other["number"]], hellos[other["number"]] = connection, other
    peers = [Peer(*(hellos[number][key] for key in Peer._fields)) for number in range(count)]
    service = free_port()
    for number, connection in connections.items():
        try:
            connection.send(["welcome", peers, service])
        except OSError:
            line = f"process {number} on {hellos[number]['host']} ended before all {count} had come"
            _refuse(connections.values(), line)
    return {number: connections[number] for number in sorted(connections)}, peers, service


def _difference(local: dict, remote: dict, joined: dict) -> str | None:
    """Return what is wrong with a process that introduces itself; None if nothing is."""
    who = f"process {remote['number']} on {remote['host']}"
    if remote["count"] != local["count"]:
        return f"{who} was started with num_processes {remote['count']} != {local['count']} of process 0"
    if remote["number"] in joined:
        return f"process_id {remote['number']} was given to two processes, on {remote['host']} and on {joined[remote['number']]['host']}"
    for key in local["about"] | remote["about"]:
        expected, found = (hello["about"].get(key, "absent") for hello in (local, remote))
        if expected != found:
            return f"{who} was started with {key:.200} {found!r:.200} != {expected!r:.200} of process 0"
    return None


def _refuse(connections: Iterable[Connection], line: str) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(["refused", line])
        connection.close()
    raise InputError(line)


def connect(host: str, port: int, deadline: float) -> socket.socket:
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


def server(port: int) -> socket.socket:
    """Return a socket that takes connections to a port, on all addresses of this computer; 0: any that is free."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def free_port() -> int:
    with server(0) as listener:
        return listener.getsockname()[1]
