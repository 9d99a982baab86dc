"""What a user hands over, as hetjax has it: arrays, labels, edges and splits, of whichever library, each cast said in a line."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.datasets.homogeneous import narrowest
from hetjax.datasets.splits import Split, divide
from hetjax.errors import InputError, short
from hetjax.graph.hetgraph import FEATURE_TYPES, SPLITS, UNLABELLED
from hetjax.graph.names import Ids, as_array
from hetjax.graph.schema import Relation


class Categories(NamedTuple):
    """Labels with the names of all classes, in their order, as pandas' categorical columns have them.

    Attributes:
      codes: class numbers `[nodes]`, -1 where there is none.
      categories: the name of every class.
    """

    codes: Any
    categories: Any


def as_relation(given: Any) -> Relation:
    """A relation from what names it, `(source type, name, target type)`."""
    if not isinstance(given, tuple | list) or len(given) != 3 or not all(isinstance(part, str) for part in given):
        raise InputError(f"relation {short(repr(given))}: should be (source type, name, target type), three texts")
    return Relation(*given)


SAYS = logging.getLogger("hetjax")
SPELLINGS = {"val": "validation", "valid": "validation", "dev": "validation", "training": "train"}


def as_numpy(given: Any, place: str) -> np.ndarray:
    """An array of numbers, texts or objects, from a tensor, a frame, a column, a sparse matrix or a list; copied if need be.

    Raises:
      InputError: it is none.
    """
    if hasattr(given, "detach"):  # a tensor of torch, which numpy takes only from the CPU, and not of every type
        given = given.detach().cpu()
        given = given.to_dense() if getattr(given, "is_sparse", False) else given
        given = given.float() if "bfloat16" in str(given.dtype) else given
        return given.numpy()
    try:
        if hasattr(given, "toarray"):
            return given.toarray()
        if hasattr(given, "to_numpy"):
            keys = {"zero_copy_only": False} if type(given).__module__.startswith("pyarrow") else {}
            return given.to_numpy(**keys)
        array = np.asarray(given)
        return (
            np.asarray(given, object) if array.dtype.kind == "U" else array
        )  # each of a list as it is, no number as text
    except ValueError as error:
        raise InputError(f"{place}: {short(str(error))}") from None


def as_features(given: Any, node_type: str) -> np.ndarray:
    """Features `[nodes, width]` of a type that hetjax trains on; one column may be `[nodes]`.

    Whole numbers get the smallest type that holds them all exactly, others become float32. What is such already is not copied.

    Raises:
      InputError: they are no numbers.
    """
    place = f"features of type {node_type!r}"
    matrix = as_numpy(given, place)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.dtype in FEATURE_TYPES:
        return matrix.view()  # whose flags are its own: a graph is read-only, and what the user has is not
    if matrix.dtype.kind not in "iuf":
        raise InputError(f"{place} are {matrix.dtype}, and should be numbers")
    dtype = np.dtype(np.float32) if matrix.dtype.kind == "f" else narrowest(matrix)
    with np.errstate(over="ignore"):  # what does not fit is infinite, and refused
        cast = matrix.astype(dtype)
    exact = "" if dtype.kind != "f" or np.array_equal(cast, matrix) else ", rounded"
    if not isinstance(given, list | tuple):  # of a list's numbers nobody chose the type
        SAYS.warning("%s: %s cast to %s%s", place, matrix.dtype, dtype, exact)
    return cast


def as_labels(given: Any, node_type: str) -> tuple[np.ndarray, Ids | None]:
    """Labels, and the names of the classes where they have some.

    Whole numbers are class numbers, -1 and NaN stand for none. Texts and booleans are classes in their order; None stands
    for none. A categorical column keeps its categories. A matrix `[nodes, classes]` of 0 and 1 is for nodes of several labels, with rows of -1 or NaN for none.

    Raises:
      InputError: they are numbers that are not whole, or mixed.
    """
    place = f"labels of type {node_type!r}"
    categorical = getattr(given, "cat", given)
    if hasattr(categorical, "categories") and hasattr(categorical, "codes"):
        names = as_numpy(categorical.categories, place).tolist()
        return as_numpy(categorical.codes, place).astype(np.int64), Ids([str(name) for name in names])
    labels = as_numpy(given, place)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.dtype.kind in "iu" or (labels.dtype.kind == "b" and labels.ndim == 2):
        return labels.view(), None
    if labels.dtype.kind == "b":
        return labels.astype(np.int32), Ids(["false", "true"])
    if labels.dtype.kind == "f":
        known = np.isfinite(labels)
        wrong = np.argwhere(known & (labels != np.round(labels)))
        if len(wrong):
            first = tuple(wrong[0])
            raise InputError(
                f"{place}: {labels[first]} of node {first[0]} is no class: classes are whole numbers or texts"
            )
        return np.where(known, labels, UNLABELLED).astype(np.int64), None
    if labels.ndim != 1:
        raise InputError(f"{place}: {labels.dtype} {labels.shape}, and should be texts (nodes,)")
    return _encoded(labels, place)


def _encoded(labels: np.ndarray, place: str) -> tuple[np.ndarray, Ids]:
    known = np.array([label is not None and label == label for label in labels.tolist()], bool)  # NaN is not itself
    values = labels[known].tolist()
    if {type(value) for value in values} - {str}:
        if all(isinstance(value, int | float) for value in values):
            numbers = np.full(len(labels), np.nan)
            numbers[known] = values
            return as_labels(numbers, place)  # type: ignore[return-value]  # of objects that are numbers
        odd = next(value for value in values if not isinstance(value, str))
        raise InputError(f"{place}: {short(repr(odd))} is {type(odd).__name__}, and others are texts")
    names, found = np.unique(np.array(values, dtype=object), return_inverse=True)
    encoded = np.full(len(labels), UNLABELLED, np.int32)
    encoded[known] = found
    return encoded, Ids(names.tolist())


def as_ends(given: Any, relation: Relation) -> list[np.ndarray]:
    """Source ids, target ids and, if there are any, weights of a relation's edges.

    They are given as two or three sequences; as one array or tensor `[2, edges]`, or `[edges, 2]`; or as a frame, whose
    columns `source`, `target` and `weight` are taken, or else its first two or three.
    """
    place = f"relation {relation}"
    if (columns := columns_of(given)) is not None:
        named = [name for name in ("source", "target", "weight") if name in columns]
        chosen = named if named[:2] == ["source", "target"] else columns[:3]
        return [as_numpy(given[name], f"{place}: column {name!r}") for name in chosen]
    if isinstance(given, tuple | list) and len(given) in (2, 3) and not np.isscalar(given[0]):
        return [as_numpy(part, place) for part in given]
    array = as_numpy(given, place)
    if array.ndim == 2 and 2 in array.shape:
        return list(array if len(array) == 2 else array.T)
    raise InputError(f"{place}: edges of shape {array.shape}, and there should be sources and targets, [2, edges]")


def as_ids(given: Any, node_type: str) -> Ids:
    """The users' ids of a type's nodes, as they are given: whole numbers or texts."""
    arrow = type(given).__module__.startswith("pyarrow")
    try:
        return Ids(as_array(given if arrow or not len(given) else as_numpy(given, "ids")))
    except InputError as error:
        raise InputError(f"ids of type {node_type!r}: {error}") from None


def columns_of(given: Any) -> list[str] | None:
    """The names of a frame's columns, be it pandas', polars', Arrow's or a dictionary; None: it is no frame."""
    if isinstance(given, Mapping):
        return list(given)
    if not hasattr(given, "columns") or not hasattr(given, "__getitem__"):
        return None
    return list(given.column_names if hasattr(given, "column_names") else given.columns)


def as_splits(given: Any, labels: np.ndarray, ids: Ids | None, seed: int) -> dict[str, np.ndarray]:
    """Node numbers per split.

    Args:
      given: per split (also `val` for `validation`) a mask, node numbers, or the users' ids where these are texts; or shares
        of the labelled nodes, `(train, validation, test)`; or one share for training, whose rest the other two divide.
      labels: as in `HetGraph`.
      ids: of the target's nodes.
      seed: which nodes shares choose.

    Raises:
      InputError: no such split, id or share.
    """
    if not isinstance(given, Mapping):
        shares = (
            (given, (1 - given) / 2, (1 - given) / 2) if isinstance(given, int | float) else tuple(map(float, given))
        )
        if len(shares) != 3 or min(shares) < 0 or not shares[0] > 0 or sum(shares) > 1 + 1e-9:
            raise InputError(
                f"splits are {short(str(given))}, and should be shares of at most 1 together, or masks or ids"
            )
        return divide(labels, Split("random", seed, shares), {}, "splits")
    splits = {}
    for name, chosen in given.items():
        name = SPELLINGS.get(name, name)
        if name not in SPLITS or name in splits:
            raise InputError(f"split {name!r}: the splits are {', '.join(SPLITS)}, each once")
        splits[name] = _chosen(as_numpy(chosen, f"split {name!r}"), f"split {name!r}", len(labels), ids)
    return splits


def _chosen(array: np.ndarray, place: str, nodes: int, ids: Ids | None) -> np.ndarray:
    if array.dtype == bool:
        if array.shape != (nodes,):
            raise InputError(f"{place}: a mask of shape {array.shape} != ({nodes},) of the nodes")
        return np.flatnonzero(array)
    if array.dtype.kind in "OSU" and array.size:
        return found(array, ids, place)
    return array.astype(np.int64) if not array.size else array


def found(asked: Sequence | np.ndarray, ids: Ids | None, place: str) -> np.ndarray:
    """The numbers of the users' ids, all of which must be there."""
    if ids is None:
        raise InputError(f"{place}: {short(repr(asked[0]))} is an id of yours, and the type has none: give `ids`")
    numbers = ids.find(asked)
    if (numbers < 0).any():
        position = int(np.argmax(numbers < 0))
        raise InputError(
            f"{place}: {short(repr(asked[position]))}, entry {position}, is no id of the type's {len(ids)}"
        )
    return numbers
