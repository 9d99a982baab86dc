"""Graphs in one `.npz` that hetjax and its peers read alike.

`python benchmarks/graph_file.py --synthetic.scale 1 --synthetic.classes 0 --out GRAPH.npz` writes one in the shape of ogbn-mag; of the
options of `data` (`--help`) any graph that hetjax can read.

`nodes|TYPE` holds a count; `edges|SOURCE|NAME|TARGET` int32 `[2, edges]`; `features|TYPE` float32 `[nodes, width]`;
`labels|TYPE` int32 `[nodes]` and `train|TYPE` int32 ids, of the target type alone; where nodes have several labels, the first of each.
"""

import os
import sys
import zipfile
from collections.abc import Sequence

import jax
import numpy as np

from hetjax.datasets.load import load
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.npy import LONGEST_HEADER, header
from hetjax.graph.schema import Relation, Schema
from hetjax.options.command_line import parse, run_command
from hetjax.options.config import Data
from hetjax.sharding.evaluate import ALIGNED
from hetjax.system.errors import InputError
from hetjax.system.runtime import peak_memory

CHUNK = 2**24  # bytes that are read at a time


def read(file: str | os.PathLike) -> HetGraph:
    """Return the graph in a file, without validation or test nodes."""
    try:
        with zipfile.ZipFile(file) as archive:
            found = {tuple(key.removesuffix(".npy").split("|")): _array(archive, key) for key in archive.namelist()}
    except InputError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    nodes = {key[1]: int(count) for key, count in found.items() if key[0] == "nodes"}
    edges = {Relation(*key[1:]): tuple(ends) for key, ends in found.items() if key[0] == "edges"}
    features = {key[1]: matrix for key, matrix in found.items() if key[0] == "features"}
    (target,) = (key[1] for key in found if key[0] == "labels")
    labels, nobody = found["labels", target], np.zeros(0, np.int32)
    splits = {"train": found["train", target], "validation": nobody, "test": nobody}
    return build(Schema(nodes, tuple(edges), target, int(labels.max()) + 1), edges, features, labels, splits)


def held() -> int:
    """Return the most bytes of memory that this process has held; on an accelerator, the accelerator's bytes."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return stats.get("peak_bytes_in_use") or peak_memory()


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return an array that jax uses in place, as it does a store's files: elsewhere it would make a copy, and so would numpy first."""
    with archive.open(name) as stream:
        about = header(stream.read(LONGEST_HEADER), archive.getinfo(name).file_size, f"{archive.filename}: {name}")
        size = about.size - about.start
        room = np.empty(size + ALIGNED, np.uint8)
        start = -room.ctypes.data % ALIGNED
        values = room[start : start + size]
        stream.seek(about.start)
        for at in range(0, size, CHUNK):
            stream.readinto(memoryview(values[at : at + CHUNK]))
    return values.view(about.dtype).reshape(about.shape, order="F" if about.fortran else "C")


def write(graph: HetGraph, file: str | os.PathLike) -> None:
    """Write a graph as `read` reads it; only the nodes' features and training labels are kept."""
    arrays = {f"nodes|{name}": np.array(count) for name, count in graph.schema.nodes.items()}
    for relation, csc in graph.relations.items():
        targets = np.repeat(np.arange(len(csc.indptr) - 1, dtype=np.int32), np.diff(csc.indptr))
        arrays[f"edges|{relation.source}|{relation.name}|{relation.target}"] = np.stack([csc.indices, targets])
    arrays |= {f"features|{name}": np.asarray(matrix, np.float32) for name, matrix in graph.features.items()}
    target, labels = graph.schema.target, graph.labels
    arrays |= {
        f"labels|{target}": (labels if labels.ndim == 1 else labels.argmax(axis=1)).astype(np.int32),
        f"train|{target}": graph.splits["train"].astype(np.int32),
    }
    np.savez(file, **arrays)


def main(arguments: Sequence[str]) -> None:
    """Read or generate a graph, and write it."""
    paths = {"out": "the .npz to write"}
    made, paths = parse({"data": Data}, arguments, sys.argv[0], "Write a graph for the benchmarks.", paths)
    graph = load(made["data"])
    write(graph, paths["out"])
    print(f"{paths['out']}: {graph.edges:,} edges of {len(graph.schema.relations)} relations")


if __name__ == "__main__":
    run_command(main)
