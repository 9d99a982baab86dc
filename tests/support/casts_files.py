"""The doors of the table of casts that read files: tables in csv, parquet and HDF5, by a configuration, and one `.npz`."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hetjax.datasets import npz
from hetjax.datasets.homogeneous import Options as HomogeneousOptions
from hetjax.datasets.splits import Split
from hetjax.graph.hetgraph import HetGraph
from hetjax.ingest import configuration
from hetjax.ingest.__main__ import Options, ingest
from tests.support.casts_table import Case, as_array, as_arrow, columns

Write = Callable[[Mapping[str, Any], Path], None]


def as_cells(values: list, dtype: str) -> list[str] | None:
    """The cells of a column of csv, which has texts alone."""
    if dtype in ("category", "dictionary", "complex128") or any(isinstance(value, list) for value in values):
        return None
    return [_cell(value, dtype) for value in values]


def _cell(value: Any, dtype: str) -> str:
    if value is None:
        return ""
    return repr(float(value)) if dtype.startswith("float") else str(value)


def write_csv(table: Mapping[str, Any], file: Path) -> None:
    cells = [[name, *(str(value) for value in column)] for name, column in table.items()]
    quoted = [['"' + cell.replace('"', '""') + '"' if cell else "" for cell in row] for row in zip(*cells)]
    file.write_text("".join(",".join(row) + "\n" for row in quoted))


def write_parquet(table: Mapping[str, Any], file: Path) -> None:
    pyarrow.parquet.write_table(pa.table(dict(table)), file)


def as_dataset(values: list, dtype: str) -> Any:
    """A column of HDF5: numbers, booleans or texts, none of which is missing."""
    array = as_array(values, dtype)
    if array is None or (array.dtype == object and not all(isinstance(value, str) for value in values)):
        return None
    return array


def write_hdf5(table: Mapping[str, Any], file: Path) -> None:
    import h5py

    with h5py.File(file, "w") as opened:
        for name, column in table.items():
            opened[name] = column


def from_tables(case: Case, column: Callable[[list, str], Any], form: str, write: Write) -> HetGraph | None:
    """The graph of a case's columns in files; None where a configuration has no such column."""
    given = columns(case, column)
    if given is None or case.role in ("split", "mask"):
        return None
    ids = given["id"] if given["id"] is not None else list(range(given["count"]))
    nodes = {"id": ids, "label": given["label"]} | ({"age": given["age"]} if "age" in given else {})
    edges = {key: given[key] for key in ("source", "target", "weight") if key in given}
    about = {"node_type": "n", "files": f"nodes.{form}", "format": {"name": form}, "node_id_col": "id"}
    about["labels"] = [{"label_col": "label", "task_type": "classification", "split_pct": [1, 0, 0]}]
    about |= {"features": [{"feature_col": "age"}]} if "age" in given else {}
    ends = {"relation": ["n", "k", "n"], "files": f"edges.{form}", "format": {"name": form}}
    ends |= {"source_id_col": "source", "dest_id_col": "target"}
    ends |= {"weight_col": "weight"} if "weight" in given else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(nodes, folder / f"nodes.{form}")
        write(edges, folder / f"edges.{form}")
        file = folder / "graph.json"
        file.write_text(json.dumps({"version": "gconstruct-v0.1", "nodes": [about], "edges": [ends]}))
        return ingest(configuration.read(file, folder, False), Options(), folder, str(file))[0]


def from_npz(case: Case) -> HetGraph | None:
    """The graph of a case's columns as arrays; None where an `.npz` has no such array."""
    given = columns(case, as_array)
    if given is None or case.role in ("id", "edge end", "split"):
        return None
    key = {"label": "label", "mask": "train_mask", "feature": "age", "weight": "weight"}[case.role]
    if np.asarray(given[key]).dtype.kind not in "biufcM":
        return None  # objects, which nobody unpickles
    arrays: dict[str, Any] = {"labels": given["label"]}
    count = len(np.asarray(given["label"]))
    arrays |= {"adj_indptr": np.arange(count + 1), "adj_indices": np.arange(count)}
    arrays |= {"adj_data": given["weight"]} if "weight" in given else {}
    arrays |= {"node_features": np.asarray(given["age"])[:, None]} if "age" in given else {}
    if case.role == "mask":
        others = dict.fromkeys(("val_mask", "test_mask"), np.zeros(count, bool))
        arrays |= {"train_mask": given["train_mask"]} | others
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "graph.npz", **arrays)
        split = Split() if case.role == "mask" else Split("random")
        return npz.read(Path(folder) / "graph.npz", HomogeneousOptions(undirected=False, split=split))


FILES: dict[str, Callable[[Case], HetGraph | None]] = {
    "csv": lambda case: from_tables(case, as_cells, "csv", write_csv),
    "parquet": lambda case: from_tables(case, as_arrow, "parquet", write_parquet),
    "HDF5": lambda case: from_tables(case, as_dataset, "hdf5", write_hdf5),
    "npz": from_npz,
}
