"""A graph on disk: a versioned `schema.json`, one `.npy` file per array, memory-mapped when opened, and parquet files of names.

Opening reads `schema.json` and the header of each file, nothing more, so a graph larger than memory opens at once; its
rows are read when they are used. Nothing is ever unpickled.
"""

import json
import os
import reprlib
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from hetjax.graph import names as naming
from hetjax.graph import versioned
from hetjax.graph.columns import SPLITS, Column, column_type
from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.npy import load_array, map_array
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import LABELS, ColumnSizes, Sizes, from_json, sizes
from hetjax.system import durable
from hetjax.system.errors import InputError

FORMAT, VERSION, SCHEMA = "hetjax-store", 1, "schema.json"
PARTS, WEIGHTS = ("indptr", "indices"), "weights"  # of a relation; the last where its edges have weights
FIXED = ("labels", *(f"split_{name}" for name in SPLITS))
COLUMN_PARTS = ("labels", *SPLITS)  # of each of the other columns of labels, by its number
ENDS = ("source", "target")  # of a column of labelled pairs besides
POINTER, ID, FLAG, WEIGHT = map(np.dtype, (np.int64, np.int32, np.int8, np.float32))


def save(
    graph: HetGraph,
    path: str | os.PathLike,
    relations: Collection[Relation] | None = None,
    features: Collection[str] | None = None,
    extra: Mapping[str, str] | None = None,
) -> None:
    """Write `graph` to the new folder `path`; it appears completely or not at all.

    Args:
      relations, features: whose arrays are written, if not all; `schema.json` is the whole graph's all the same, and `open`
        with these opens what there is. The names in such a store are those of the target's nodes and of the classes.
      extra: texts that are written beside, by the names of their files.

    Raises:
      InputError: `path` exists, or cannot be written; or a column of labels is of a relation that the graph lacks.
    """
    for name, column in graph.columns.items():
        if column.relation is not None and column.relation not in graph.schema.relations:
            raise InputError(f"{path}: column of labels {name!r}, and no relation {column.relation} of the graph")
    with durable.new_folder(path) as folder:
        files, chosen = _files(graph), names(sizes(graph), relations, features)
        description = {"format": FORMAT, "version": VERSION} | sizes(graph).json()
        whole = relations is None and features is None
        types = None if whole else [graph.schema.target]
        with ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(1) as disk:
            contents = beside.submit(checksums_of, graph)
            classes = {f"classes_{n}": c.names for n, c in enumerate(graph.columns.values()) if c.names is not None}
            named = beside.submit(naming.write, graph.names, graph.schema, folder, types, classes)
            for name in chosen:
                durable.write_array(folder / f"{name}.npy", files[name])
                disk.submit(
                    durable.sync, folder / f"{name}.npy"
                )  # before the whole folder is, and while others are written
            description["contents"], written = contents.result(), named.result()
        if not whole:
            description["files"] = sorted(chosen)
        if written:
            description["names"] = written
        for name, text in (extra or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / SCHEMA).write_text(json.dumps(description, indent=1), encoding="utf-8")


def names(
    about: Sizes, relations: Collection[Relation] | None = None, features: Collection[str] | None = None
) -> list[str]:
    """Return the names of a store's arrays, without their `.npy`: of some relations and some types' features, if not of all."""
    chosen = []
    for number, relation in enumerate(about.schema.relations):
        if relations is None or relation in relations:
            parts = (*PARTS, WEIGHTS) if relation in about.weighted else PARTS
            chosen += [f"relation_{number}.{part}" for part in parts]
    for number, node_type in enumerate(about.schema.nodes):
        if node_type in about.features and (features is None or node_type in features):
            chosen.append(f"features_{number}")
    columns = []
    for number, column in enumerate(about.columns.values()):
        ends = () if column.pairs is None else ENDS
        columns += [f"column_{number}.{part}" for part in (*COLUMN_PARTS, *ends)]
    return [*chosen, *FIXED, *columns]


def _files(graph: HetGraph) -> dict[str, np.ndarray]:
    """Return every array, by the name of its file."""
    files, schema = {}, graph.schema
    for number, relation in enumerate(schema.relations):
        for part, array in graph.relations[relation].arrays.items():
            files[f"relation_{number}.{part}"] = array
    for number, node_type in enumerate(schema.nodes):
        if node_type in graph.features:
            files[f"features_{number}"] = graph.features[node_type]
    for number, column in enumerate(graph.columns.values()):
        arrays = column.labels, *(column.splits[name] for name in SPLITS), *(column.ends or ())
        for part, array in zip((*COLUMN_PARTS, *ENDS), arrays):
            files[f"column_{number}.{part}"] = array
    return files | {"labels": graph.labels} | {f"split_{name}": graph.splits[name] for name in SPLITS}


def checksums_of(graph: HetGraph) -> dict[str, int]:
    """Return the CRC-32 of every array, as `contents` does for the graph's store."""
    return {name: zlib.crc32(np.ascontiguousarray(array).data) for name, array in _files(graph).items()}


def describe(path: str | os.PathLike) -> Sizes:
    """Return the content of `schema.json` in the store at `path`; no other file is opened.

    Raises:
      InputError: a missing or unreadable file, or another format or version.
    """
    return from_json(_description(path), str(Path(path, SCHEMA)))


def contents(path: str | os.PathLike) -> dict[str, int] | None:
    """Return the checksum (CRC-32) of every array, as `save` wrote it; None for a store that is older than checksums.

    Raises:
      InputError: as `describe`; or they are no such numbers.
    """
    return _checksums(path, "contents")


def name_files(path: str | os.PathLike) -> dict[str, int]:
    """Return the checksum (CRC-32) of every file of names, without its `.parquet`; empty if there are none.

    Raises:
      InputError: as `contents`.
    """
    return _checksums(path, "names") or {}


def _checksums(path: str | os.PathLike, key: str) -> dict[str, int] | None:
    crcs = _description(path).get(key)
    if crcs is None:
        return None
    if not isinstance(crcs, dict) or any(type(crc) is not int or not 0 <= crc < 2**32 for crc in crcs.values()):
        what = "array" if key == "contents" else "file"
        raise InputError(f"{Path(path, SCHEMA)}: {key} is {reprlib.repr(crcs)}, and should be a CRC-32 per {what}")
    return crcs


def array_names(path: str | os.PathLike) -> Collection[str] | None:
    """Return the names of the arrays that a store of one partition has; None: all.

    Raises:
      InputError: as `describe`; or they are no such names.
    """
    files = _description(path).get("files")
    if files is not None and not (isinstance(files, list) and all(isinstance(name, str) for name in files)):
        raise InputError(f"{Path(path, SCHEMA)}: files is {reprlib.repr(files)}, and should be a list of names")
    return None if files is None else frozenset(files)


def _description(path: str | os.PathLike) -> dict:
    hint = "is this a store? `python -m hetjax.convert` makes one"
    return versioned.read(Path(path, SCHEMA), FORMAT, VERSION, "a schema", hint)


def open(
    path: str | os.PathLike, relations: Collection[Relation] | None = None, features: Collection[str] | None = None
) -> HetGraph:
    """Map the store at `path` into memory.

    Only headers are read and held against `schema.json`; `hetjax.graph.hetgraph.check` reads everything.

    Args:
      path: a folder that `save` wrote.
      relations: those to open, which are then the schema's; None: every one. The node types are all there in any case.
      features: the node types whose features are opened; None: all that have any.

    Raises:
      InputError: a missing or unreadable file, another format or version, or a file of another shape than it says.
    """
    path = Path(path)
    description, available = describe(path), array_names(path)
    schema, csc, matrices = description.schema, {}, {}

    def require(name: str, what: str) -> None:
        if available is not None and name not in available:
            raise InputError(f"{path}: has the files of one partition alone, and {what} is not among them")

    for number, relation in enumerate(schema.relations):
        if relations is None or relation in relations:
            require(f"relation_{number}.indptr", f"relation {relation}")
            csc[relation] = _map_relation(path, number, relation, description)
    for number, node_type in enumerate(schema.nodes):
        if node_type in description.features and (features is None or node_type in features):
            require(f"features_{number}", f"what type {node_type!r} has as features")
            matrices[node_type] = _map_features(path / f"features_{number}.npy", node_type, description)
    labels = _map_labels(path / "labels.npy", description.labels, schema.nodes[schema.target], schema.classes)
    splits = {name: map_array(path / f"split_{name}.npy", ID, None, f"split {name!r}") for name in SPLITS}
    files = name_files(path)
    names = naming.read(path, description.schema, files)
    columns = {
        name: _map_column(path, number, _column_rows(name, about, schema), about, files)
        for number, (name, about) in enumerate(description.columns.items())
    }
    opened = replace(schema, relations=tuple(csc))
    return HetGraph(opened, csc, matrices, labels, splits, names, description.label_name, columns)


def _column_rows(name: str, about: ColumnSizes, schema: Schema) -> int:
    """Return the number of rows of a column: nodes of a type, or pairs."""
    return schema.nodes[column_type(name)] if about.pairs is None else about.pairs


def _map_labels(file: Path, form: str, count: int, classes: int) -> np.ndarray:
    """Return labels of so many rows, of the form that `LABELS` names."""
    dtype = dict(zip(LABELS, (ID, FLAG, WEIGHT)))[form]
    wide = dtype == FLAG or (dtype == WEIGHT and classes > 1)
    return map_array(file, dtype, (count, classes) if wide else (count,), "labels")


def _map_column(path: Path, number: int, count: int, about: ColumnSizes, names: Collection[str]) -> Column:
    labels, *splits = (path / f"column_{number}.{part}.npy" for part in COLUMN_PARTS)
    if about.named and f"classes_{number}" not in names:
        raise InputError(f"{path / SCHEMA}: columns[{number}]: no names of classes, which it should have")
    source, target = (path / f"column_{number}.{end}.npy" for end in ENDS)
    pairs = about.pairs is not None
    return Column(
        _map_labels(labels, about.labels, count, about.classes),
        {name: map_array(file, ID, None, f"split {name!r}") for name, file in zip(SPLITS, splits)},
        about.classes,
        naming.stored(path, f"classes_{number}", about.classes) if about.named else None,
        about.relation,
        (map_array(source, ID, (count,), "source"), map_array(target, ID, (count,), "target")) if pairs else None,
    )


def _map_relation(path: Path, number: int, relation: Relation, description: Sizes) -> CSC:
    nodes, what = description.schema.nodes, f"relation {relation}"
    pointers, ids = (path / f"relation_{number}.{part}.npy" for part in PARTS)
    indptr = map_array(pointers, POINTER, (nodes[relation.target] + 1,), what)
    shape = (description.edges[relation],)
    indices = map_array(ids, index_dtype(nodes[relation.source]), shape, what)
    if relation not in description.weighted:
        return CSC(indptr, indices)
    return CSC(indptr, indices, map_array(path / f"relation_{number}.{WEIGHTS}.npy", WEIGHT, shape, f"{what}: weights"))


def _map_features(file: Path, node_type: str, description: Sizes) -> np.ndarray:
    matrix, count = load_array(file), description.schema.nodes[node_type]
    if matrix.ndim != 2 or len(matrix) != count:
        rows = len(matrix) if matrix.ndim else 0
        raise InputError(f"{file}: feature rows {rows} != {count} nodes of type {node_type!r}")
    width, dtype = description.features[node_type]
    if matrix.shape[1] != width or matrix.dtype != np.dtype(dtype):  # whose name alone does not tell the order of bytes
        here, there = {"width": matrix.shape[1], "dtype": str(matrix.dtype)}, {"width": width, "dtype": dtype}
        raise InputError(f"{file}: features {here} != {there} in schema.json")
    return matrix
