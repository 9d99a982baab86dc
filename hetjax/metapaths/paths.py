"""Metapaths: sequences of relations that end at a target type."""

from typing import NamedTuple

from hetjax.errors import InputError
from hetjax.graph.schema import Relation, Schema

MOST_PATHS = 512


class Metapath(NamedTuple):
    """Relations that follow each other, the last hop first.

    Attributes:
      target: the type where it ends.
      relations: the first leads into `target`, every other one into the source of the one before; none: every node alone.
    """

    target: str
    relations: tuple[Relation, ...] = ()

    @property
    def source(self) -> str:
        """The type where it begins."""
        return self.relations[-1].source if self.relations else self.target

    def name(self, schema: Schema) -> str:
        """As `author<-paper<-venue`; where several relations join two types, each has its name too: `author<-[writes]-paper`."""
        text = self.target
        for relation in self.relations:
            alike = [r for r in schema.relations if (r.source, r.target) == (relation.source, relation.target)]
            text += f"<-{relation.source}" if len(alike) == 1 else f"<-[{relation.name}]-{relation.source}"
        return text


def metapaths(schema: Schema, hops: int, source: str | None = None) -> list[Metapath]:
    """All metapaths of at most `hops` relations into the target type, the shorter ones first.

    Args:
      source: the type where they begin; None: any.

    Raises:
      InputError: there are more than `MOST_PATHS`.
    """
    found = [Metapath(schema.target)]
    longest = found
    for hop in range(hops):
        longest = [Metapath(p.target, (*p.relations, r)) for p in longest for r in schema.into(p.source)]
        found = found + longest
        if len(found) > MOST_PATHS:
            raise InputError(
                f"there are {len(found):,} metapaths of up to {hop + 1} relations into {schema.target!r} > {MOST_PATHS}: give a smaller data.metapath_hops"
            )
    return [path for path in found if source in (None, path.source)]


def few(schema: Schema, hops: int) -> bool:
    """Whether `metapaths` gives all of at most `hops` relations."""
    try:
        metapaths(schema, hops)
    except InputError:
        return False
    return True
