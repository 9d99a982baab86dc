"""The ends and weights of edges, in the forms in which they are given."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hetjax.casts.column import as_dense, columns_of
from hetjax.casts.ids import node_numbers
from hetjax.casts.numbers import as_weights
from hetjax.casts.roles import edge_columns
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, short

SAY = "write (sources, targets) with two columns, or a list of pairs [(source, target), ...]"


class Ends(NamedTuple):
    """The ends of a relation's edges.

    Attributes:
      source, target: int64 `[edges]` of whole numbers, or a column of texts, large_string.
      weights: numbers `[edges]`; None where there are none.
    """

    source: np.ndarray | pa.Array
    target: np.ndarray | pa.Array
    weights: np.ndarray | None = None


def as_ends(given: Any, relation: Relation, place: str = "") -> Ends:
    """Return the ends of a relation's edges, and their weights if they have some.

    Args:
      given: a tuple of sources, targets and weights, if any; an array or tensor `[2, edges]` or `[edges, 2]`; a list of pairs, or
        of triples with weights; or a frame, whose columns are taken by their names.
      place: what an error begins with, if not with the relation.

    Raises:
      InputError: what is given can be read in several ways, or none.
    """
    if isinstance(given, Ends):
        return given
    place = place or f"relation {relation}"
    if (columns := columns_of(given)) is not None:
        chosen = edge_columns(columns, relation, place)
        parts = [given[name] for name in chosen if name is not None]
        return _ends(parts, [f"{place}: column {str(name)!r}" for name in chosen if name is not None])
    if hasattr(given, "toarray"):
        raise InputError(
            f"{place}: a sparse matrix {given.shape}: give its sources and targets, as (row, col) of tocoo()"
        )
    if isinstance(given, Iterator | set | frozenset):
        given = list(given)
    parts = _from_sequence(given, place) if isinstance(given, list | tuple) else _from_array(given, place)
    return _ends(parts, [f"{place}: {side}" for side in ("source", "target", "weight")])


def _ends(parts: Sequence[Any], places: Sequence[str]) -> Ends:
    source, target = (node_numbers(part, place) for part, place in zip(parts[:2], places))
    weights = as_weights(parts[2], places[2]) if len(parts) == 3 else None
    counts = [len(source), len(target), *([] if weights is None else [len(weights)])]
    if len(set(counts)) > 1:
        names = ("sources", "targets", "weights")
        raise InputError(f"{places[0]}: {' != '.join(f'{count} {name}' for count, name in zip(counts, names))}")
    return Ends(source, target, weights)


def _from_array(given: Any, place: str) -> list[Any]:
    array = as_dense(given, place)
    if array.ndim == 2 and 2 in array.shape:
        return list(array if len(array) == 2 else array.T)
    if array.ndim == 2 and not array.size:
        return [[], []]
    raise InputError(f"{place}: edges of shape {array.shape}, and there should be sources and targets, [2, edges]")


def _from_sequence(given: list | tuple, place: str) -> list[Any]:
    """Tell columns, pairs and triples apart; refuse what may be several of these."""
    if not given:
        return [[], []]
    rows = all(isinstance(one, list | tuple) for one in given)
    if not rows:
        pairs = all(tuple(getattr(one, "shape", ())) == (2,) for one in given)
        if pairs and isinstance(given, list) and len(given) == 3:
            raise InputError(f"{place}: 3 arrays of 2 may be columns, or 3 edges: {SAY}")
        if len(given) in (2, 3) and all(hasattr(one, "__len__") and not isinstance(one, str | bytes) for one in given):
            return list(given)
        if pairs:
            return list(np.array([as_dense(one, place) for one in given]).T)
        raise InputError(f"{place}: {len(given)} entries, such as {short(repr(given[0]), 80)}: {SAY}")
    lengths = {len(one) for one in given}
    tuples = all(isinstance(one, tuple) for one in given)
    if len(given) in (2, 3) and (lengths == {0} or (not tuples and isinstance(given, tuple))):
        return list(given)  # columns
    if lengths == {2}:
        return _pairs(given, tuples, place)
    if lengths == {3} and tuples and isinstance(given, list):
        return _triples(given, place)
    if len(given) in (2, 3):
        return list(given)
    raise InputError(f"{place}: {len(given)} entries of {short(str(sorted(lengths)), 80)} values: {SAY}")


def _pairs(given: list | tuple, tuples: bool, place: str) -> list[Any]:
    sure = tuples and isinstance(given, list)
    if not sure and len(given) in (2, 3):
        raise InputError(f"{place}: {short(repr(given), 80)} may be two columns, or {len(given)} edges: {SAY}")
    return [list(column) for column in zip(*given)]


def _triples(given: list[tuple], place: str) -> list[Any]:
    """Return edges with weights; two or three rows of whole numbers may as well be columns."""
    source, target, weights = (list(column) for column in zip(*given))
    sure = all(isinstance(value, float) for value in weights) and not any(isinstance(v, float) for v in source + target)
    if len(given) in (2, 3) and not sure:
        raise InputError(f"{place}: {short(repr(given), 80)} may be {len(given)} columns, or edges with weights: {SAY}")
    odd = next((one for one in weights if isinstance(one, bool) or not isinstance(one, int | float | np.number)), None)
    if odd is not None:
        raise InputError(
            f"{place}: {short(repr(odd), 80)} is {type(odd).__name__}, and the third value of an edge is its weight"
        )
    return [source, target, weights]
