"""A graph on disk: a versioned `schema.json` and one `.npy` file per array, memory-mapped when opened.

Opening reads `schema.json` and the header of each file, nothing more, so a graph larger than memory opens at once; its
rows are read when they are used. Nothing is ever unpickled.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np

from hetjax.errors import InputError
from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import FEATURE_TYPES, SPLITS, HetGraph
from hetjax.graph.schema import Relation, Schema

FORMAT, VERSION = "hetjax-store", 1
LARGEST_SCHEMA = 64 * 2**20  # bytes
POINTER, ID, FLAG = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.int8)
LABELS = ("one", "many")  # labels a node; a schema that does not say means the first


def save(graph: HetGraph, path: str | os.PathLike) -> None:
    """Write `graph` to the new folder `path`; it appears whole or not at all.

    Raises:
      InputError: `path` exists, or cannot be written.
    """
    path = Path(path)
    if path.exists():
        raise InputError(f"{path}: exists already; a store is written to a new folder")
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        _write(graph, partial)
        partial.rename(path)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InputError(f"{path}: {error.strerror or error}") from None


def _write(graph: HetGraph, folder: Path) -> None:
    schema = graph.schema
    files = {}
    for number, relation in enumerate(schema.relations):
        csc = graph.relations[relation]
        files[f"relation_{number}.indptr"], files[f"relation_{number}.indices"] = csc.indptr, csc.indices
    type_number = {name: number for number, name in enumerate(schema.nodes)}
    for node_type, matrix in graph.features.items():
        files[f"features_{type_number[node_type]}"] = matrix
    files |= {"labels": graph.labels} | {f"split_{name}": graph.splits[name] for name in SPLITS}
    for name, array in files.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": [
            {"type": name, "count": count, "features": _describe(graph.features.get(name))}
            for name, count in schema.nodes.items()
        ],
        "relations": [
            {"source": r.source, "name": r.name, "target": r.target, "edges": graph.relations[r].edges}
            for r in schema.relations
        ],
        "target": schema.target,
        "classes": schema.classes,
        "labels": LABELS[graph.multilabel],
    }
    (folder / "schema.json").write_text(json.dumps(description, indent=1))


def open(path: str | os.PathLike) -> HetGraph:
    """Map the store at `path` into memory.

    Only headers are read and held against `schema.json`; `hetjax.graph.hetgraph.check` reads everything.

    Raises:
      InputError: a missing or unreadable file, another format or version, or a file of another shape than the schema says.
    """
    path = Path(path)
    description = _read_description(path / "schema.json")
    try:
        nodes = {node["type"]: node["count"] for node in description["nodes"]}
        relations = tuple(Relation(r["source"], r["name"], r["target"]) for r in description["relations"])
        if len(nodes) != len(description["nodes"]):
            raise InputError(f"{len(description['nodes'])} node types, of which {len(nodes)} have names of their own")
        schema = Schema(nodes, relations, description["target"], description["classes"])
        widths = {node["type"]: node["features"] for node in description["nodes"]}
        edges = [r["edges"] for r in description["relations"]]
        form = description.get("labels", LABELS[0])
        if form not in LABELS:
            raise InputError(f"labels {form!r}, and a node may have {' or '.join(map(repr, LABELS))}")
    except InputError as error:
        raise InputError(f"{path / 'schema.json'}: {error}") from None
    except (KeyError, TypeError) as error:
        raise InputError(f"{path / 'schema.json'}: {type(error).__name__}: {error}") from None
    csc, features = {}, {}
    for number, relation in enumerate(relations):
        pointers, ids = (path / f"relation_{number}.{part}.npy" for part in CSC._fields)
        indptr = _map(pointers, POINTER, (nodes[relation.target] + 1,), f"relation {relation}")
        csc[relation] = CSC(
            indptr, _map(ids, index_dtype(nodes[relation.source]), (edges[number],), f"relation {relation}")
        )
    for number, (node_type, about) in enumerate(widths.items()):
        if about is not None:
            features[node_type] = _map_features(path / f"features_{number}.npy", nodes[node_type], about, node_type)
    count = nodes[schema.target]
    dtype, shape = (ID, (count,)) if form == LABELS[0] else (FLAG, (count, schema.classes))
    labels = _map(path / "labels.npy", dtype, shape, "labels")
    splits = {name: _map(path / f"split_{name}.npy", ID, None, f"split {name!r}") for name in SPLITS}
    return HetGraph(schema, csc, features, labels, splits)


def _describe(matrix):
    return (
        None if matrix is None else {"width": matrix.shape[1] if matrix.ndim == 2 else None, "dtype": matrix.dtype.name}
    )


def _read_description(file: Path) -> dict:
    try:
        if file.stat().st_size > LARGEST_SCHEMA:
            raise InputError(f"{file}: {file.stat().st_size} bytes, and a schema has at most {LARGEST_SCHEMA}")
        description = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; is this a store? `python -m hetjax.convert` makes one") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: {error}") from None
    about = (description.get("format"), description.get("version")) if isinstance(description, dict) else (None, None)
    if about != (FORMAT, VERSION):
        raise InputError(
            f"{file}: format {about[0]!r} version {about[1]!r}, and this hetjax reads {FORMAT!r} version {VERSION}"
        )
    return description


def _map_features(file: Path, count: int, about: dict, node_type: str) -> np.ndarray:
    matrix = _load(file)
    if matrix.ndim != 2 or len(matrix) != count:
        rows = len(matrix) if matrix.ndim else 0
        raise InputError(f"{file}: feature rows {rows} != {count} nodes of type {node_type!r}")
    if _describe(matrix) != about:
        raise InputError(f"{file}: features {_describe(matrix)} != {about} in schema.json")
    if matrix.dtype not in FEATURE_TYPES or not matrix.shape[1]:
        raise InputError(
            f"{file}: features {_describe(matrix)}, and the width is at least 1, the dtype one of {', '.join(map(str, FEATURE_TYPES))}"
        )
    return matrix


def _map(file: Path, dtype: np.dtype, shape: tuple[int, ...] | None, what: str) -> np.ndarray:
    """A mapped array; a vector of any length for `shape=None`."""
    array = _load(file)
    if array.dtype != dtype or (array.ndim != 1 if shape is None else array.shape != shape):
        expected = f"{dtype} {shape if shape is not None else '(any,)'}"
        raise InputError(f"{file}: {what}: {array.dtype} {array.shape} != {expected} of the schema")
    return array


def _load(file: Path) -> np.ndarray:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise InputError(f"{file}: {error}") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{file}: an archive of arrays, and there should be one array")
    return array
