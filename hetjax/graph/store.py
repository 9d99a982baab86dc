"""A graph on disk: a versioned `schema.json` and one `.npy` file per array, memory-mapped when opened.

Opening reads `schema.json` and the header of each file, nothing more, so a graph larger than memory opens at once; its
rows are read when they are used. Nothing is ever unpickled.
"""

import json
import math
import os
import zlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX as MAGIC
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic

from hetjax.durable import new_folder
from hetjax.errors import InputError
from hetjax.graph import versioned
from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import SPLITS, HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, from_json, sizes

FORMAT, VERSION, SCHEMA = "hetjax-store", 1, "schema.json"
FIXED = ("labels", *(f"split_{name}" for name in SPLITS))
POINTER, ID, FLAG = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.int8)


def save(
    graph: HetGraph,
    path: str | os.PathLike,
    relations: Collection[Relation] | None = None,
    features: Collection[str] | None = None,
) -> None:
    """Write `graph` to the new folder `path`; it appears whole or not at all.

    Args:
      relations, features: whose arrays are written, if not all; `schema.json` is the whole graph's all the same, and `open`
        with these opens what there is.

    Raises:
      InputError: `path` exists, or cannot be written.
    """
    with new_folder(path) as folder:
        files, schema, kept = _files(graph), graph.schema, set(FIXED)
        for number, relation in enumerate(schema.relations):
            if relations is None or relation in relations:
                kept |= {f"relation_{number}.{part}" for part in CSC._fields}
        for number, node_type in enumerate(schema.nodes):
            if features is None or node_type in features:
                kept.add(f"features_{number}")
        for name in kept & files.keys():
            np.save(folder / f"{name}.npy", files[name], allow_pickle=False)
        contents = {name: zlib.crc32(np.ascontiguousarray(array)) for name, array in files.items()}
        about = {"format": FORMAT, "version": VERSION} | sizes(graph).json() | {"contents": contents}
        if relations is not None or features is not None:
            about["files"] = sorted(kept & files.keys())
        (folder / SCHEMA).write_text(json.dumps(about, indent=1))


def _files(graph: HetGraph) -> dict[str, np.ndarray]:
    """Every array, by the name of its file."""
    files, schema = {}, graph.schema
    for number, relation in enumerate(schema.relations):
        for part, array in graph.relations[relation]._asdict().items():
            files[f"relation_{number}.{part}"] = array
    for number, node_type in enumerate(schema.nodes):
        if node_type in graph.features:
            files[f"features_{number}"] = graph.features[node_type]
    return files | {"labels": graph.labels} | {f"split_{name}": graph.splits[name] for name in SPLITS}


def describe(path: str | os.PathLike) -> Sizes:
    """What `schema.json` says of the store at `path`; no other file is opened.

    Raises:
      InputError: a missing or unreadable file, or another format or version.
    """
    return from_json(_description(path), str(Path(path, SCHEMA)))


def contents(path: str | os.PathLike) -> dict[str, int] | None:
    """The checksum (CRC-32) of every array, as `save` wrote it; None of a store from before there were any."""
    return _description(path).get("contents")


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
    about, has = describe(path), _description(path).get("files")
    schema, csc, matrices = about.schema, {}, {}

    def require(name: str, what: str) -> None:
        if has is not None and name not in has:
            raise InputError(f"{path}: has the files of one partition alone, and {what} is not among them")

    for number, relation in enumerate(schema.relations):
        if relations is None or relation in relations:
            require(f"relation_{number}.indptr", f"relation {relation}")
            csc[relation] = _map_relation(path, number, relation, about)
    for number, node_type in enumerate(schema.nodes):
        if node_type in about.features and (features is None or node_type in features):
            require(f"features_{number}", f"what type {node_type!r} has as features")
            matrices[node_type] = _map_features(path / f"features_{number}.npy", node_type, about)
    count = schema.nodes[schema.target]
    dtype, shape = (FLAG, (count, schema.classes)) if about.multilabel else (ID, (count,))
    labels = map_array(path / "labels.npy", dtype, shape, "labels")
    splits = {name: map_array(path / f"split_{name}.npy", ID, None, f"split {name!r}") for name in SPLITS}
    return HetGraph(replace(schema, relations=tuple(csc)), csc, matrices, labels, splits)


def _map_relation(path: Path, number: int, relation: Relation, about: Sizes) -> CSC:
    nodes, what = about.schema.nodes, f"relation {relation}"
    pointers, ids = (path / f"relation_{number}.{part}.npy" for part in CSC._fields)
    indptr = map_array(pointers, POINTER, (nodes[relation.target] + 1,), what)
    return CSC(indptr, map_array(ids, index_dtype(nodes[relation.source]), (about.edges[relation],), what))


def _map_features(file: Path, node_type: str, about: Sizes) -> np.ndarray:
    matrix, count = load_array(file), about.schema.nodes[node_type]
    if matrix.ndim != 2 or len(matrix) != count:
        rows = len(matrix) if matrix.ndim else 0
        raise InputError(f"{file}: feature rows {rows} != {count} nodes of type {node_type!r}")
    if (matrix.shape[1], matrix.dtype.name) != about.features[node_type]:
        here = {"width": matrix.shape[1], "dtype": matrix.dtype.name}
        there = dict(zip(("width", "dtype"), about.features[node_type]))
        raise InputError(f"{file}: features {here} != {there} in schema.json")
    return matrix


def map_array(file: Path, dtype: np.dtype, shape: tuple[int, ...] | None, what: str) -> np.ndarray:
    """A mapped array; a vector of any length for `shape=None`."""
    array = load_array(file)
    if array.dtype != dtype or (array.ndim != 1 if shape is None else array.shape != shape):
        expected = f"{dtype} {shape if shape is not None else '(any,)'}"
        raise InputError(f"{file}: {what}: {array.dtype} {array.shape} != {expected} of the schema")
    return array


def load_array(file: Path) -> np.ndarray:
    """The array of a `.npy` file, mapped.

    Raises:
      InputError: it is none, or of another size than its header says.
    """
    try:
        size, wanted = file.stat().st_size, _size(file)
        if size != wanted:
            raise ValueError(f"{size} bytes != {wanted} that its header says")
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise InputError(f"{file}: {error}") from None


def _size(file: Path) -> int:
    """Bytes of a `.npy` file, by its header."""
    with file.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{file.stat().st_size} bytes that are no .npy file")
        stream.seek(0)
        version = read_magic(stream)
        shape, _, dtype = (read_array_header_1_0 if version == (1, 0) else read_array_header_2_0)(stream)
        if dtype.hasobject:
            raise InputError(f"{file}: pickled objects, and there should be numbers")
        return stream.tell() + math.prod(shape) * dtype.itemsize
