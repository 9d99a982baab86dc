"""Storage for rows that are computed of all nodes: in memory, or in files that all processes that compute together see."""

import os
from collections import Counter
from pathlib import Path

import numpy as np

from hetjax.processes.group import ProcessGroup
from hetjax.system.mapped import mapped


class Rows:
    """Rows in memory, float32, which are written range by range.

    Args:
      shape: `(rows, width)`.
    """

    def __init__(self, shape: tuple[int, int]):
        self.array = np.empty(shape, np.float32)

    def put(self, start: int, rows: np.ndarray) -> None:
        """Write rows from row `start` on."""
        self.array[start : start + len(rows)] = rows

    def done(self) -> np.ndarray:
        """Return all rows, when every process has written its own."""
        return self.array


class SomeRows(Rows):
    """Rows of some nodes, float32, by node id: row `i` of what is written is that of node `ids[i]`; those of other nodes are 0.

    Args:
      shape: `(nodes, width)`.
    """

    def __init__(self, shape: tuple[int, int], ids: np.ndarray):
        self.array, self.ids = np.zeros(shape, np.float32), ids

    def put(self, start: int, rows: np.ndarray) -> None:
        self.array[self.ids[start : start + len(rows)]] = rows


class FileRows(Rows):
    """Rows in a file. Each process writes its own ranges of it, and maps it when all have.

    Written, not mapped, so that no page that two processes share is written back by one of them with what the other had not
    written yet; and opened anew to be read, as network file systems ask.

    Args:
      file: made by process 0.
      shape: `(rows, width)`.
      processes: that write it together.
    """

    def __init__(self, file: Path, shape: tuple[int, int], processes: ProcessGroup):
        self.file, self.shape, self.processes = file, shape, processes
        if processes.first:
            mapped(file, shape, np.float32)
        processes.barrier("kept")
        self.stream = open(file, "r+b", buffering=0)  # noqa: SIM115 (until it is done)

    def put(self, start: int, rows: np.ndarray) -> None:
        rows = np.ascontiguousarray(rows, np.float32)
        if rows.size:
            view, done = rows.data.cast("B"), 0
            offset = start * self.shape[1] * rows.itemsize
            while done < len(view):
                done += os.pwrite(self.stream.fileno(), view[done:], offset + done)

    def done(self) -> np.ndarray:
        os.fsync(self.stream.fileno())
        self.stream.close()
        self.processes.barrier("kept")
        return (
            np.memmap(self.file, np.float32, "r", shape=self.shape)
            if 0 not in self.shape
            else np.empty(self.shape, np.float32)
        )


class Kept:
    """Storage for what is computed of all nodes.

    Args:
      folder: for files; None: memory.
      processes: that compute together, which takes a folder that all of them see.
    """

    def __init__(self, folder: Path | None = None, processes: ProcessGroup | None = None):
        self.folder, self.processes, self.files = folder, processes or ProcessGroup(), Counter[str]()

    def rows(self, shape: tuple[int, int]) -> Rows:
        """Return rows to be written. All processes ask for the same in the same order."""
        return Rows(shape) if self.folder is None else FileRows(self._file("rows"), shape, self.processes)

    def matrix(self, shape: tuple[int, int]) -> np.ndarray:
        """Return a matrix float32 of this process alone, to be written in any order."""
        return (
            np.empty(shape, np.float32)
            if self.folder is None
            else mapped(self._file(f"own_{self.processes.number}"), shape, np.float32)
        )

    def _file(self, kind: str) -> Path:
        """Return the path of a new file, whose name all processes give to what they ask for together."""
        assert self.folder is not None
        self.files[kind] += 1
        return self.folder / f"{kind}_{self.files[kind]}"

    def share(self, count: int) -> range:
        """Return which of so many pieces of work are this process's."""
        number, processes = self.processes.number, self.processes.count
        return range(number * count // processes, (number + 1) * count // processes)
