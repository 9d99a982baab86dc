"""A homogeneous graph in a folder: a list of edges, in text or as an array, and an array each of labels, features, splits."""

from pathlib import Path

import numpy as np

from hetjax.datasets import edge_text
from hetjax.datasets.homogeneous import Edges, Options, assemble, check_some, names_of
from hetjax.datasets.splits import Shipped
from hetjax.datasets.text import rows
from hetjax.graph.columns import SPLITS
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.npy import load_array
from hetjax.system.errors import InputError

FILES = "edges.npy", "edges.txt", "edges.txt.gz", "edges.csv", "edges.csv.gz"


def read(folder: str | Path, options: Options | None = None) -> HetGraph:
    """Read a graph: `labels.npy`, which says how many nodes there are, one of `FILES`, and what else is there.

    Args:
      folder: also `features.npy` `[nodes, width]`, and `train.npy`, `validation.npy` and `test.npy`: ids, or bool `[nodes]`,
        `[splits, nodes]` or `[nodes, splits]`; `ids.txt` and `classes.txt`: a line per node or class, what it is called.
      options: what is made of it.

    Raises:
      InputError: an unreadable file, a line that is no edge, an array of another type or shape, an impossible value.
    """
    folder, options = Path(folder), options or Options()
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; it should hold a list of edges and labels.npy")
    labels = load_array(folder / "labels.npy")
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "iufb":
        found = f"{labels.dtype} {labels.shape}"
        raise InputError(f"{folder / 'labels.npy'}: {found}, and should be class numbers (nodes,) or (nodes, classes)")
    edges = _edges(folder, len(labels))
    features = load_array(folder / "features.npy") if (folder / "features.npy").exists() else None
    if features is not None and (features.ndim != 2 or len(features) != len(labels)):
        raise InputError(
            f"{folder}: features.npy is {features.dtype} {features.shape}, and should be numbers ({len(labels)}, width), as labels.npy has {len(labels)} nodes"
        )
    shipped: Shipped = {}
    if options.split.kind == "public":
        splits = {name: folder / f"{name}.npy" for name in SPLITS}
        shipped = {name: (str(file), load_array(file)) for name, file in splits.items() if file.exists()}
    files = {name: str(folder / f"{name}.npy") for name in ("labels", "features")}
    files |= {name: file for name, (file, _) in shipped.items()}
    names = names_of(*(_lines(folder / name) for name in ("ids.txt", "classes.txt")))
    return assemble(edges, features, labels, shipped, options, str(folder), names, files)


def _lines(file: Path) -> list[str] | None:
    """Return the first cell of every line; None if there is no such file."""
    return [cells[0] for _, cells in rows(file, (1,))] if file.exists() else None


def _edges(folder: Path, nodes: int) -> Edges:
    files = [folder / name for name in FILES if (folder / name).exists()]
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise InputError(f"{folder}: lists of edges: {found}, and there should be one of {', '.join(FILES)}")
    file = files[0]
    edges = _columns(load_array(file), file) if file.suffix == ".npy" else edge_text.read(file, nodes)
    check_some(edges, nodes, file)
    return edges


def _columns(array: np.ndarray, file: Path) -> Edges:
    integers = array.dtype.kind in "iu"
    if array.ndim != 2 or array.shape[1] not in (2, 3) or not (integers or array.dtype.kind == "f"):
        expected = "integers (edges, 2), or with weights numbers (edges, 3)"
        raise InputError(f"{file}: {array.dtype} {array.shape}, and should be {expected}")
    ends = [array[:, 0], array[:, 1]]
    for side, ids in enumerate(() if integers else ends):
        wrong = np.flatnonzero(~((ids >= 0) & (ids < 2**31) & (ids == np.floor(ids))))
        if len(wrong):
            raise InputError(
                f"{file}: edge {wrong[0]}: {ids[wrong[0]]} in column {side}, and should be a node's number"
            )
    source, target = ends if integers else (ids.astype(np.int32) for ids in ends)
    return Edges(source, target, array[:, 2] if array.shape[1] == 3 else None)
