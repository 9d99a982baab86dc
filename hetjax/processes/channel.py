"""Messages between processes: a connection each to process 0, with words that JSON holds and arrays of numbers.

They are small and few beside what jax sends, and go their own way: a thread that samples may agree with its peers on
something while other threads wait in jax's collectives, in any order. Nothing that arrives is ever unpickled.
"""

import contextlib
import json
import math
import operator
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from hetjax.system.errors import reading

SILENCE = 40  # seconds after which a process that says nothing counts as gone
HEAD = struct.Struct(">QQ")  # bytes of words, and of the arrays behind them
MOST_WORDS = 2**28

Arrays = Mapping[str, np.ndarray]


class Connection:
    """One end of a connection between two processes.

    Args:
      stream: connected; the other end sends something at least every `SILENCE` seconds.
    """

    def __init__(self, stream: socket.socket):
        self.stream, self._sending = stream, threading.Lock()
        stream.settimeout(SILENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, words: Any, arrays: Arrays | None = None, wait: float = -1) -> int:
        """Send plain values, and arrays, however long that takes while the other end takes some; returns the bytes.

        Args:
          wait: seconds for what another thread sends, after which nothing is sent; -1: as long as that takes.

        Raises:
          OSError: the other end is gone, or takes nothing any more; the connection is of no more use.
        """
        arrays = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
        descriptions = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
        head = json.dumps([words, descriptions]).encode()
        if not self._sending.acquire(timeout=wait):
            return 0
        size = sum(array.nbytes for array in arrays.values())
        try:
            self._write(HEAD.pack(len(head), size) + head)
            for array in arrays.values():
                if array.nbytes:
                    self._write(array.data.cast("B"))
        except OSError:
            with contextlib.suppress(OSError):
                self.stream.shutdown(socket.SHUT_RDWR)  # half of a message was sent, perhaps
            raise
        finally:
            self._sending.release()
        return HEAD.size + len(head) + size

    def _write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.stream.send(rest) :]  # each waits `SILENCE` seconds, where `sendall` does so for the whole

    def receive(self, until: float | None = None, most: int = MOST_WORDS) -> tuple[Any, dict[str, np.ndarray]]:
        """Return the next message: plain values, and arrays.

        Args:
          until: by `time.monotonic()`, when all of it must have arrived, and it has no arrays; None: while the other end
            says something.
          most: bytes of the values.

        Raises:
          OSError: the other end is gone, or says nothing any more.
          ValueError: it sends something else than messages.
        """
        words, rest = HEAD.unpack(self._read(HEAD.size, until))
        if words > most or (rest and until):
            raise ValueError(f"a message of {words} bytes, and arrays of {rest}")
        head = self._read(words, until)
        with reading("a message"):
            values, descriptions = json.loads(head)
            shapes = {name: (_plain(kind), tuple(map(operator.index, shape))) for name, kind, shape in descriptions}
        if rest != sum(dtype.itemsize * math.prod(shape) for dtype, shape in shapes.values()):
            raise ValueError(f"arrays of {rest} bytes, and another number was announced")
        return values, {name: self._array(dtype, shape) for name, (dtype, shape) in shapes.items()}

    def _array(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        return np.frombuffer(self._read(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)

    def _read(self, count: int, until: float | None = None) -> bytearray:
        data = bytearray(count)
        view, done = memoryview(data), 0
        try:
            while done < count:
                if until:
                    self.stream.settimeout(max(0.001, until - time.monotonic()))
                received = self.stream.recv_into(view[done:])
                if not received:
                    raise ConnectionError("the connection was closed")
                if until and time.monotonic() > until:
                    raise TimeoutError("it takes too long")
                done += received
        finally:
            if until:
                self.stream.settimeout(SILENCE)
        return data

    def close(self) -> None:
        self.stream.close()


def _plain(kind: str) -> np.dtype:
    dtype = np.dtype(kind)
    if dtype.hasobject:
        raise ValueError(f"an array of {dtype}")
    return dtype
