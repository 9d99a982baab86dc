"""Preparation of a graph's features before anything else sees them, so that every way of training sees the same."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Scaling

AT_ONCE = 2**22  # numbers
CACHED = 2**18  # numbers that stay in a processor's cache from one operation on them to the next
LARGEST = 2**32  # bytes of features that are normalised, as float32
LARGE = 30  # mean size of features that a rate of 0.01 is too high for
WIDE = 16  # columns from which on zeros tell of what kind the numbers are


def kinds_of(graph: HetGraph) -> dict[str, str]:
    """Return the kind of values that the features of each type are; empty if all together are too large to be normalised."""
    return {} if _large(graph) else {t: kind_of(matrix) for t, matrix in graph.features.items()}


def needed(graph: HetGraph, kinds: Mapping[str, str]) -> tuple[Scaling, str]:
    """Return the value of `data.normalize_features` for a graph, and the reason.

    Args:
      kinds: what `kinds_of` gives of it.
    """
    if _large(graph):
        return "none", f"features of more than {LARGEST:,} bytes are read where they are"
    if (all(kind == "binary" for kind in kinds.values()) and len(graph.schema.nodes) > 1) or not kinds:
        return "none", "all features are 0 and 1" if kinds else "there are no features"
    words = {
        "binary": "0 and 1, " + ("and stay" if len(graph.schema.nodes) > 1 else "rows divided by their sums"),
        "counts": "counts, rows divided by their sums",
        "sparse": "mostly zeros, divided by the mean size of the others",
        "numbers": "numbers of any size: columns are scaled to mean 0 and standard deviation 1",
    }
    return "auto", "; ".join(f"of {t}: {words[kind]}" for t, kind in kinds.items())


def _large(graph: HetGraph) -> bool:
    return 4 * sum(matrix.size for matrix in graph.features.values()) > LARGEST


def unscaled(graph: HetGraph) -> str:
    """Return a sentence on features that are large, judged by their first rows; empty if none are."""
    sizes = {
        t: mean_size(matrix[: max(1, AT_ONCE // matrix.shape[1])])
        for t, matrix in graph.features.items()
        if isinstance(matrix, np.ndarray) and matrix.shape[1]
    }
    name = max(sizes, key=lambda t: sizes[t], default="")
    if not name or sizes[name] < LARGE:
        return ""
    return f"features of {name} are {sizes[name]:,.0f} in the mean; --data.normalize_features auto brings them to the size of 1"


def kind_of(matrix: np.ndarray) -> str:
    """Return the kind of some values. `binary`: 0 and 1; `counts`: none below 0, and most of them 0 or all whole;
    `sparse`: most of them 0; `numbers`: any others.

    Most of few columns may be 0 where a category was made of some: those tell nothing of the others.
    """
    least, one, whole, zeros = 0.0, True, True, 0
    for start in range(0, len(matrix), rows := max(1, CACHED // matrix.shape[1])):
        part = matrix[start : start + rows]
        others = int(np.count_nonzero(part))
        zeros += part.size - others
        if np.count_nonzero(part == 1) < others:
            one, least = False, min(least, float(part.min()))
            whole = whole and (part.dtype.kind in "biu" or bool((part == np.floor(part)).all()))
    if one:
        return "binary"
    few = zeros > matrix.size / 2 and matrix.shape[1] >= WIDE
    return "counts" if least >= 0 and (whole or few) else "sparse" if few else "numbers"


def normalised(
    graph: HetGraph, like: HetGraph | None = None, kinds: Mapping[str, str] | None = None, columns: bool = False
) -> HetGraph:
    """Return the graph with the features of every type scaled to the size of 1, by the kind of their values; float32.

    Counts, and of a graph of one type 0 and 1 too: every row divided by its sum. Zeros mostly: all divided by the mean size of the others.
    Numbers of any size: every column to mean 0 and standard deviation 1. Zeros and ones of several types are left as they are.

    Args:
      like: the graph that means and deviations are of; this one, unless it is another that a trained model predicts.
      columns: whether values of every kind are treated as numbers of any size.
      kinds: what `kinds_of` gives of that graph, if it is known.
    """
    like, changed = like or graph, dict[str, np.ndarray]()
    for name in graph.features:
        matrix = graph.features[name]
        kind = "numbers" if columns else kinds[name] if kinds else kind_of(like.features[name])
        if kind == "numbers":
            changed[name] = _by_rows(matrix, _standard(like.features[name]))
        elif kind == "sparse":
            changed[name] = _by_rows(matrix, partial(np.multiply, 1 / mean_size(like.features[name])))
        elif kind == "counts" or len(graph.schema.nodes) == 1:
            changed[name] = _by_rows(matrix, _shares)
    return replace(graph, features={**graph.features, **changed})


def _by_rows(matrix: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    result = np.empty(matrix.shape, np.float32)
    for start in range(0, len(matrix), rows := max(1, CACHED // matrix.shape[1])):
        result[start : start + rows] = change(matrix[start : start + rows].astype(np.float64))
    return result


def _shares(rows: np.ndarray) -> np.ndarray:
    sums = rows.sum(axis=1, keepdims=True)
    return rows * np.where(sums == 0, 0, 1 / np.where(sums == 0, 1, sums))


def mean_size(matrix: np.ndarray) -> float:
    """Return the mean of the absolute values that are not zero."""
    total, count = 0.0, 0
    for start in range(0, len(matrix), rows := max(1, AT_ONCE // matrix.shape[1])):
        part = np.abs(matrix[start : start + rows].astype(np.float64))
        total, count = total + float(part.sum()), count + int(np.count_nonzero(part))
    return total / max(1, count)


def _standard(matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    total, squares = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
    shift = matrix[:1].astype(np.float64)  # so that squares of large numbers that hardly differ keep their digits
    for start in range(0, len(matrix), rows := max(1, AT_ONCE // matrix.shape[1])):
        part = matrix[start : start + rows].astype(np.float64) - shift
        total += part.sum(axis=0)
        squares += (part**2).sum(axis=0)
    count = max(1, len(matrix))
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    scale = np.where(deviation > 1e-12 * np.abs(mean), 1 / np.where(deviation > 0, deviation, 1), 0)
    return lambda rows: (rows - shift - mean) * scale
