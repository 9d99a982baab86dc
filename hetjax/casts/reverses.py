"""The rule that says which relations get a reverse."""

from collections.abc import Iterable

from hetjax.graph.schema import Relation

PREFIX = "rev_"


def missing_reverses(relations: Iterable[Relation]) -> dict[Relation, Relation]:
    """Return the reverse to add, by the relation it is made of, where it is not there already.

    The reverse of `(source, NAME, target)` is `(target, rev_NAME, source)`. A relation named `rev_NAME` is itself the reverse
    of `NAME`, and gets none where that is there.
    """
    given = dict.fromkeys(relations)
    return {r: r.reverse for r in given if r.reverse not in given and _origin(r) not in given}


def _origin(relation: Relation) -> Relation | None:
    """Return the relation that one named `rev_NAME` is the reverse of."""
    if not relation.name.startswith(PREFIX):
        return None
    return Relation(relation.target, relation.name.removeprefix(PREFIX), relation.source)
