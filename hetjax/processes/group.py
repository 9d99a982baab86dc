"""The processes of a run, as one of them sees them."""

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any, NamedTuple

from hetjax.processes.channel import SILENCE, Arrays, Connection

BEAT = 5  # seconds between signs of life
AGAIN = "the same commands continue from the last checkpoint, if there is one"


class ProcessGroup:
    """The one process of a run."""

    number, count, first = 0, 1, True

    def all_gather(self, tag: str, value: Any) -> list[Any]:
        """Return a plain value of every process, in their order, in all processes.

        Every process calls this as often, and of one tag in the same order; different tags may be used in different
        threads.
        """
        return [value]

    def gather(self, tag: str, arrays: Arrays) -> Arrays | None:
        """Return the arrays of all processes in process 0, and None in the others. It is called as `all_gather` is."""
        return arrays

    def broadcast(self, tag: str, arrays: Arrays) -> Arrays:
        """Return the arrays of process 0 in all processes; those that the others give are not looked at. It is called as `all_gather` is."""
        return arrays

    def broadcast_object(self, tag: str, value: Any) -> Any:
        """Return the plain value that process 0 gives."""
        return self.all_gather(tag, value if self.first else None)[0]

    def sent(self, *tags: str) -> float:
        """Return the bytes that this process sends to others in a call of each tag, on average."""
        return 0.0

    def barrier(self, tag: str) -> None:
        """Wait until all processes have called this."""
        self.all_gather(tag, None)


class Peer(NamedTuple):
    """Another process, to be named in an error.

    Attributes:
      number: its process id.
      host: its computer's name.
      pid: its number there.
    """

    number: int
    host: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.number} (pid {self.pid} on {self.host})"


class ConnectedGroup(ProcessGroup):
    """The processes of a run; process 0 has a connection to each, the others one to it.

    If one of them ends or says nothing for `SILENCE` seconds, every other prints one line that names it and ends too,
    whatever it was doing: in a collective it would wait for ever.

    Args:
      number: of this process.
      every: all processes, in order.
      connections: by the process at the other end.
    """

    def __init__(self, number: int, every: list[Peer], connections: Mapping[int, Connection]):
        self.number, self.every, self.count, self.first = number, every, len(every), number == 0
        self.connections = dict(connections)
        self.bytes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.arrived: dict[tuple[int, str], SimpleQueue] = {}
        self.leaving, self.stopping = threading.Event(), threading.Lock()
        for other in self.connections:
            threading.Thread(target=self._listen, args=(other,), name=f"peer {other}", daemon=True).start()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def all_gather(self, tag: str, value: Any) -> list[Any]:
        self.calls[tag] += 1
        if not self.first:
            self._send(0, ["value", tag, value])
            return self._arrived(0, tag).get()[0]
        values = [value, *(self._arrived(other, tag).get()[0] for other in self.connections)]
        for other in self.connections:
            self._send(other, ["value", tag, values])
        return values

    def gather(self, tag: str, arrays: Arrays) -> Arrays | None:
        self.calls[tag] += 1
        if not self.first:
            self._send(0, ["value", tag, None], arrays)
            return None
        return dict(arrays).copy() | {
            name: array for other in self.connections for name, array in self._arrived(other, tag).get()[1].items()
        }

    def broadcast(self, tag: str, arrays: Arrays) -> Arrays:
        self.calls[tag] += 1
        if not self.first:
            return self._arrived(0, tag).get()[1]
        for other in self.connections:
            self._send(other, ["value", tag, None], arrays)
        return arrays

    def sent(self, *tags: str) -> float:
        return sum(self.bytes[tag] / max(1, self.calls[tag]) for tag in tags)

    def leave(self) -> None:
        """End the connections when all processes have come to the end."""
        self.barrier("end")
        self.leaving.set()
        for other in self.connections:
            self._send(other, ["bye"])

    def fail(self, line: str, status: int) -> None:
        """Print why this process ends, tell the peers, and end it, whatever its threads do."""
        with self.stopping:
            self._tell_all(["stopped", self.number, f"stopped: {line}", status])
            _end(line, status)

    def _arrived(self, other: int, tag: str) -> SimpleQueue:
        """Return the queue of a process's values for a tag, the same for the thread that waits and the one that listens, whichever asks first."""
        return self.arrived.setdefault((other, tag), SimpleQueue())  # which no other thread interrupts

    def _send(self, other: int, words: list, arrays: Arrays | None = None) -> None:
        try:
            size = self.connections[other].send(words, arrays)
            if words[0] == "value":
                self.bytes[words[1]] += size
        except OSError:
            if not self.leaving.is_set():
                time.sleep(SILENCE)  # the thread that listens to it says what happened, and ends this process

    def _tell_all(self, words: list, wait: float = BEAT, but: int | None = None) -> None:
        for other, connection in self.connections.items():
            with contextlib.suppress(OSError):  # it is gone itself
                if other != but:
                    connection.send(words, wait=wait)

    def _beat(self) -> None:
        while not self.leaving.wait(BEAT):
            self._tell_all(["beat"], wait=0)  # what is being sent is a sign of life itself

    def _listen(self, other: int) -> None:
        while True:
            try:
                (kind, *content), arrays = self.connections[other].receive()
            except TimeoutError:
                return self._stop(other, f"has said nothing for {SILENCE} s", 1)
            except Exception as error:  # whatever it sent
                return self._stop(other, f"is gone ({error})", 1)
            if kind == "value":
                tag, value = content
                self._arrived(other, tag).put((value, arrays))
            elif kind == "stopped":
                number, why, status = content
                return self._stop(number, why, status)
            elif kind == "bye":
                return None

    def _stop(self, other: int, why: str, status: int) -> None:
        """Tell the other peers of a process that ended, print the line, and end."""
        if self.leaving.is_set():
            return
        with self.stopping:
            self._tell_all(["stopped", other, why, status], but=other)
            _end(f"{self.every[other]} {why}" + (f"; {AGAIN}" if status == 1 else ""), status)


def _end(line: str, status: int) -> None:
    """Print a line and end this process: threads of it may wait in a collective, which nothing else ends."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    print(f"hetjax: error: {line}", file=sys.stderr, flush=True)
    os._exit(status)
