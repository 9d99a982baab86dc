"""Homogeneous graphs in one `.npz` of plain arrays, by the names that Planetoid's, Shchur's and Platonov's sets have.

A part of a graph (edges, features, labels, splits) may be spelled in several ways; each way is a row of a table below. Other
arrays of a file, such as Planetoid's `self_loops`, are not read. Nothing is ever unpickled: names of classes and of nodes are
read where they are plain texts, and not where they are objects.
"""

import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hetjax.datasets import packed
from hetjax.datasets.homogeneous import NODE, Edges, Options, assemble, names_of
from hetjax.datasets.splits import Shipped
from hetjax.graph import npy
from hetjax.graph.checks import check_ids
from hetjax.graph.columns import SPLITS
from hetjax.graph.hetgraph import HetGraph
from hetjax.system.errors import InputError, reading
from hetjax.system.files import check_regular

OTHERS = f"{NODE}."  # before the name of a further column of labels
INTEGERS, NUMBERS = "iu", "iufb"  # kinds of dtypes


def read(path: str | Path, options: Options | None = None) -> HetGraph:
    """Read a graph.

    Args:
      path: a `.npz`, or a folder that holds one.
      options: what is made of it.

    Raises:
      InputError: an unreadable file; an array that is missing, or of another type or shape; a value that is impossible.
    """
    archive, options = Archive(_find(Path(path))), options or Options()
    labels = _required(archive, LABELS, "labels")
    edges = _required(archive, EDGES, "edges", len(labels))
    features = _part(archive, FEATURES, "features", len(labels))
    shipped = _part(archive, PUBLIC, "splits") if options.split.kind == "public" else None
    names = names_of(archive.texts("node_names"), archive.texts("class_names"))
    others = {
        name.removeprefix(OTHERS): archive.array(
            name, NUMBERS, (len(labels),), (len(labels), "classes"), why=", as labels"
        )
        for name in archive.members
        if name.startswith(OTHERS) and name != OTHERS
    }
    return assemble(edges, features, labels, shipped or {}, options, str(archive.path), names, others=others)


def _find(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob("*.npz"))
    if len(files) != 1:
        raise InputError(f"{path}: {len(files)} files end in .npz, and there should be 1")
    return files[0]


class Archive:
    """The arrays of an `.npz`, each read when it is asked for, within bounds.

    Raises:
      InputError: it is no zip, has an array twice, or too much would come out of it.
    """

    def __init__(self, path: Path):
        self.path = path
        with reading(path):
            size = path.stat().st_size
            check_regular(path)
            if path.is_file() and not zipfile.is_zipfile(path):
                raise InputError(f"{path}: {size} bytes that are no .npz file, which is a zip; was it cut short?")
            self.zip = zipfile.ZipFile(path)
            self.members = {member.filename.removesuffix(".npy"): member for member in self.zip.infolist()}
            name, times = Counter(self.zip.namelist()).most_common(1)[0] if self.members else ("", 0)
            if times > 1:
                raise InputError(f"{path}: {times} arrays are named {name}")
            self.check_size(sum(member.file_size for member in self.members.values()))

    def check_size(self, size: int) -> None:
        """Raise an InputError where so many bytes should not come out of this file."""
        with reading(self.path):
            packed.check(self.path.stat().st_size, size)

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def place(self, name: str) -> str:
        """Return the beginning of an error about an array."""
        return f"{self.path}: {name}"

    def array(self, name: str, kinds: str, *shapes: tuple[int | str, ...], why: str = "") -> np.ndarray:
        """Return an array whose dtype is of one of `kinds`, and whose shape is one of these, as `why` says; words stand for any number."""
        place = self.place(name)
        with reading(place):
            data = self.zip.read(self.members[name])
            header = npy.header(data[: npy.LONGEST_HEADER], len(data), place)
            order: Literal["C", "F"] = "F" if header.fortran else "C"
            values: np.ndarray = np.ndarray(header.shape, header.dtype, data, header.start, order=order)
        if values.dtype.kind not in kinds or not any(_fits(values.shape, shape) for shape in shapes):
            expected = " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
            what = "texts" if kinds == "U" else "numbers" if "f" in kinds else "integers"
            raise InputError(f"{place}: {values.dtype} {values.shape}, and should be {what} {expected}{why}")
        return np.require(values, values.dtype.newbyteorder("="), "A")

    def texts(self, name: str) -> list[str] | None:
        """Return an array of texts; None if there is none, or it has objects, which nobody unpickles."""
        if name not in self:
            return None
        with reading(self.place(name)), self.zip.open(self.members[name]) as stream:
            beginning = stream.read(npy.LONGEST_HEADER)
            if b"|O" in beginning[:128]:
                return None
        return self.array(name, "U", ("any",)).tolist()


def _fits(found: tuple[int, ...], shape: tuple[int | str, ...]) -> bool:
    return len(found) == len(shape) and all(isinstance(b, str) or a == b for a, b in zip(found, shape))


class Spelling(NamedTuple):
    """A way to spell a part of a graph.

    Attributes:
      names: the arrays that must be there; one that is there means that all should be.
      read: of an archive, these names, and what else is known, the part.
    """

    names: tuple[str, ...]
    read: Callable[..., Any]


def _part(archive: Archive, spellings: Sequence[Spelling], what: str, *sizes: int) -> Any:
    """Return a part of the graph; None if none of the arrays is there that spell it."""
    found = [one for one in spellings if any(name in archive for name in one.names)]
    if not found:
        return None
    if len(found) > 1:
        first, second = (next(name for name in one.names if name in archive) for one in found[:2])
        raise InputError(f"{archive.path}: holds {first} and {second}, and should hold one kind of {what}")
    for name in found[0].names:
        if name not in archive:
            present = next(name for name in found[0].names if name in archive)
            raise InputError(f"{archive.path}: lacks the array {name}, and has {present}")
    return found[0].read(archive, found[0].names, *sizes)


def _required(archive: Archive, spellings: Sequence[Spelling], what: str, *sizes: int) -> Any:
    part = _part(archive, spellings, what, *sizes)
    if part is None:
        names = " or ".join(one.names[0] for one in spellings)
        raise InputError(
            f"{archive.path}: no array of {what}: {names}; it holds {', '.join(sorted(archive.members)[:20])}"
        )
    return part


def _labels(archive: Archive, names: Sequence[str]) -> np.ndarray:
    return archive.array(names[0], NUMBERS, ("nodes",), ("nodes", "classes"))


def _rows(archive: Archive, names: Sequence[str], rows: int, why: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the column of every entry of compressed sparse rows."""
    indptr = archive.array(names[0], INTEGERS, (rows + 1,), why=why)
    indices = archive.array(names[1], INTEGERS, ("entries",))
    if indptr[0] != 0 or indptr[-1] != len(indices):
        raise InputError(
            f"{archive.place(names[0])}: pointers {indptr[0]}..{indptr[-1]} != 0..{len(indices)} of {names[1]}"
        )
    falls = np.flatnonzero(indptr[1:] < indptr[:-1]) + 1
    if len(falls):
        raise InputError(
            f"{archive.place(names[0])}: pointer {falls[0]} is {indptr[falls[0]]}, below {indptr[falls[0] - 1]} before it"
        )
    return np.repeat(np.arange(rows), np.diff(indptr)), indices


def _csr_edges(archive: Archive, names: Sequence[str], nodes: int) -> Edges:
    """Return the targets of each source, row by row, with weights if there is `..data`."""
    source, target = _rows(archive, names, nodes, f", as there are {nodes} labels")
    prefix = names[0].removesuffix("indptr")
    shape, data = f"{prefix}shape", f"{prefix}data"
    if shape in archive and tuple(archive.array(shape, INTEGERS, (2,))) != (nodes, nodes):
        raise InputError(f"{archive.place(shape)}: {archive.array(shape, INTEGERS, (2,))} != {nodes} nodes twice")
    weights = archive.array(data, NUMBERS, target.shape) if data in archive else None
    return Edges(source, target, weights)


def _listed_edges(archive: Archive, names: Sequence[str], nodes: int) -> Edges:
    pairs = archive.array(names[0], INTEGERS, ("edges", 2))
    return Edges(pairs[:, 0], pairs[:, 1])


def _csr_features(archive: Archive, names: Sequence[str], nodes: int) -> np.ndarray:
    """Return dense features of the smallest type that is exact; nodes that `feat_rows` does not list have zeros."""
    from hetjax.casts.numbers import narrowed  # takes a while, as pyarrow does

    rows, width = map(int, archive.array(names[3], INTEGERS, (2,)))
    listed = names[0].replace("indptr", "rows")
    ids = archive.array(listed, INTEGERS, (rows,)) if listed in archive else np.arange(nodes)
    if listed in archive:
        check_ids(ids, nodes, f"{archive.place(listed)}: entry", NODE)
    if len(ids) != rows or len(np.unique(ids)) != rows or width < 1:
        raise InputError(
            f"{archive.place(names[3])}: {rows} rows of width {width} != {len(np.unique(ids))} nodes of width 1 or more"
        )
    archive.check_size(4 * nodes * width)
    row, column = _rows(archive, names, rows, f", as {names[3]} has {rows} rows")
    wrong = np.flatnonzero((column < 0) | (column >= width))
    if len(wrong):
        raise InputError(
            f"{archive.place(names[1])}: entry {wrong[0]} is column {column[wrong[0]]}, and there are {width} by {names[3]}"
        )
    column = column.astype(np.int64)
    places = np.sort(row * width + column)
    if (places[1:] == places[:-1]).any():
        raise InputError(f"{archive.place(names[1])}: a row has a column twice")
    values = archive.array(names[2], NUMBERS, column.shape)
    values = narrowed(values, archive.place(names[2]))
    matrix = np.zeros((nodes, width), values.dtype)
    matrix[ids[row], column] = values
    return matrix


def _dense_features(archive: Archive, names: Sequence[str], nodes: int) -> np.ndarray:
    return archive.array(names[0], NUMBERS, (nodes, "width"), why=f", as there are {nodes} labels")


def _splits(archive: Archive, names: Sequence[str]) -> Shipped:
    return {split: (archive.place(name), _chosen(archive, name)) for split, name in zip(SPLITS, names)}


def _chosen(archive: Archive, name: str) -> np.ndarray:
    """Return the ids or the masks of a split; a mask of 0 and 1 in numbers is one of truth values, by the array's name."""
    from hetjax.casts.column import as_column  # takes a while, as pyarrow does
    from hetjax.casts.splits import as_mask

    masks = name.removesuffix("s").endswith("_mask")
    array = archive.array(name, NUMBERS if masks else "iub", ("any",), ("any", "any"))
    if not masks or array.dtype == bool:
        return array
    place = archive.place(name)
    if array.ndim == 1:
        return as_mask(as_column(array, place), place)
    return np.stack([as_mask(as_column(column, place), place) for column in array.T], axis=1)


def _csr(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in ("indptr", "indices", "data", "shape"))


LABELS = Spelling(("labels",), _labels), Spelling(("node_labels",), _labels)
EDGES = (
    Spelling(_csr("adj_")[:2], _csr_edges),  # Shchur et al. 2018
    Spelling(_csr("")[:2], _csr_edges),  # Planetoid: Yang et al. 2016
    Spelling(("edges",), _listed_edges),  # Platonov et al. 2023
)
FEATURES = (
    Spelling(_csr("feat_"), _csr_features),
    Spelling(_csr("attr_"), _csr_features),
    *(Spelling((name,), _dense_features) for name in ("node_features", "attr_matrix", "features", "feat")),
)
PUBLIC = (
    Spelling(("train_idx", "val_idx", "test_idx"), _splits),
    Spelling(("train_masks", "val_masks", "test_masks"), _splits),
    Spelling(("train_mask", "val_mask", "test_mask"), _splits),
)
