"""Options of the reader triples."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """Triples: a folder with train.txt and, where there are some, valid.txt and test.txt."""

    form: Literal["triples", "lists"] = "triples"
    """triples: a line has head, relation and tail; lists: a line has a user and then items, as LightGCN's files have them"""
    types: str = ""
    """triples: a file of the folder whose lines have an entity and its node type between tabs; empty: all are of the type entity"""
    reverse: bool = True
    """add the reverse of every relation"""
    unseen: Literal["keep", "refuse"] = "keep"
    """entities that valid.txt or test.txt has and train.txt has not: nodes without edges, or an error that names the line"""
