"""Node numbers in the place of the ids that users give, and the number of nodes of each type."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hetjax.casts.edges import Ends
from hetjax.casts.ids import positions
from hetjax.graph.names import Ids
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log

SPARE, SPARSE = (
    2**24,
    64,
)  # node numbers that edges may have with no word about how many there are, and how many times the edges


class Pairs(NamedTuple):
    """Pairs of nodes of a relation: its edges, or labelled pairs.

    Attributes:
      place: what an error names.
      relation: whose nodes they are.
      ends: of the pairs.
    """

    place: str
    relation: Relation
    ends: Ends

    @property
    def sides(self) -> tuple[tuple[str, str, np.ndarray | pa.Array], ...]:
        """The name, the node type, and the ids or numbers of both sides."""
        source, target = (self.relation.source, self.ends.source), (self.relation.target, self.ends.target)
        return ("source", *source), ("target", *target)


def say_numbers(tables: list[Pairs], ids: Mapping[str, Ids]) -> None:
    """Say where whole numbers of edges are node numbers though the type has whole numbers as ids."""
    for table in tables:
        for side, node_type, values in table.sides:
            has_ids = isinstance(values, np.ndarray) and len(values) and node_type in ids
            if has_ids and str(ids[node_type].values.type) == "int64" and not is_plain(ids[node_type]):
                words = "whole numbers are node numbers from 0, not the ids of type"
                log.warning("%s: %s: %s %r", table.place, side, words, node_type)


def first_seen(tables: list[Pairs], kept: Mapping[str, Ids]) -> dict[str, Ids]:
    """Return the ids of the types that edges name by texts, and that have none given, in the order in which they are first named.

    Raises:
      InputError: other edges name nodes of such a type by numbers.
    """
    seen: dict[str, dict[str, None]] = {}
    for table in tables:
        for _, node_type, values in table.sides:
            if node_type not in kept and isinstance(values, pa.Array):
                seen.setdefault(node_type, {}).update(dict.fromkeys(values.unique().to_pylist()))
    for table in tables:
        for side, node_type, values in table.sides:
            if node_type in seen and isinstance(values, np.ndarray) and len(values):
                raise InputError(
                    f"{table.place}: {side}: whole numbers, and other edges name nodes of type {node_type!r} by texts: give its `ids`"
                )
    return {node_type: Ids(list(values)) for node_type, values in seen.items()}


def numbered(table: Pairs, ids: Mapping[str, Ids]) -> Pairs:
    """Return node numbers in the place of texts."""
    ends = {
        side: positions(values, ids.get(node_type), f"{table.place}: {side}")
        for side, node_type, values in table.sides
        if isinstance(values, pa.Array)
    }
    return table._replace(ends=table.ends._replace(**ends))


def node_counts(
    nodes: Mapping[str, Any],
    ids: Mapping[str, Ids],
    features: Mapping[str, Any],
    labels: Mapping[str, Any],
    tables: list[Pairs],
) -> dict[str, int]:
    """Return nodes per type: as given; or else as many as there are ids, rows of features or labels; or up to the last in an edge.

    Raises:
      InputError: a number of nodes is none, or one of an edge is far larger than the edges are many.
    """
    counts = {name: as_count(count, f"nodes of {name!r}") for name, count in nodes.items()}
    for source in (ids, features, labels):
        for name, rows in source.items():
            counts.setdefault(name, len(rows))
    largest: dict[str, int] = {}
    for table in tables:
        for side, node_type, values in table.sides:
            count = int(values.max(initial=-1)) + 1
            if node_type not in counts and count > SPARE + SPARSE * len(values):
                words = f"is over {SPARSE} times the {len(values)} edges: where these are ids of yours, give them as texts, or else `nodes`"
                raise InputError(f"{table.place}: {side}: node number {count - 1} {words}")
            largest[node_type] = max(largest.get(node_type, 0), count)
    return counts | {name: count for name, count in largest.items() if name not in counts}


def as_count(given: Any, place: str) -> int:
    """Return a number of nodes.

    Raises:
      InputError: it is none.
    """
    if hasattr(given, "item") and not getattr(given, "shape", (1,)):
        given = given.item()
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise InputError(f"{place}: {short(repr(given), 80)}, and should be a whole number from 0")
    return given


def is_plain(ids: Ids) -> bool:
    """Return whether ids are hetjax's own numbers."""
    values = ids.values
    return str(values.type) == "int64" and np.array_equal(values.to_numpy(zero_copy_only=False), np.arange(len(values)))
