"""Bounds on packed data: how much may come out of a file, so that a small one cannot fill the memory or take hours to read."""

from typing import Protocol

ALWAYS, LARGEST = 2**30, 2**34  # bytes that may come out of any file, and the most that may
RATIO = 500  # of more than `ALWAYS`; the benchmark's graphs, mostly zeros, pack to a hundredth


def check(packed: int, unpacked: int) -> None:
    """Raise a ValueError where so many bytes should not come out of so many."""
    if unpacked > LARGEST:
        raise ValueError(f"unpacks to {unpacked} bytes, over the {LARGEST} allowed")
    if unpacked > ALWAYS and unpacked > RATIO * packed:
        raise ValueError(f"unpacks from {packed} bytes to {unpacked} or more, over {RATIO} times as many")


class Readable(Protocol):
    """A source that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes: ...


class Checked:
    """A stream that is checked while it is read.

    Args:
      stream: what comes out.
      packed: bytes that it comes from.
    """

    def __init__(self, stream: Readable, packed: int):
        self.stream, self.packed, self.size = stream, packed, 0

    def read(self, size: int = -1, /) -> bytes:
        data = self.stream.read(size)
        self.size += len(data)
        check(self.packed, self.size)
        return data
