"""Predictions of nodes and of pairs, by the users' own ids: in memory, as an Arrow table, and as the files that `predict` writes."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from hetjax.graph.columns import SPLITS
from hetjax.graph.label_rows import Pairs
from hetjax.graph.names import Ids, Names
from hetjax.system import durable
from hetjax.system.errors import InputError
from hetjax.system.mapped import release
from hetjax.tasks.metrics import HALF, predicted_labels

if TYPE_CHECKING:
    import pyarrow as pa

FORMULAS = "=", "+", "-", "@", "\t", "\r"  # with which a spreadsheet's formula begins
SUFFIXES = ".parquet", ".csv", ".npy"
ROWS, NUMBERS = 2**16, 2**19  # most that are written at a time


@dataclass(frozen=True)
class Predictions(ABC):
    """The predictions of a task for every node of the root type, or every pair of a relation, in the order of the graph.

    Attributes:
      target: the node type; of pairs the relation's source type.
      outputs: the outputs of the head, float32 `[nodes, outputs]`.
      names: the names of the graph that was predicted.
      embeddings: the embeddings of the last layer, float32 `[nodes, width]`; None: nobody asked for them. Without `model.head` they are
        the outputs.
      split: the number of each node's split in `SPLITS`, -1 of none, int8 `[nodes]`; None: not known.
      pairs: the pairs that the rows are about; None: row i is node i.
    """

    target: str
    outputs: np.ndarray
    names: Names = field(default_factory=Names)
    embeddings: np.ndarray | None = None
    split: np.ndarray | None = None
    pairs: "Pairs | None" = None

    @property
    @abstractmethod
    def values(self) -> np.ndarray:
        """The predicted values, `[nodes, ...]`, which a `.npy` holds where nothing else is asked for."""

    @abstractmethod
    def columns(self, logits: bool = False, probabilities: bool = False) -> dict[str, np.ndarray]:
        """Return the columns that are written for every node besides its id and its split, by name, each `[nodes]`.

        Args:
          logits, probabilities: whether these are wanted.

        Raises:
          InputError: they are, and the task has none.
        """

    @property
    def answers(self) -> np.ndarray:
        """The `values`, with names in the place of numbers where there are names."""
        return self.values

    @property
    def logits(self) -> np.ndarray:
        """The outputs."""
        return self.outputs

    @property
    def probabilities(self) -> np.ndarray:
        """The probabilities, float32 `[nodes, ...]`.

        Raises:
          InputError: the task has none.
        """
        raise InputError("the task of this run gives no probabilities")

    @property
    def intervals(self) -> np.ndarray:
        """The predicted quantiles, float32 `[nodes, ..., quantiles]`.

        Raises:
          InputError: the task has none.
        """
        raise InputError("this run predicts no quantiles: --node_regression.loss quantile does")

    def coded(self, name: str) -> "pa.Array | None":
        """Return the values that the numbers of a column stand for; None: they are values themselves."""
        import pyarrow as pa

        return pa.array(SPLITS) if name == "split" else None

    def _columns(self, logits: bool, probabilities: bool) -> dict[str, np.ndarray]:
        found = self.columns(logits, probabilities)
        return found if self.split is None or "split" in found else found | {"split": self.split}

    @property
    def ids(self) -> "pa.Array":
        """The users' ids of nodes, int64 or large_string `[nodes]`; hetjax's own numbers where they have none."""
        return self.names.of(self.target, len(self.outputs))

    @property
    def keys(self) -> "dict[str, pa.Array]":
        """The ids that tell rows apart: `node`; of pairs `source` and `target`."""
        import pyarrow as pa

        if self.pairs is None:
            return {"node": self.ids}

        def named(t: str, numbers: np.ndarray) -> pa.Array:
            known = self.names.nodes.get(t)
            return pa.array(numbers.astype(np.int64)) if known is None else known.values.take(pa.array(numbers))

        return {end: named(t, ids) for end, t, ids in zip(("source", "target"), *self.pairs)}

    def table(self, logits: bool = False, probabilities: bool = False) -> "pa.Table":
        """Return the predictions as a table, whose `to_pandas` gives a frame.

        Columns: `node`, the users' id, or `source` and `target` of pairs; those of `columns`; `split`, `train`, `validation`, `test` or null; and `embedding`, a
        list of fixed length, where there are embeddings.
        """
        import pyarrow as pa

        columns: dict[str, pa.Array] = dict(self.keys)
        columns |= {name: self._arrow(name, values) for name, values in self._columns(logits, probabilities).items()}
        if self.embeddings is not None:
            flat = pa.array(self.embeddings.reshape(-1))
            columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, self.embeddings.shape[1])
        return pa.table(columns)

    def parts(self) -> Iterator["Predictions"]:
        """Yield the table in parts, some nodes at a time, of mapped files as well; one part without nodes where there are none."""
        ids = self.ids if self.pairs is None else None
        widths = [len(array[0]) for array in (self.outputs, self.embeddings) if array is not None and len(array)]
        step = max(1, min(ROWS, NUMBERS // max(1, sum(widths))))
        for start in range(0, max(1, len(self.outputs)), step):
            rows = slice(start, start + step)
            names, pairs = self.names, self.pairs
            if ids is not None:
                names = replace(names, nodes={self.target: Ids(ids.slice(start, step))})
            elif pairs is not None:
                pairs = pairs._replace(ends=(pairs.ends[0][rows], pairs.ends[1][rows]))
            embeddings = None if self.embeddings is None else np.array(self.embeddings[rows])
            split = None if self.split is None else self.split[rows]
            outputs = np.array(self.outputs[rows])
            yield replace(self, outputs=outputs, embeddings=embeddings, names=names, split=split, pairs=pairs)
            for array in (self.outputs, self.embeddings):
                if array is not None:
                    release(array)

    def _arrow(self, name: str, values: np.ndarray) -> "pa.Array":
        import pyarrow as pa

        if (coded := self.coded(name)) is not None:
            return coded.take(pa.array(values, mask=values < 0))
        return pa.array(np.ascontiguousarray(values))

    def write(self, out: Path, logits: bool = False, probabilities: bool = False, quote_formulas: bool = False) -> str:
        """Write a file in the format of its suffix, and say what it holds; it appears whole or not at all.

        A `.parquet` and a `.csv` have the columns of `table`, where a `.csv` has `embedding_0` and so on. A `.npy` is one
        array: `values`, or else the requested columns. Besides the ids, so many nodes at a time are in memory.

        Args:
          out: the file.
          logits, probabilities: as of `table`.
          quote_formulas: in a `.csv`, put an apostrophe before ids and classes that a spreadsheet would run as formulas.

        Raises:
          InputError: it cannot be written, a `.npy` was to hold several arrays, or formulas are to be quoted in no `.csv`.
        """
        asked = [name for name, given in self._asked(logits, probabilities).items() if given]
        check_one(out, asked)
        check_quoted(out, quote_formulas)
        with durable.new_file(out) as partial, open(partial, "xb") as stream:
            if out.suffix == ".npy":
                return self._write_array(stream, asked[0] if asked else "values")
            if out.suffix == ".csv":
                columns = self._write_csv(stream, logits, probabilities, quoted if quote_formulas else str)
            else:
                columns = self._write_parquet(stream, logits, probabilities)
        return f"{len(self.outputs)} rows of {', '.join(columns[:6])}{' ...' * (len(columns) > 6)}"

    def _asked(self, logits: bool, probabilities: bool) -> dict[str, bool]:
        return {"logits": logits, "probabilities": probabilities, "embeddings": self.embeddings is not None}

    def _write_array(self, stream: BinaryIO, name: str) -> str:
        shape: tuple[int, ...] = ()
        for part in self.parts():
            array = np.ascontiguousarray(getattr(part, name))
            if not shape:
                shape = len(self.outputs), *array.shape[1:]
                about = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, about)
            stream.write(array.data)
        return f"{array.dtype} {list(shape)}"

    def _write_parquet(self, stream: BinaryIO, logits: bool, probabilities: bool) -> list[str]:
        import pyarrow.parquet as pq

        writer = None
        for part in self.parts():
            table = part.table(logits, probabilities)
            writer = writer or pq.ParquetWriter(stream, table.schema)
            writer.write_table(table)
        assert writer is not None  # there is one part at least
        writer.close()
        return table.column_names

    def _write_csv(
        self, stream: BinaryIO, logits: bool, probabilities: bool, as_text: Callable[[str], str]
    ) -> list[str]:
        text = TextIOWrapper(stream, newline="", encoding="utf-8")
        writer = csv.writer(text, lineterminator="\n")
        header: list[str] = []
        for part in self.parts():
            columns = part._columns(logits, probabilities)
            if part.embeddings is not None:
                columns |= {f"embedding_{number}": column for number, column in enumerate(part.embeddings.T)}
            if not header:
                header = [*self.keys, *map(as_text, columns)]
                writer.writerow(header)
            for name, numbers in columns.items():
                if (coded := self.coded(name)) is not None:
                    columns[name] = np.array([*(as_text(str(one)) for one in coded.to_pylist()), ""], object)[numbers]
            keys = [ids.to_pylist() for ids in part.keys.values()]
            texts = [[as_text(one) if isinstance(one, str) else one for one in ids] for ids in keys]
            writer.writerows(zip(*texts, *columns.values()))
        text.flush()
        text.detach()
        return header


@dataclass(frozen=True)
class ClassPredictions(Predictions):
    """The predicted classes of nodes.

    Attributes:
      multilabel: whether a node may have several labels.
      threshold: the probability above which each of several labels is predicted; or one for each class.
      costs: the cost of each class, by which probabilities are multiplied to choose the class of one label a node; empty: none.
    """

    multilabel: bool = False
    threshold: float | tuple[float, ...] = HALF
    costs: tuple[float, ...] = ()

    @property
    def class_names(self) -> list[str]:
        """A text per class: its name, or its number."""
        return self.names.class_names(self.logits.shape[1])

    @property
    def values(self) -> np.ndarray:
        return self.classes

    @property
    def answers(self) -> np.ndarray:
        """The names of the classes, where there are some and a node has one class; else the numbers."""
        if self.names.classes is None or self.multilabel:
            return self.classes
        return np.array(self.names.classes.values.to_pylist(), object)[self.classes]

    @cached_property
    def classes(self) -> np.ndarray:
        """The class numbers int32 `[nodes]`; where nodes have several labels 0 and 1, int8 `[nodes, classes]`."""
        logits = self.logits + np.log(self.costs) if self.costs else self.logits
        return classes(logits, self.multilabel, self.threshold)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The softmax of the logits, or with several labels a node the sigmoid; float32 `[nodes, classes]`."""
        with np.errstate(over="ignore", under="ignore"):
            if self.multilabel:
                return 1 / (1 + np.exp(-self.logits))
            powers = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
            return powers / powers.sum(axis=1, keepdims=True)

    def coded(self, name: str) -> "pa.Array | None":
        if name == "class":
            return None if self.names.classes is None else self.names.classes.values
        return super().coded(name)

    def columns(self, logits: bool = False, probabilities: bool = False) -> dict[str, np.ndarray]:
        """Return `class` and `probability`, of that class; or, where a node may have several labels, `class_NAME`, 0 or 1.

        If they are wanted `probability_NAME` and `logit_NAME` too.
        """
        columns: dict[str, np.ndarray] = {}
        if self.multilabel:
            columns |= self._named("class", self.classes)
        else:
            chosen = np.take_along_axis(self.probabilities, self.classes[:, None], axis=1)
            columns |= {"class": self.classes, "probability": chosen[:, 0]}
        columns |= {} if self.split is None else {"split": self.split}
        columns |= self._named("probability", self.probabilities) if probabilities else {}
        return columns | (self._named("logit", self.logits) if logits else {})

    def _named(self, what: str, matrix: np.ndarray) -> dict[str, np.ndarray]:
        return {f"{what}_{name}": matrix[:, number] for number, name in enumerate(self.class_names)}


@dataclass(frozen=True)
class NumberPredictions(Predictions):
    """The predicted numbers of each node, in the unit of the labels.

    `outputs` are `[nodes, numbers]`, or `[nodes, numbers * quantiles]`, the quantiles of a number beside each other and rising.

    Attributes:
      quantiles: the levels, 0.5 among them; empty: one prediction of each number.
    """

    quantiles: tuple[float, ...] = ()

    @property
    def values(self) -> np.ndarray:
        """The predictions, of quantiles the median: float32 `[nodes]`, or `[nodes, numbers]` of several."""
        middle = self.quantiles.index(HALF) if self.quantiles else 0
        points = self.outputs[:, middle :: max(1, len(self.quantiles))]
        return points[:, 0] if points.shape[1] == 1 else points

    @property
    def intervals(self) -> np.ndarray:
        """The predicted quantiles, float32 `[nodes, quantiles]`, or `[nodes, numbers, quantiles]` of several.

        Raises:
          InputError: the run predicts none.
        """
        if not self.quantiles:
            return super().intervals
        apart = self._apart
        return apart[:, 0] if apart.shape[1] == 1 else apart

    @property
    def _apart(self) -> np.ndarray:
        """The outputs, `[nodes, numbers, quantiles]`."""
        levels = max(1, len(self.quantiles))
        return self.outputs.reshape(len(self.outputs), self.outputs.shape[1] // levels, levels)

    def columns(self, logits: bool = False, probabilities: bool = False) -> dict[str, np.ndarray]:
        """Return `prediction`, or of several numbers `prediction_NAME` each; of quantiles besides `prediction_q0.1` and so on."""
        if logits or probabilities:
            raise InputError("numbers have no logits and no probabilities")
        apart = self._apart
        count, columns = apart.shape[1], dict[str, np.ndarray]()
        for number, name in enumerate(self.names.class_names(count)):
            called = "prediction" if count == 1 else f"prediction_{name}"
            columns[called] = self.values if count == 1 else self.values[:, number]
            columns |= {f"{called}_q{level:g}": apart[:, number, n] for n, level in enumerate(self.quantiles)}
        return columns


def check_quoted(out: Path, quote_formulas: bool) -> None:
    """Raise an InputError where formulas are to be quoted in a file that no spreadsheet runs formulas of."""
    if quote_formulas and out.suffix != ".csv":
        raise InputError(f"{out}: quote_formulas is for a .csv; other files keep texts as they are")


def quoted(text: str) -> str:
    """Return a text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(FORMULAS) else text


def split_numbers(splits: Mapping[str, np.ndarray], nodes: int) -> np.ndarray:
    """Return the number of each node's split in `SPLITS`, -1 of none, int8 `[nodes]`."""
    numbers = np.full(nodes, -1, np.int8)
    for number, name in enumerate(SPLITS):
        numbers[splits[name]] = number
    return numbers


def check_one(out: Path, asked: list[str]) -> None:
    """Raise an InputError where a `.npy` is to hold several arrays."""
    if out.suffix == ".npy" and len(asked) > 1:
        raise InputError(f"{out}: {' and '.join(asked)}, and a .npy holds one array: write a .parquet or .csv")


def classes(logits: np.ndarray, multilabel: bool, threshold: float | tuple[float, ...] = HALF) -> np.ndarray:
    """Return class ids int32 `[nodes]`; where nodes have several labels 0 and 1, int8 `[nodes, classes]`."""
    return (
        predicted_labels(logits, threshold).astype(np.int8)
        if multilabel
        else np.argmax(logits, axis=1).astype(np.int32)
    )
