"""What a model says of nodes, by the users' own ids: in memory, as an Arrow table, and as the files that `predict` writes."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hetjax import durable
from hetjax.errors import InputError
from hetjax.graph.names import Names

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = ".parquet", ".csv", ".npy"
ROWS = 2**16  # written at a time


@dataclass(frozen=True)
class Predictions:
    """Predictions of every node of the target type, in the order of the graph.

    Attributes:
      target: the node type.
      logits: float32 `[nodes, classes]`.
      names: of the graph that was predicted.
      multilabel: whether a node may have several labels.
      embeddings: of the last layer, float32 `[nodes, width]`; None: nobody asked for them. Without `model.head` they are
        the logits.
    """

    target: str
    logits: np.ndarray
    names: Names = field(default_factory=Names)
    multilabel: bool = False
    embeddings: np.ndarray | None = None

    @property
    def ids(self) -> "pa.Array":
        """The users' ids, int64 or large_string `[nodes]`; hetjax's own numbers where they have none."""
        return self.names.of(self.target, len(self.logits))

    @property
    def class_names(self) -> list[str]:
        """A text per class: its name, or its number."""
        return self.names.class_names(self.logits.shape[1])

    @cached_property
    def classes(self) -> np.ndarray:
        """Class numbers int32 `[nodes]`; of nodes with several labels 0 and 1, int8 `[nodes, classes]`."""
        return classes(self.logits, self.multilabel)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The softmax of the logits, or with several labels a node the sigmoid; float32 `[nodes, classes]`."""
        with np.errstate(over="ignore", under="ignore"):
            if self.multilabel:
                return 1 / (1 + np.exp(-self.logits))
            powers = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
            return powers / powers.sum(axis=1, keepdims=True)

    def table(self, logits: bool = False, probabilities: bool = False) -> "pa.Table":
        """The same as a table, whose `to_pandas` gives a frame.

        Columns: `node`, the users' id; `class`, its name or number, and `probability`, of that class; or, where a node may
        have several labels, `class_NAME`, 0 or 1. If asked for `probability_NAME` and `logit_NAME`; and `embedding`, a list
        of fixed length, where there are embeddings.
        """
        import pyarrow as pa

        columns: dict[str, pa.Array] = {"node": self.ids}
        columns |= {name: self._arrow(name, values) for name, values in self._columns(logits, probabilities).items()}
        if self.embeddings is not None:
            flat = pa.array(self.embeddings.reshape(-1))
            columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, self.embeddings.shape[1])
        return pa.table(columns)

    def _arrow(self, name: str, values: np.ndarray) -> "pa.Array":
        import pyarrow as pa

        if name == "class" and self.names.classes is not None:
            return self.names.classes.values.take(pa.array(values))
        return pa.array(np.ascontiguousarray(values))

    def _columns(self, logits: bool, probabilities: bool) -> dict[str, np.ndarray]:
        """The numbers that are written, by the names of their columns."""
        matrices = {"class": self.classes} if self.multilabel else {}
        columns: dict[str, np.ndarray] = {}
        if not self.multilabel:
            chosen = np.take_along_axis(self.probabilities, self.classes[:, None], axis=1)
            columns = {"class": self.classes, "probability": chosen[:, 0]}
        matrices |= {"probability": self.probabilities} if probabilities else {}
        matrices |= {"logit": self.logits} if logits else {}
        for what, matrix in matrices.items():
            columns |= {f"{what}_{name}": matrix[:, number] for number, name in enumerate(self.class_names)}
        return columns

    def write(self, out: Path, logits: bool = False, probabilities: bool = False) -> str:
        """Write a file, as its name ends, and say what it holds; it appears whole or not at all.

        A `.parquet` and a `.csv` have the columns of `table`, where a `.csv` has `embedding_0` and so on. A `.npy` is one
        array: the classes, or else what is asked for.

        Raises:
          InputError: it cannot be written, or a `.npy` was to hold several arrays.
        """
        if out.suffix == ".npy":
            array = self._one(logits, probabilities, out)
            with durable.new_file(out) as partial:
                durable.write_array(partial, array)
            return f"{array.dtype} {list(array.shape)}"
        with durable.new_file(out) as partial:
            if out.suffix == ".csv":
                return self._write_csv(partial, logits, probabilities)
            import pyarrow.parquet as pq

            table = self.table(logits, probabilities)
            with open(partial, "xb") as stream:
                pq.write_table(table, stream, row_group_size=ROWS)
            return f"{table.num_rows} rows of {', '.join(table.column_names[:6])}{' ...' * (table.num_columns > 6)}"

    def _one(self, logits: bool, probabilities: bool, out: Path) -> np.ndarray:
        asked = {
            "logits": self.logits if logits else None,
            "probabilities": self.probabilities if probabilities else None,
            "embeddings": self.embeddings,
        }
        there = {name: array for name, array in asked.items() if array is not None}
        check_one(out, list(there))
        return next(iter(there.values()), self.classes)

    def _write_csv(self, file: Path, logits: bool, probabilities: bool) -> str:
        columns = self._columns(logits, probabilities)
        if self.embeddings is not None:
            columns |= {f"embedding_{number}": column for number, column in enumerate(self.embeddings.T)}
        names = self.class_names
        with open(file, "x", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["node", *columns])
            for start, stop in _ranges(len(self.logits)):
                chunks = [column[start:stop] for column in columns.values()]
                if not self.multilabel:
                    chunks[0] = np.array(names, object)[chunks[0]]
                writer.writerows(zip(self.ids[start:stop].to_pylist(), *chunks))
        return f"{len(self.logits)} rows of {', '.join(['node', *columns][:6])}{' ...' * (len(columns) > 5)}"


def check_one(out: Path, asked: list[str]) -> None:
    """Raise an InputError where a `.npy` is to hold several arrays."""
    if out.suffix == ".npy" and len(asked) > 1:
        raise InputError(f"{out}: {' and '.join(asked)}, and a .npy holds one array: write a .parquet or .csv")


def classes(logits: np.ndarray, multilabel: bool) -> np.ndarray:
    """Class ids int32 `[nodes]`; of nodes with several labels 0 and 1, int8 `[nodes, classes]`."""
    return (logits > 0).astype(np.int8) if multilabel else np.argmax(logits, axis=1).astype(np.int32)


def _ranges(count: int) -> Iterator[tuple[int, int]]:
    return ((start, min(count, start + ROWS)) for start in range(0, count, ROWS))
