"""The nodes of triples: their types, their numbers within a type, and the check that training has them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hetjax.datasets.text import LONGEST_CELL, rows, whole
from hetjax.datasets.triple_text import Triples
from hetjax.system.errors import InputError, short
from hetjax.system.logs import counted, log

TypeOf = Callable[[str], str]


class Entities(NamedTuple):
    """The nodes of some files.

    Attributes:
      head_type, tail_type: the node type of a name that is a head, and of one that is a tail.
      numbers: by node type the number of every name, from 0. Names that are all whole numbers are in their order, others in that of
        the files.
    """

    head_type: TypeOf
    tail_type: TypeOf
    numbers: Mapping[str, Mapping[str, int]]

    def head(self, name: str) -> int:
        """Return the number of a head."""
        return self.numbers[self.head_type(name)][name]

    def tail(self, name: str) -> int:
        """Return the number of a tail."""
        return self.numbers[self.tail_type(name)][name]


def entities(files: Sequence[Triples], head_type: TypeOf, tail_type: TypeOf) -> Entities:
    """Return the nodes of the triples of some files."""
    names: dict[str, dict[str, None]] = {}
    for triples in files:
        for head, tail in zip(triples.heads, triples.tails):
            names.setdefault(head_type(head), {})[head] = None
            names.setdefault(tail_type(tail), {})[tail] = None
    numbers = {
        node_type: {name: number for number, name in enumerate(_ordered(list(of_type)))}
        for node_type, of_type in names.items()
    }
    return Entities(head_type, tail_type, numbers)


def typed(file: Path, files: Sequence[Triples]) -> TypeOf:
    """Return the node type of every name, from a file whose lines have an entity and its type between tabs.

    Raises:
      InputError: the file has an entity twice, or not one of the triples'.
    """
    types: dict[str, str] = {}
    for line, (name, node_type) in rows(file, (2,)):
        if name in types:
            raise InputError(f"{file}: line {line}: {_shown(name)} was there before, of type {_shown(types[name])}")
        types[name] = node_type
    for triples in files:
        for head, tail, line in zip(triples.heads, triples.tails, triples.lines):
            for name in (head, tail):
                if name not in types:
                    raise InputError(
                        f"{triples.file}: line {line}: {_shown(name)} is not among the {len(types)} of {file.name}"
                    )
    return types.__getitem__


def check_seen(train: Triples, others: Sequence[Triples], made: Entities, unseen: str) -> None:
    """Raise an InputError for a relation that training does not have, and log the nodes; or raise one for these too.

    Args:
      unseen: `keep` or `refuse`.
    """
    relations = set(train.relations)
    seen = {(made.head_type(name), name) for name in train.heads} | {
        (made.tail_type(name), name) for name in train.tails
    }
    for triples in others:
        missing = set()
        for head, relation, tail, line in zip(triples.heads, triples.relations, triples.tails, triples.lines):
            place = f"{triples.file}: line {line}"
            if relation not in relations:
                raise InputError(
                    f"{place}: relation {_shown(relation)} is not among the {len(relations)} of {train.file.name}"
                )
            for node in ((made.head_type(head), head), (made.tail_type(tail), tail)):
                if node not in seen:
                    missing.add(node)
                    if unseen == "refuse":
                        count = sum(node_type == node[0] for node_type, _ in seen)
                        raise InputError(
                            f"{place}: {node[0]} {_shown(node[1])} is not among the {count} of {train.file.name}; triples.unseen keep makes it a node without edges"
                        )
        if missing:
            log.info(
                f"{triples.file}: {counted(len(missing), 'node')} that {train.file.name} does not have, without edges"
            )


def ids(names: Sequence[str]) -> Sequence[int] | Sequence[str]:
    """Return names as a graph keeps them: as integers, where all are."""
    return [int(name) for name in names] if _are_numbers(names) else names


def _ordered(names: list[str]) -> list[str]:
    return sorted(names, key=int) if _are_numbers(names) else names


def _are_numbers(names: Sequence[str]) -> bool:
    """Return whether all names are whole numbers as Python writes them, within int64."""
    values = (whole(name) for name in names)
    return all(value is not None and str(value) == name and abs(value) < 2**63 for value, name in zip(values, names))


def _shown(name: str) -> str:
    return short(repr(name), LONGEST_CELL)
