"""Columns of labels that a user names by `TYPE.NAME` or `RELATION.NAME`: attributes of an object's nodes or edges."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column, as_dense
from hetjax.casts.splits import MASKS, from_masks, from_words
from hetjax.graph.columns import Column, column_type
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.objects import back
from hetjax.objects.columns import full_name
from hetjax.system.errors import InputError, nearest, short
from hetjax.system.logs import log


class Named(NamedTuple):
    """A column of labels by its name.

    Attributes:
      full: `TYPE.NAME`, or `RELATION.NAME` with the relation's key.
      owner: the node type, or the key of the relation.
      relation: whose edges have the attribute; None: a type's nodes have it.
      attribute: the name alone.
    """

    full: str
    owner: str
    relation: Relation | None
    attribute: str


def named_columns(labels: Iterable[str] | str, types: Collection[str], relations: Collection[Relation]) -> list[Named]:
    """Return the columns that a user names, in their order.

    Raises:
      InputError: a name of no type and no relation, or one that is there twice.
    """
    named: list[Named] = []
    for name in [labels] if isinstance(labels, str) else labels:
        full, relation = full_name(name, types, relations)
        if relation is None and column_type(full) not in types:
            known = [*types, *(r.key for r in relations)]
            raise InputError(
                f"labels {short(repr(name), 80)}: no node type and no relation{nearest(str(name), known)}; should be TYPE.NAME or RELATION.NAME"
            )
        owner = column_type(full)
        if full in [one.full for one in named]:
            raise InputError(f"labels {short(repr(name), 80)}: {full!r} is there twice")
        named.append(Named(full, owner, relation, full.removeprefix(f"{owner}.")))
    return named


def attribute_of(one: Named, data: Mapping[str, Any]) -> Any:
    """Return the values of a column among the attributes of its nodes or edges.

    Raises:
      InputError: there is no such attribute.
    """
    if one.attribute not in data:
        where = f"relation {one.relation}" if one.relation else f"nodes of type {one.owner!r}"
        raise InputError(f"{where}: no {one.attribute!r}, which labels name{nearest(one.attribute, list(data))}")
    return data[one.attribute]


def own_splits(attribute: str, data: Mapping[str, Any], place: str) -> dict[str, np.ndarray] | None:
    """Return a mask `[rows]` per split of a column that has splits of its own, in `NAME_split` or `NAME_train_mask` ...; None if it has none."""
    words, masks = f"{attribute}_split", {f"{attribute}_{key}": key for key in MASKS}
    if words in data:
        return from_words(as_column(data[words], f"{place}: {words}"), f"{place}: {words}")
    found = {key: as_column(data[name], f"{place}: {name}") for name, key in masks.items() if name in data}
    return from_masks(found, place) if found else None


def split_names(attribute: str) -> set[str]:
    """Return the names of what may hold the splits of a column."""
    return {f"{attribute}_split", *(f"{attribute}_{key}" for key in MASKS)}


def other_columns(graph: HetGraph, owner: str | Relation) -> dict[str, Column]:
    """Return the columns of a type or a relation, but for the graph's own, by their names without the type or relation."""
    key = owner.key if isinstance(owner, Relation) else owner
    is_pairs = isinstance(owner, Relation)
    chosen = {n: c for n, c in graph.columns.items() if column_type(n) == key and (c.ends is not None) == is_pairs}
    return {name.removeprefix(f"{key}."): column for name, column in chosen.items()}


def split_words(column: Column) -> np.ndarray:
    """Return the split of each row, None where it has none: objects `[rows]`."""
    words = np.full(len(column.labels), None, object)
    for name, rows in column.splits.items():
        words[rows] = name
    return words


def as_numbers(
    numbers: bool | Collection[str], given: Mapping[str, Any], marked: Collection[str] = ()
) -> bool | frozenset[str]:
    """Return which columns are numbers to predict, not classes: those that the user says or that are marked, and floats with fractions, which a line says.

    Args:
      numbers: as of `hetjax.from_arrays`.
      given: the columns by their names, of pairs `(sources, targets, labels)`.
    """
    if isinstance(numbers, bool | np.bool_) and numbers:
        return True
    asked = [numbers] if isinstance(numbers, str) else [] if isinstance(numbers, bool | np.bool_) else numbers
    found = {*asked, *marked}
    for name, column in given.items():
        values = column[2] if type(column) is tuple else column
        if name in found or values is None or not hasattr(values, "shape"):
            continue
        array = as_dense(values, f"labels {name!r}")
        one = array.dtype.kind == "f" and (array.ndim == 1 or array.shape[1:] == (1,))
        if one and bool((array != np.floor(array))[np.isfinite(array)].any()):
            found.add(name)
            log.warning("labels %r: floats with fractions are numbers to predict, not classes", name)
    return frozenset(found)


def masks_of(column: Column) -> dict[str, np.ndarray]:
    """Return masks, bool `[rows]` per split, by the names that PyG and DGL give masks."""
    masks = {}
    for split, key in back.MASKS.items():
        masks[key] = np.zeros(len(column.labels), bool)
        masks[key][column.splits[split]] = True
    return masks
