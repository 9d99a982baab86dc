"""Rows of features that go with the nodes of partitions, through a memory map (CATGNN, section 3.2)."""

from pathlib import Path

import numpy as np

from hetjax.graph import store
from hetjax.graph.homogeneous import offsets
from hetjax.graph.npy import load_array
from hetjax.graph.sizes import Sizes
from hetjax.partition.stream.neighbours import nodes_of
from hetjax.partition.stream.run import write_header
from hetjax.system.errors import InputError

AT_ONCE = 2**22  # bytes that are copied together


class Features:
    """The rows of features that go with nodes: of one file, or by the types of a store.

    Attributes:
      matrices: by the name of the file that a partition gets: the number of the first node, and the mapped rows.
    """

    def __init__(self, file: str, sizes: Sizes | None, path: str):
        if file and sizes:
            raise InputError(f"features is {file!r}, and the store {path} has its own")
        self.file, self.matrices = file, {}
        if file:
            matrix = load_array(Path(file))
            if matrix.ndim != 2:
                raise InputError(f"{file}: {matrix.dtype} {matrix.shape}, and should be (nodes, width)")
            self.matrices["features.npy"] = 0, matrix
        if sizes:
            opened, start = store.open(path, ()), offsets(sizes.schema.nodes)
            for number, name in enumerate(sizes.schema.nodes):
                if name in opened.features:
                    self.matrices[f"features_{number}.npy"] = start[name], opened.features[name]

    def check(self, nodes: int) -> None:
        """Raise an InputError where a file has rows for more or fewer nodes."""
        for _, matrix in self.matrices.values():
            if self.file and len(matrix) != nodes:
                raise InputError(f"{self.file}: {len(matrix)} rows != {nodes} nodes of the stream")

    @property
    def size(self) -> int:
        """The bytes of all rows."""
        return sum(matrix.nbytes for _, matrix in self.matrices.values())

    def held(self, nodes: np.ndarray) -> int:
        """Return the bytes of the rows of some nodes, rising."""
        return sum(len(self._rows(nodes, name)) * matrix[:1].nbytes for name, (_, matrix) in self.matrices.items())

    def write(self, replicas: np.ndarray, parts: int, path: Path) -> list[str]:
        """Write the rows of every partition's nodes; return the names of the files."""
        for part in range(parts if self.matrices else 0):
            nodes = nodes_of(replicas, part)
            for name, (_, matrix) in self.matrices.items():
                copy_rows(matrix, self._rows(nodes, name), path / f"part_{part}" / name)
        return list(self.matrices)

    def _rows(self, nodes: np.ndarray, name: str) -> np.ndarray:
        start, matrix = self.matrices[name]
        first, last = np.searchsorted(nodes, (start, start + len(matrix)))
        return nodes[first:last] - start


def copy_rows(matrix: np.ndarray, rows: np.ndarray, file: Path) -> None:
    """Write rows of a mapped matrix as a new `.npy`, some at a time."""
    at_once = max(1, AT_ONCE // max(1, matrix[:1].nbytes))
    with open(file, "xb") as stream:
        write_header(stream, matrix.dtype, (len(rows), matrix.shape[1]))
        for first in range(0, len(rows), at_once):
            stream.write(np.ascontiguousarray(matrix[rows[first : first + at_once]]).data)
