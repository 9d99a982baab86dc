"""Groups of processes joined by slow links, within one process."""

import contextlib
import socket
import threading
import time

import pytest

from hetjax.processes import channel
from hetjax.processes import group as peers
from hetjax.processes.channel import Connection
from hetjax.processes.group import ConnectedGroup, Peer

OPEN: list[socket.socket] = []


@pytest.fixture
def ends(monkeypatch):
    """The lines that processes would end with; they have little patience, and part when the test is over."""
    found, made, begin = [], [], ConnectedGroup.__init__
    monkeypatch.setattr(channel, "SILENCE", 2)
    monkeypatch.setattr(peers, "SILENCE", 2)
    monkeypatch.setattr(peers, "BEAT", 0.1)
    monkeypatch.setattr(peers, "_end", lambda line, status: found.append(line))
    monkeypatch.setattr(ConnectedGroup, "__init__", lambda self, *about: made.append(self) or begin(self, *about))
    yield found
    for one in made:
        one.leaving.set()
    while OPEN:
        with OPEN.pop() as end, contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)  # which wakes who waits for it


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that hold little of what is under way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near, far = socket.create_connection(server.getsockname()), server.accept()[0]
    OPEN.extend((near, far))
    for end in near, far:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**15)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**15)
    return near, far


def linked(rate: float) -> tuple[Connection, Connection]:
    """Two ends of a connection that passes so many bytes a second on, each way."""
    (near, inlet), (outlet, far) = pair(), pair()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**14):
                sink.sendall(data)
                time.sleep(len(data) / rate)

    for ends in (inlet, outlet), (outlet, inlet):
        threading.Thread(target=pump, args=ends, daemon=True).start()
    return Connection(near), Connection(far)


def group(count: int, rate: float) -> list[ConnectedGroup]:
    """So many processes; the link between the first two is slow."""
    every = [Peer(number, "here", number) for number in range(count)]
    made, links = [], {}
    for number in range(1, count):
        there, here = linked(rate if number == 1 else float("inf"))
        made.append(ConnectedGroup(number, every, {0: there}))
        links[number] = here
    return [ConnectedGroup(0, every, links), *made]
