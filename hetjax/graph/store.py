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
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import SPLITS, HetGraph
from hetjax.graph.schema import Relation, Schema

FORMAT, VERSION = "hetjax-store", 1
LARGEST_SCHEMA = 64 * 2**20  # bytes


def save(graph: HetGraph, path: str | os.PathLike) -> None:
    """Write `graph` to the new folder `path`; it appears whole or not at all.

    Raises:
      InputError: `path` exists.
    """
    path = Path(path)
    if path.exists():
        raise InputError(f"{path}: exists already; a store is written to a new folder")
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
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
        np.save(partial / f"{name}.npy", array, allow_pickle=False)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": [
            {"type": name, "count": count, "features": _describe(graph.features.get(name))} for name, count in schema.nodes.items()
        ],
        "relations": [
            {"source": r.source, "name": r.name, "target": r.target, "edges": graph.relations[r].edges} for r in schema.relations
        ],
        "target": schema.target,
        "classes": schema.classes,
    }
    (partial / "schema.json").write_text(json.dumps(description, indent=1))
    partial.rename(path)


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
        schema = Schema(nodes, relations, description["target"], description["classes"])
        widths = {node["type"]: node["features"] for node in description["nodes"]}
        edges = [r["edges"] for r in description["relations"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path / 'schema.json'}: {type(error).__name__}: {error}") from None
    except InputError as error:
        raise InputError(f"{path / 'schema.json'}: {error}") from None
    csc, features = {}, {}
    for number, relation in enumerate(relations):
        indptr = _map(path / f"relation_{number}.indptr.npy", (nodes[relation.target] + 1,), f"relation {relation}")
        csc[relation] = CSC(indptr, _map(path / f"relation_{number}.indices.npy", (edges[number],), f"relation {relation}"))
    for number, (node_type, about) in enumerate(widths.items()):
        if about is not None:
            matrix = _map(path / f"features_{number}.npy", None, f"features of type {node_type!r}")
            if len(matrix) != nodes[node_type]:
                raise InputError(f"{path / f'features_{number}.npy'}: feature rows {len(matrix)} != {nodes[node_type]} nodes of type {node_type!r}")
            if _describe(matrix) != about:
                raise InputError(f"{path / f'features_{number}.npy'}: features {_describe(matrix)} != {about} in schema.json")
            features[node_type] = matrix
    labels = _map(path / "labels.npy", (nodes[schema.target],), "labels")
    splits = {name: _map(path / f"split_{name}.npy", None, f"split {name!r}") for name in SPLITS}
    return HetGraph(schema, csc, features, labels, splits)


def _describe(matrix):
    return None if matrix is None else {"width": matrix.shape[1] if matrix.ndim == 2 else None, "dtype": matrix.dtype.name}


def _read_description(file: Path) -> dict:
    try:
        if file.stat().st_size > LARGEST_SCHEMA:
            raise InputError(f"{file}: {file.stat().st_size} bytes, and a schema has at most {LARGEST_SCHEMA}")
        description = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; is this a store? `python -m hetjax.convert` makes one") from None
    except ValueError as error:
        raise InputError(f"{file}: {error}") from None
    about = (description.get("format"), description.get("version")) if isinstance(description, dict) else (None, None)
    if about != (FORMAT, VERSION):
        raise InputError(f"{file}: format {about[0]!r} version {about[1]!r}, and this hetjax reads {FORMAT!r} version {VERSION}")
    return description


def _map(file: Path, shape: tuple[int, ...] | None, what: str) -> np.ndarray:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise InputError(f"{file}: {error}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or (shape is not None and array.shape != shape):
        raise InputError(f"{file}: {what}: {getattr(array, 'dtype', type(array))} {getattr(array, 'shape', '')} != {shape} in schema.json")
    return array
