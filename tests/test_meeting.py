"""How processes find each other: who belongs to the group comes in, and whoever else does not, whatever it sends."""

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hetjax.processes import meeting, secret
from hetjax.processes.channel import HEAD, Connection
from hetjax.processes.meeting import find, gather
from hetjax.system.errors import InputError
from tests.support.many import free_port

HELLO = {"number": 0, "count": 2, "host": "here", "pid": 7, "about": {"train.seed": 3}}
OTHER = HELLO | {"number": 1, "pid": 8}
SECRET = b"said by nobody to anybody"
LONG = 20  # seconds that nothing here takes


def framed(words: bytes, arrays: int = 0) -> bytes:
    return HEAD.pack(len(words), arrays) + words


def message(words, arrays=(), size: int = 0) -> bytes:
    return framed(json.dumps([words, arrays]).encode(), size)


STRANGE = [
    b"",
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"\x16\x03\x01" + bytes(500),
    HEAD.pack(2**64 - 1, 0),
    HEAD.pack(2**27, 0),  # less than processes may say later
    framed(b"[" * 100_000),
    framed(b"7"),
    framed(b'"1"'),
    framed(b"\xff\xfe"),
    *(message(words) for words in (7, "1", None, [], {}, ["1", 2], HELLO, OTHER | {"count": 3, "number": 3})),
    *(message(OTHER | {key: value}) for key in OTHER for value in (None, 1.5, True, [], -1, 10**400)),
    *(message(OTHER | {key: "1"}) for key in OTHER if key != "host"),
    *(message({name: OTHER[name] for name in OTHER if name != key}) for key in OTHER),
    *(message(OTHER | {"host": host}) for host in ("x" * 256, "two\nlines", "\x1b[2J")),
    *(message(OTHER, [["a", "<f4", shape]], 4) for shape in ([2**50], [2**62, 4], [-1], ["1"], 1, [[1]])),
    *(message(OTHER, [["a", kind, [1]]], 8) for kind in ("O", "none", 3, "<f4,<f4")),
    *(message(OTHER, arrays) for arrays in (3, [3], [["a"]], [[[], "<f4", [0]]])),
]


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def gathered(port):
    """Begins to wait for the others, as process 0; returns what gives them, or raises the error."""
    with ThreadPoolExecutor() as pool:

        def begin(secret: bytes = b"", seconds: int = LONG):
            until = time.monotonic() + seconds
            return pool.submit(gather, port, HELLO, secret, until, seconds)

        yield begin


def join(port: int, secret: bytes = b""):
    return find("localhost", port, OTHER, secret, time.monotonic() + LONG, LONG)


def stranger(port: int, sends: bytes, proves: bool) -> socket.socket:
    """Somebody who sends something, at once or in place of a process's hello."""
    stream = meeting.connect("localhost", port, time.monotonic() + LONG)
    if proves:
        secret.answer(Connection(stream), b"", time.monotonic() + LONG)
    with contextlib.suppress(OSError):
        stream.sendall(sends)
    return stream


def dropped(stream: socket.socket) -> bool:
    stream.settimeout(LONG)
    with contextlib.suppress(ConnectionError):
        while stream.recv(2**12):
            pass
    stream.close()
    return True


@pytest.mark.parametrize("proves", [False, True])
def test_whatever_a_stranger_sends_it_is_dropped_and_the_others_come_together(port, gathered, monkeypatch, proves):
    monkeypatch.setattr(meeting, "PATIENCE", 2)
    every = gathered()
    assert all([dropped(stranger(port, sends, proves)) for sends in STRANGE if sends])
    silent = stranger(port, b"", proves)
    connection, names, _ = join(port)
    connections, same, _ = every.result(LONG)
    assert names == same and [str(one) for one in names] == ["process 0 (pid 7 on here)", "process 1 (pid 8 on here)"]
    connection.send("hello")
    assert connections[1].receive() == ("hello", {}) and dropped(silent)
    for one in connection, *connections.values():
        one.close()


def test_who_drips_holds_nobody(port, gathered):
    """Neither another that comes meanwhile, nor process 0 past its time."""
    over = threading.Event()

    def drip(proves: bool) -> None:
        with contextlib.suppress(OSError), stranger(port, b"", proves) as stream:
            for place in range(10**6):
                if over.wait(0.1):
                    break
                stream.sendall(HEAD.pack(500, 0)[place : place + 1] or b"[")

    for seconds in (1, LONG):
        every = gathered(seconds=seconds)
        drips = [threading.Thread(target=drip, args=(proves,), daemon=True) for proves in (False, True)]
        for one in drips:
            one.start()
        time.sleep(0.3)
        if seconds == 1:
            with pytest.raises(InputError, match="process 1 of 2 did not come within 1 s"):
                every.result(LONG)
        else:
            ends = join(port)[0], every.result(LONG)[0][1]
            [end.close() for end in ends]
        over.set()
        for one in drips:
            one.join(LONG)
        over.clear()


def test_hundreds_of_silent_strangers_hold_nobody(port, gathered, monkeypatch):
    monkeypatch.setattr(meeting, "PATIENCE", 1000)  # so that none is dropped for its silence
    waits = gathered(SECRET)
    with contextlib.ExitStack() as held:
        for _ in range(300):  # more than there are places
            held.enter_context(meeting.connect("127.0.0.1", port, time.monotonic() + LONG))
        connection, peers, _ = join(port, SECRET)
        connections, same, _ = waits.result()
        assert peers == same
        for one in (connection, *connections.values()):
            one.close()


def test_strangers_who_come_again_and_again_keep_nobody_out(port, gathered, monkeypatch):
    monkeypatch.setattr(meeting, "AT_ONCE", 4)
    monkeypatch.setattr(meeting, "PATIENCE", 1000)
    over = threading.Event()

    def come() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as stream:
                stream.settimeout(1)
                while stream.recv(4096) and not over.is_set():
                    pass

    waits = gathered(SECRET)
    threads = [threading.Thread(target=come, daemon=True) for _ in range(12)]
    try:
        for one in threads:
            one.start()
        time.sleep(0.3)
        connection, peers, _ = join(port, SECRET)
        connections, same, _ = waits.result()
        assert peers == same
        for end in (connection, *connections.values()):
            end.close()
    finally:
        over.set()
        for one in threads:
            one.join(LONG)


def test_nobody_joins_without_the_secret(port, gathered):
    every = gathered(SECRET)
    for other in b"", SECRET[:-1]:
        with pytest.raises(InputError, match="has another secret"):
            join(port, other)
    ends = join(port, SECRET)[0], every.result(LONG)[0][1]
    [end.close() for end in ends]
    alone = gathered(SECRET, 1)
    with pytest.raises(InputError, match="has another secret"):
        join(port)
    with pytest.raises(InputError, match=r"within 1 s; 1 connections were dropped, the last from .* another secret"):
        alone.result(LONG)


@pytest.mark.parametrize("claim", ["echo", "", "0" * 64, "é", 3, None])
def test_who_has_not_the_secret_is_no_process_0(claim):
    """Not even who gives a newcomer's own answer back to it."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        found = pool.submit(join, server.getsockname()[1], SECRET)
        connection = Connection(server.accept()[0])
        connection.send("0" * 64)
        (_, proof), _ = connection.receive()
        connection.send(["welcome", proof if claim == "echo" else claim])
        with pytest.raises(InputError, match="does not answer as process 0 would"):
            found.result(LONG)
        connection.close()


def test_processes_that_differ_are_told_so_in_few_words(port, gathered):
    every = gathered()
    other = OTHER | {"about": {"train.seed": 4, "cache.placement": ["x" * 1000]}}
    with pytest.raises(InputError, match="process 1 on here was started with train.seed 4 != 3 of process 0"):
        find("localhost", port, other, b"", time.monotonic() + LONG, LONG)
    with pytest.raises(InputError, match="train.seed 4 != 3"):
        every.result(LONG)
    every = gathered()
    with pytest.raises(InputError, match="cache.placement") as told:
        find(
            "localhost", port, OTHER | {"about": other["about"] | {"train.seed": 3}}, b"", time.monotonic() + LONG, LONG
        )
    assert len(str(told.value)) < 400
    with pytest.raises(InputError, match="cache.placement"):
        every.result(LONG)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "No such file"),
        (b"", "0 bytes, and a secret has 16 to 4096"),
        (b"  too short   \n", "9 bytes, and"),
        (b"x" * 5000, "more than 4096 bytes"),
    ],
)
def test_a_file_that_holds_no_secret(tmp_path, found, message):
    file = tmp_path / "secret"
    if found is not None:
        file.write_bytes(found)
        file.chmod(0o600)
    with pytest.raises(InputError, match=f"secret_file {file}: {message}"):
        secret.read_secret(str(file))
    with pytest.raises(InputError, match="is no regular file but a folder"):
        secret.read_secret(str(tmp_path))
    file.write_bytes(SECRET + b"\n")
    for mode in (0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(InputError, match=f"mode {mode:o} lets others .* chmod 600"):
            secret.read_secret(str(file))
    file.chmod(0o600)
    assert secret.read_secret(str(file)) == SECRET
    assert secret.read_secret("") == b""
