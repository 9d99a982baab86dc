"""Large graphs as trees of `.npy` files, mapped and never loaded whole: MAG240M of OGB-LSC (Hu et al., 2021), IGB-HET (Khatua et al., 2023).

`processed/` has a folder per node type, with features and labels, and one per relation, with its edges. Both predict papers.
What their loaders take from pickled files is taken from the arrays: see `mag240m` and `igb`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hetjax.datasets.both_ways import BothWays
from hetjax.graph.columns import UNLABELLED
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.npy import MAGIC, load_array
from hetjax.graph.schema import MOST_CLASSES, Relation, Schema
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

PAPER, WIDTH = "paper", 1024  # the latter of IGB's features
LAST_TRAINING_YEAR, VALIDATION_YEAR = 2018, 2019  # of MAG240M's papers
SHARES = 0.6, 0.8  # of IGB's labelled papers those that train end, and those that validate
LABELLED = {(269346174, "19"): 227130858, (269346174, "2K"): 157675969}  # first papers of the full IGB, by its loader


class Layout(NamedTuple):
    """The layout of a tree.

    Attributes:
      separator: between the parts of a relation's name.
      ends: of an `edge_index.npy`, source and target ids.
      array: opens a file of features or labels.
    """

    separator: str
    ends: Callable[[np.ndarray, Path], tuple[np.ndarray, np.ndarray]]
    array: Callable[[Path, int], np.ndarray]


def mag240m(folder: str | Path, reverse: bool = True) -> HetGraph:
    """Return the layout of MAG240M, in the folder that holds `processed`.

    Papers until 2018 train and those of 2019 validate, as published; the labels of later ones are not, so nothing tests. Of
    authors and institutions there are as many as the largest id in an edge says. `meta.pt` and `split_dict.pt`, which are
    pickled, are not opened.

    Raises:
      InputError: a file is missing, or is not as OGB-LSC writes it.
    """
    processed = _processed(Path(folder))
    labels = _labels(load_array(processed / PAPER / "node_label.npy"), processed / PAPER / "node_label.npy")
    years = load_array(processed / PAPER / "node_year.npy")
    if years.shape != labels.shape:
        raise InputError(f"{processed / PAPER / 'node_year.npy'}: {years.shape} != {labels.shape} of node_label.npy")
    labelled = np.flatnonzero(labels != UNLABELLED)
    splits = {
        "train": labelled[years[labelled] <= LAST_TRAINING_YEAR],
        "validation": labelled[years[labelled] == VALIDATION_YEAR],
    }
    layout = Layout("___", _rows_of_ends, lambda file, width: load_array(file))
    return _read(processed, layout, labels, splits, reverse)


def igb(folder: str | Path, labels: str = "19", reverse: bool = True) -> HetGraph:
    """Return the layout of IGB or IGB-HET of any size, in the folder that holds `processed`.

    The first 60 % of the labelled papers train, the next 20 % validate, and the others test, as in IGB's loader. The large
    sizes have arrays without a header: float32, features 1024 wide.

    Args:
      labels: `19` or `2K`: which of the two files of labels.

    Raises:
      InputError: a file is missing, or is not as IGB writes it.
    """
    processed = _processed(Path(folder))
    file = processed / PAPER / f"node_label_{labels}.npy"
    found = _labels(_raw_or_npy(file, 0), file)
    if (len(found), labels) in LABELLED:
        found[LABELLED[len(found), labels] :] = UNLABELLED
    labelled = np.flatnonzero(found != UNLABELLED)
    train, validation = (int(len(labelled) * share) for share in SHARES)
    splits = {"train": labelled[:train], "validation": labelled[train:validation], "test": labelled[validation:]}
    return _read(processed, Layout("__", _columns_of_ends, _raw_or_npy), found, splits, reverse)


def _read(processed: Path, layout: Layout, labels: np.ndarray, splits: dict, reverse: bool) -> HetGraph:
    folders = sorted(path for path in processed.iterdir() if (path / "edge_index.npy").exists())
    relations = {}
    for path in folders:
        parts = path.name.split(layout.separator)
        if len(parts) != 3:
            raise InputError(f"{path}: is not named SOURCE{layout.separator}NAME{layout.separator}TARGET")
        relations[Relation(*parts)] = path
    if not relations:
        raise InputError(f"{processed}: no folder of a relation, with edge_index.npy")
    edges = BothWays(list(relations), lambda relation: _ends(relations[relation], layout), reverse)
    types = dict.fromkeys(t for r in relations for t in (r.source, r.target))
    files = {t: processed / t / "node_feat.npy" for t in types}
    features = {t: layout.array(file, WIDTH) for t, file in files.items() if file.exists()}
    nodes = {t: len(features[t]) if t in features else _largest(edges, t) + 1 for t in types}
    if nodes.get(PAPER) != len(labels):
        raise InputError(f"{processed / PAPER}: {nodes.get(PAPER)} papers != {len(labels)} labels")
    schema = Schema(nodes, tuple(edges), PAPER, int(labels.max(initial=0)) + 1)
    return build(schema, edges, features, labels, splits, str(processed.parent))


def _largest(edges: BothWays, node_type: str) -> int:
    """Return the largest id of a type in any edge; -1 if there is none."""
    sides = [(r, side) for r in edges for side in (0, 1) if (r.source, r.target)[side] == node_type]
    return max((int(edges[r][side].max(initial=-1)) for r, side in sides), default=-1)


def _ends(folder: Path, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    file = folder / "edge_index.npy"
    return layout.ends(load_array(file), file)


def _rows_of_ends(pairs: np.ndarray, file: Path) -> tuple[np.ndarray, np.ndarray]:
    if pairs.ndim != 2 or len(pairs) != 2:
        raise InputError(f"{file}: {pairs.shape}, and should be (2, edges)")
    return pairs[0], pairs[1]


def _columns_of_ends(pairs: np.ndarray, file: Path) -> tuple[np.ndarray, np.ndarray]:
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"{file}: {pairs.shape}, and should be (edges, 2)")
    return pairs[:, 0], pairs[:, 1]


def _raw_or_npy(file: Path, width: int) -> np.ndarray:
    """Return a `.npy`, or float32 without a header, `[rows, width]`, or `[rows]` if `width` is 0; mapped."""
    with reading(file), open_regular(file) as stream:
        if stream.read(len(MAGIC)) == MAGIC:
            return load_array(file)
        size = file.stat().st_size
        if not size or size % (4 * (width or 1)):
            raise InputError(f"{file}: {size} bytes, no .npy, and no rows of {width or 1} numbers of float32")
        return np.memmap(file, np.float32, "r", shape=(size // 4 // width, width) if width else (size // 4,))


def _labels(given: np.ndarray, file: Path) -> np.ndarray:
    """Return class numbers int32 `[papers]`, -1 for NaN and below 0."""
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise InputError(f"{file}: {given.dtype} {given.shape}, and should be numbers (papers,)")
    values = np.where(np.isfinite(given) & (given >= 0), given, UNLABELLED)
    wrong = np.flatnonzero((values != np.floor(values)) | (values >= MOST_CLASSES))
    if len(wrong):
        raise InputError(f"{file}: entry {wrong[0]} is {values[wrong[0]]:g}, no class number")
    return values.astype(np.int32)


def _processed(folder: Path) -> Path:
    if not (folder / "processed").is_dir():
        raise InputError(f"{folder}: holds no folder processed")
    return folder / "processed"
