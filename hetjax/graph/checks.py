"""Checks of a graph's arrays, each by one line that names the first wrong value and its place."""

from typing import Any

import numpy as np

from hetjax.graph import csc as csc_format
from hetjax.graph.csc import CSC
from hetjax.graph.names import Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError

FEATURE_TYPES = tuple(
    map(np.dtype, ("float32", "float16", "int8", "uint8", "int16", "uint16", "bool"))
)  # exact in float32


def whole_numbers(values: Any, place: str, kinds: str = "iu") -> np.ndarray:
    """Return an array of whole numbers, of the kinds of dtype given; an empty one may be of any.

    Raises:
      InputError: the dtype is another.
    """
    values = np.asarray(values)
    if values.size and values.dtype.kind not in kinds:
        hint = ": give the ids where it is true (numpy.flatnonzero)" if values.dtype == bool else ""
        raise InputError(f"{place}: {values.dtype}, and there should be integers{hint}")
    return values.astype(values.dtype.newbyteorder("="), copy=False)  # numba takes no other


def sorted_ids(ids: np.ndarray) -> np.ndarray:
    """Return the ids in rising order; the array itself if they are sorted."""
    return ids if (ids[1:] >= ids[:-1]).all() else np.sort(ids)


def check_ids(ids: np.ndarray, count: int, place: str, node_type: str) -> None:
    """Raise an InputError naming the first id outside `0..count - 1`."""
    if len(ids) and (ids.min() < 0 or ids.max() >= count):
        position = int(np.argmax((ids < 0) | (ids >= count)))
        raise InputError(f"{place} {position} is node {int(ids[position])}, but type {node_type!r} has {count} nodes")


def check_csc(csc: CSC, relation: Relation, schema: Schema, where: str = "graph") -> None:
    """Raise an InputError for the first pointer, source id or weight of a relation that is wrong."""
    targets = schema.nodes[relation.target]
    held = int(csc.indptr[-1]) if len(csc.indptr) else 0
    held = csc.piece.edges(held) if csc.piece else held
    if csc.indptr.shape != (targets + 1,) or csc.indptr[0] != 0 or held != csc.edges:
        ends = f"{csc.indptr[0]}..{csc.indptr[-1]}" if len(csc.indptr) else "nothing"
        raise InputError(
            f"{where}: relation {relation}: pointers {ends} of {len(csc.indptr)} != 0..{csc.edges} of {targets + 1}"
        )
    falls = csc.indptr[1:] < csc.indptr[:-1]
    if falls.any():
        raise InputError(f"{where}: relation {relation}: pointers fall after target {int(np.argmax(falls))}")
    check_ids(
        csc.indices, schema.nodes[relation.source], f"{where}: relation {relation}: source of edge", relation.source
    )
    if csc.weights is not None:
        place = f"{where}: relation {relation}"
        if csc.weights.dtype != np.float32 or csc.weights.shape != csc.indices.shape:
            found = f"{csc.weights.dtype} {csc.weights.shape}"
            raise InputError(f"{place}: weights are {found} != float32 {csc.indices.shape} of the edges")
        csc_format.check_weights(csc.weights, place)


def check_features(matrix: np.ndarray, node_type: str, schema: Schema, names: Names, where: str) -> None:
    """Raise an InputError for features of no type, of another shape or dtype, or with a value that is not finite."""
    if node_type not in schema.nodes:
        raise InputError(
            f"{where}: features of {node_type!r}, which is not among the node types {sorted(schema.nodes)}"
        )
    count = schema.nodes[node_type]
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise InputError(
            f"{where}: features of type {node_type!r} have shape {matrix.shape}, and should have [nodes, width], of a width of 1 or more"
        )
    if len(matrix) != count:
        raise InputError(f"{where}: feature rows {len(matrix)} != {count} nodes of type {node_type!r}")
    if matrix.dtype not in FEATURE_TYPES:
        raise InputError(
            f"{where}: features of type {node_type!r} are {matrix.dtype}, and may be {', '.join(map(str, FEATURE_TYPES))}"
        )
    rows = max(1, 2**24 // matrix.shape[1])
    for start in range(0, count, rows):
        finite = np.isfinite(matrix[start : start + rows])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            value = matrix[start + row, column]
            raise InputError(
                f"{where}: feature {column} of {node_type!r} {names.node(node_type, start + row)} is {value}, not a finite number"
            )
