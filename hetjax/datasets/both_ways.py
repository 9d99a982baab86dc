"""Edges that are read when they are asked for, a relation at a time, and the reverse of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from hetjax.casts.reverses import missing_reverses
from hetjax.graph.schema import Relation

Ends = tuple[np.ndarray, np.ndarray]


class BothWays(Mapping[Relation, Ends]):
    """Source and target ids per relation, as `build` takes them.

    Args:
      relations: that can be read.
      read: gives the ends of one.
      reverse: whether there is the reverse of each too, next to it, where it is missing.
    """

    def __init__(self, relations: Sequence[Relation], read: Callable[[Relation], Ends], reverse: bool):
        added = missing_reverses(relations) if reverse else {}
        self.places: dict[Relation, tuple[Relation, bool]] = {}
        for relation in relations:
            self.places[relation] = relation, False
            if relation in added:
                self.places[added[relation]] = relation, True
        self.read = read

    def __getitem__(self, relation: Relation) -> Ends:
        stored, turned = self.places[relation]
        source, target = self.read(stored)
        return (target, source) if turned else (source, target)

    def __iter__(self) -> Iterator[Relation]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)
