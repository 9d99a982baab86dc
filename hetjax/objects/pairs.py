"""Labelled pairs of nodes of a relation, as users give them: frames, dictionaries of columns, or tuples."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.column import as_column, columns_of
from hetjax.casts.edges import Ends, as_ends
from hetjax.casts.splits import MASKS, from_masks, from_words
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, short

LABELS, SPLIT = ("labels", "label"), "split"


class GivenPairs(NamedTuple):
    """A column of labelled pairs as it is given.

    Attributes:
      ends: of the pairs, numbers or ids; without weights.
      labels: what they are labelled with; None: the pairs alone, which are all of one class.
      splits: a mask `[pairs]` per split, of a column of the frame; None where there is none.
    """

    ends: Ends
    labels: Any
    splits: Mapping[str, np.ndarray] | None


def as_pairs(given: Any, relation: Relation, name: str) -> GivenPairs:
    """Return labelled pairs.

    Args:
      given: a frame or a dictionary with columns of ends, as `hetjax.from_arrays` takes edges, one of labels (`labels`, `label`, or the
        name of the column), and `split` or masks if any; or a tuple of sources, targets and labels; or pairs alone.
      relation: whose pairs they are.
      name: of the column, `RELATION.NAME`.

    Raises:
      InputError: they are no such pairs.
    """
    place = f"labels {name!r}"
    if (columns := columns_of(given)) is not None:
        return _from_frame(given, columns, relation, name)
    if isinstance(given, tuple) and len(given) == 3:
        return GivenPairs(as_ends(given[:2], relation, place), given[2], None)
    ends = as_ends(given, relation, place)
    if ends.weights is not None:
        raise InputError(f"{place}: pairs with a third value: give (sources, targets, labels), or a frame")
    return GivenPairs(ends, None, None)


def _from_frame(given: Any, columns: list[Any], relation: Relation, name: str) -> GivenPairs:
    place, label = f"labels {name!r}", name.rpartition(".")[2]
    named = [column for column in dict.fromkeys((label, *LABELS)) if column in columns]
    if len(named) > 1:
        raise InputError(f"{place}: columns {' and '.join(map(repr, named))} may both be the labels: leave one")
    masks = {key: given[key] for key in MASKS if key in columns}
    if masks and SPLIT in columns:
        raise InputError(f"{place}: columns {short(', '.join((SPLIT, *masks)))} are all of splits: leave one kind")
    others = [column for column in columns if column not in (*named, SPLIT, *masks)]
    ends = as_ends({column: given[column] for column in others}, relation, place)
    splits = None
    if masks:
        splits = from_masks({key: as_column(mask, f"{place}: column {key!r}") for key, mask in masks.items()}, place)
    elif SPLIT in columns:
        splits = from_words(as_column(given[SPLIT], place), f"{place}: column {SPLIT!r}")
    return GivenPairs(ends._replace(weights=None), given[named[0]] if named else None, splits)
