"""Relations by the texts that name them: `user-rates-item`, `rates`, and the other spellings that are in use."""

from collections.abc import Iterable

from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, short

JOINTS = ("-", ",", "___")  # of from_arrays, GraphStorm and arrays in files


def find_relation(text: str, relations: Iterable[Relation], place: str) -> Relation | None:
    """Return the relation that a text names; None if there is none.

    Args:
      text: its key (`user--rates--item`), its three names joined by `-`, `,` or `___`, `user -rates-> item`; or its own name,
        where no other relation has that.
      place: the beginning of an error.

    Raises:
      InputError: the text names several of them.
    """
    known = list(dict.fromkeys(relations))
    exact = [r for r in known if text in (r.key, str(r), *(joint.join(r) for joint in JOINTS))]
    found = exact or [r for r in known if text == r.name]
    if len(found) > 1:
        raise InputError(f"{place}: {short(repr(text))} may be {' or '.join(r.key for r in found)}: name one so")
    return found[0] if found else None
