"""Options of the reader triples."""

from dataclasses import dataclass, field
from typing import Any, Literal

from hetjax.options.check import require


def _new(default: Any) -> Any:
    """Return an option that no other section had before."""
    return field(default=default, metadata={"before": None})


@dataclass(frozen=True)
class Options:
    """Triples: a folder with train.txt and, where there are some, valid.txt and test.txt."""

    form: Literal["triples", "lists"] = _new("triples")
    """triples: a line has head, relation and tail; lists: a line has a user and then items, as LightGCN's files have them"""
    types: str = _new("")
    """triples: a file of the folder whose lines have an entity and its node type between tabs; empty: all are of the type entity"""
    reverse: bool = _new(True)
    """add the reverse of every relation"""
    unseen: Literal["keep", "refuse"] = _new("keep")
    """entities that valid.txt or test.txt has and train.txt has not: nodes without edges, or an error that names the line"""

    def __post_init__(self):
        wanted = "empty where triples.form is lists, which has the types user and item"
        require(self.form == "triples" or not self.types, "triples.types", self.types, wanted)
