"""Roles of the columns of a table of edges, by their names."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log

PAIRS = (
    ("source", "target"),
    ("src", "dst"),
    ("source_id", "target_id"),
    ("source_id", "dest_id"),
    ("src_id", "dst_id"),
    ("from", "to"),
    ("head", "tail"),
    ("u", "v"),
)
WEIGHTS = ("weight", "weights", "edge_weight", "w")


class EdgeColumns(NamedTuple):
    """The columns of a table of edges, as they are named there; `weight`: None where edges have none."""

    source: Any
    target: Any
    weight: Any = None


def edge_columns(columns: Sequence[Any], relation: Relation, place: str) -> EdgeColumns:
    """Choose the columns of sources, targets and weights by their names, in any order and case.

    Two columns of other names are taken in their order, which a line says; so does one that names all columns left out.

    Raises:
      InputError: no pair of names is known, or several are there; or several columns of weights.
    """
    listed = short(", ".join(map(str, columns)), 200)
    named = {str(name).strip().lower(): name for name in columns}
    if len(named) < len(columns):
        raise InputError(f"{place}: columns {listed}: two of one name")
    pairs = [pair for pair in (*PAIRS, *_own(relation)) if pair[0] in named and pair[1] in named]
    pairs = list(dict.fromkeys(pairs))
    weights = [named[name] for name in WEIGHTS if name in named]
    if len(weights) > 1:
        raise InputError(f"{place}: columns {', '.join(map(str, weights))} may all be weights: leave one")
    if len(pairs) > 1:
        several = " and ".join(f"{named[one]}, {named[other]}" for one, other in pairs)
        raise InputError(f"{place}: columns {several} may all be ends of edges: leave one pair")
    if pairs:
        source, target = (named[name] for name in pairs[0])
    else:
        ends = [name for name in columns if name not in weights]
        if len(ends) != 2:
            raise InputError(
                f"{place}: columns {listed}, and none is known as source and target of edges: name these source and target"
            )
        source, target = ends
        log.warning("%s: column %r is taken as source and %r as target, by their order", place, source, target)
    chosen = EdgeColumns(source, target, weights[0] if weights else None)
    left = [str(name) for name in columns if not any(name is one for one in chosen if one is not None)]
    if left:
        log.warning("%s: columns that are no part of edges are left out: %s", place, ", ".join(left))
    return chosen


def _own(relation: Relation) -> list[tuple[str, str]]:
    """Return the names of columns that a relation's own types give."""
    source, target = relation.source.lower(), relation.target.lower()
    return [] if source == target else [(source, target), (f"{source}_id", f"{target}_id")]
