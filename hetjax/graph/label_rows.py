"""The rows of a column of labels, as errors name them: nodes of a type, or labelled pairs of a relation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetjax.graph.checks import check_ids, whole_numbers
from hetjax.graph.names import Names
from hetjax.graph.schema import MOST_NODES, Relation
from hetjax.system.errors import InputError

Ends = tuple[np.ndarray, np.ndarray]  # source and target node ids


class Pairs(NamedTuple):
    """Pairs of nodes.

    Attributes:
      types: the types of their sources and of their targets.
      ends: the source and target node ids, int32 `[pairs]` each.
    """

    types: tuple[str, str]
    ends: Ends


@dataclass(frozen=True)
class NodeRows:
    """The nodes of a type, each of which has a label."""

    node_type: str
    count: int
    names: Names

    def __str__(self) -> str:
        return f"{self.count} nodes of type {self.node_type!r}"

    def row(self, number: int) -> str:
        """Return how an error names a row."""
        return f"{self.node_type!r} {self.names.node(self.node_type, number)}"

    def check(self, numbers: np.ndarray, place: str) -> None:
        """Raise an InputError naming the first number that is no row."""
        check_ids(numbers, self.count, place, self.node_type)


@dataclass(frozen=True)
class PairRows:
    """The pairs of a source and a target node of a relation, each of which has a label."""

    relation: Relation
    ends: Ends
    names: Names

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.ends[0])

    def __str__(self) -> str:
        return f"{self.count} labelled pairs of relation {self.relation}"

    def row(self, number: int) -> str:
        """Return how an error names a row."""
        types = self.relation.source, self.relation.target
        nodes = (f"{t!r} {self.names.node(t, ids[number])}" for t, ids in zip(types, self.ends))
        return f"pair {number} ({' to '.join(nodes)})"

    def check(self, numbers: np.ndarray, place: str) -> None:
        """Raise an InputError naming the first number that is no row."""
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.count):
            position = int(np.argmax((numbers < 0) | (numbers >= self.count)))
            raise InputError(f"{place} {position} is row {int(numbers[position])}, but there are {self}")


def checked_ends(ends: Ends, relation: Relation, nodes: Mapping[str, int], place: str) -> Ends:
    """Return the ends of labelled pairs as int32 `[pairs]` each, once they are checked.

    Args:
      ends: source and target node ids, of any whole numbers.
      nodes: number of nodes per type.

    Raises:
      InputError: an end is no node, or the two differ in length.
    """
    if len(ends) != 2:
        raise InputError(f"{place}: {len(ends)} arrays of ends, and there should be source and target ids")
    arrays = []
    for side, ids, node_type in zip(("source", "target"), ends, (relation.source, relation.target)):
        array = whole_numbers(ids, f"{place}: {side} ids")
        if array.ndim != 1 or len(array) > MOST_NODES:
            raise InputError(f"{place}: {side} ids of shape {array.shape}, and there should be at most {MOST_NODES:,}")
        check_ids(array, nodes[node_type], f"{place}: {side} of pair", node_type)  # before int32 wraps a wrong one
        arrays.append(np.asarray(array, np.int32))
    source, target = arrays
    if len(source) != len(target):
        raise InputError(f"{place}: {len(source)} source ids != {len(target)} target ids")
    return source, target
