"""Data sets for the classification of nodes as OGB unpacks them: `raw/`, `split/` and `mapping/`, of csv.gz (Hu et al., 2020).

Of one kind of node (ogbn-arxiv, ogbn-products) or of several (ogbn-mag); `raw/num-node-dict.csv.gz` is there where there are
several. Features of edges are left out, which a line says.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from hetjax.datasets import csv_arrays
from hetjax.datasets.both_ways import BothWays
from hetjax.datasets.homogeneous import NODE, Edges, Options, assemble
from hetjax.datasets.splits import Shipped, divide
from hetjax.graph.columns import UNLABELLED
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import MOST_CLASSES, Relation, Schema
from hetjax.system.errors import InputError
from hetjax.system.logs import log

SPLIT_FILES = {"train": "train", "validation": "valid", "test": "test"}


def read(folder: str | Path, options: Options | None = None, reverse: bool = True) -> HetGraph:
    """Read a data set.

    Args:
      folder: that holds `raw`.
      options: what is made of one kind of node; of several kinds its `split` alone counts.
      reverse: add the reverse of every relation, where there are several kinds.

    Raises:
      InputError: a file is missing, or is not as OGB writes it.
    """
    folder, options = Path(folder), options or Options()
    raw = folder / "raw"
    if not raw.is_dir():
        raise InputError(f"{folder}: holds no folder raw, which OGB unpacks")
    if (raw / "num-node-dict.csv.gz").exists():
        return _several(folder, raw, options, reverse)
    if not (raw / "num-node-list.csv.gz").exists():
        raise InputError(
            f"{raw}: holds neither num-node-list.csv.gz nor num-node-dict.csv.gz, one of which OGB unpacks"
        )
    return _one(folder, raw, options)


def _one(folder: Path, raw: Path, options: Options) -> HetGraph:
    nodes, edges = (_only(csv_arrays.matrix(raw / f"num-{what}-list.csv.gz"), raw) for what in ("node", "edge"))
    pairs = _pairs(raw, edges)
    given = csv_arrays.matrix(raw / "node-label.csv.gz", pa.float64())
    if given.shape[1] == 1:
        labels, classes = _labels(given, nodes, raw)
    else:
        labels, classes = _several_labels(given, nodes, raw), given.shape[1]
    features = _features(raw, nodes)
    shipped = _shipped(folder / "split") if options.split.kind == "public" else {}
    ids = next(iter(sorted((folder / "mapping").glob("nodeidx2*.csv.gz"))), None)
    names = Names({} if ids is None else {NODE: _ids(ids, nodes)}, _classes(folder, classes))
    return assemble(Edges(pairs[:, 0], pairs[:, 1]), features, labels, shipped, options, str(folder), names)


def _several(folder: Path, raw: Path, options: Options, reverse: bool) -> HetGraph:
    counts = csv_arrays.table(raw / "num-node-dict.csv.gz")
    nodes = {_part(name, raw): _only(np.array([cells], dtype=np.int64), raw) for name, cells in counts.items()}
    relations = []
    for triplet in csv_arrays.texts(raw / "triplet-type-list.csv.gz", 3):
        relations.append(Relation(*(_part(name, raw) for name in triplet)))
    target = _labelled(raw / "nodetype-has-label.csv.gz")
    file = raw / "node-label" / target
    labels, classes = _labels(csv_arrays.matrix(file / "node-label.csv.gz", pa.float64()), nodes.get(target, -1), file)
    edges = BothWays(relations, lambda relation: _ends(raw / "relations" / "___".join(relation)), reverse)
    schema = Schema(nodes, tuple(edges), target, classes)
    features = {name: _features(raw / "node-feat" / name, count) for name, count in nodes.items()}
    shipped = _shipped(folder / "split", target) if options.split.kind == "public" else {}
    splits = divide(labels, options.split, shipped, str(folder))
    files = {name: folder / "mapping" / f"{name}_entidx2name.csv.gz" for name in nodes}
    ids = {name: _ids(file, nodes[name]) for name, file in files.items() if file.exists()}
    given = {name: matrix for name, matrix in features.items() if matrix is not None}
    names = Names(ids, _classes(folder, classes))
    return build(schema, edges, given, labels, splits, str(folder), names)


def _ends(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    pairs = _pairs(folder, _only(csv_arrays.matrix(folder / "num-edge-list.csv.gz"), folder))
    return pairs[:, 0], pairs[:, 1]


def _pairs(folder: Path, count: int) -> np.ndarray:
    """Return source and target of every edge, int64 `[edges, 2]`."""
    file = folder / "edge.csv.gz"
    pairs = csv_arrays.matrix(file) if count else np.empty((0, 2), np.int64)
    if pairs.shape != (count, 2):
        raise InputError(f"{file}: {pairs.shape} != ({count}, 2) of num-edge-list.csv.gz")
    if (folder / "edge-feat.csv.gz").exists():
        log.warning(f"{folder / 'edge-feat.csv.gz'}: features of edges are left out")
    return pairs


def _features(folder: Path, count: int) -> np.ndarray | None:
    """Return features, float32 `[nodes, width]`; None if there are none."""
    file = folder / "node-feat.csv.gz"
    if not file.exists():
        return None
    matrix = csv_arrays.matrix(file, csv_arrays.NUMBER)
    if len(matrix) != count:
        raise InputError(f"{file}: feature rows {len(matrix)} != {count} nodes")
    return matrix


def _labels(given: np.ndarray, count: int, folder: Path) -> tuple[np.ndarray, int]:
    """Return class numbers int32 `[nodes]`, -1 where there is none, and the number of classes."""
    place = folder / "node-label.csv.gz"
    if given.shape != (count, 1):
        raise InputError(f"{place}: {given.shape} != ({count}, 1) of the nodes")
    values = np.where(np.isnan(given[:, 0]), UNLABELLED, given[:, 0])
    wrong = np.flatnonzero((values != np.floor(values)) | (values < UNLABELLED) | (values >= MOST_CLASSES))
    if len(wrong):
        raise InputError(f"{place}: row {wrong[0] + 1}: {values[wrong[0]]:g} is no class number")
    labels = values.astype(np.int32)
    return labels, int(labels.max(initial=0)) + 1


def _several_labels(given: np.ndarray, count: int, folder: Path) -> np.ndarray:
    """Return 0 and 1, int8 `[nodes, tasks]`, as of ogbn-proteins; rows of -1 where nothing is known."""
    place = folder / "node-label.csv.gz"
    if len(given) != count or not (np.isnan(given) | (given == 0) | (given == 1)).all():
        raise InputError(
            f"{place}: {given.shape}, and there should be {count} rows of 0 and 1, or one column of classes"
        )
    return np.where(np.isnan(given).any(axis=1, keepdims=True), UNLABELLED, given).astype(np.int8)


def _labelled(file: Path) -> str:
    """Return the node type that has labels."""
    marked = [name for name, cells in csv_arrays.table(file).items() if cells[0].lower() == "true"]
    if len(marked) != 1:
        raise InputError(f"{file}: node types with labels: {', '.join(marked) or 'none'}, and there should be one")
    return _part(marked[0], file)


def _shipped(folder: Path, target: str = "") -> Shipped:
    ways = sorted(path for path in folder.glob("*") if path.is_dir())
    if len(ways) != 1:
        raise InputError(f"{folder}: {len(ways)} folders, and there should be one, such as time")
    files = {split: ways[0] / target / f"{name}.csv.gz" for split, name in SPLIT_FILES.items()}
    return {split: (str(file), csv_arrays.matrix(file)[:, 0]) for split, file in files.items()}


def _ids(file: Path, count: int) -> Ids:
    from hetjax.casts.ids import normal

    return Ids(normal([csv_arrays.names(file, count)]))


def _classes(folder: Path, count: int) -> Ids | None:
    files = sorted((folder / "mapping").glob("labelidx2*.csv.gz"))
    return Ids(csv_arrays.names(files[0], count)) if len(files) == 1 else None


def _only(values: np.ndarray, where: Path) -> int:
    """Return the one number of one graph."""
    if values.size != 1 or values.flat[0] < 0:
        raise InputError(f"{where}: counts of {values.size} graphs, and there should be one")
    return int(values.flat[0])


def _part(name: str, where: Path) -> str:
    """Return a name that is part of a path, and of no other folder's."""
    if "/" in name or "\0" in name or name in ("", ".", ".."):
        raise InputError(f"{where}: {name[:80]!r} is no name of a node type or relation")
    return name
