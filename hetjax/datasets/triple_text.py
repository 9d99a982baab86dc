"""Files of triples and of lists of items: their lines as names of heads, relations and tails."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hetjax.datasets import packed
from hetjax.datasets.text import blocks, shown
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

INTERACTS = "interacts"  # the relation of lists


class Triples(NamedTuple):
    """The lines of a file.

    Attributes:
      file: where they are from.
      heads, relations, tails: their names, one for each triple.
      lines: the line number of each triple.
    """

    file: Path
    heads: list[str]
    relations: list[str]
    tails: list[str]
    lines: list[int]


def read(file: Path, form: str) -> Triples:
    """Read a file, packed if its name ends in `.gz`; cells are separated by tabs or, in a line without any, by blanks.

    Args:
      form: `triples`, or `lists`: a line has a user and any number of items.

    Raises:
      InputError: it cannot be read, or a line has another number of cells, or an empty one.
    """
    heads, relations, tails, numbers = [], [], [], []
    with reading(file), open_regular(file) as raw:
        stream = raw if file.suffix != ".gz" else packed.Checked(gzip.GzipFile(fileobj=raw), file.stat().st_size)
        for line, cells in _cells(stream, file):
            if form == "triples":
                if len(cells) != 3:
                    hint = "; triples.form lists reads lines of a user and items" if line == 1 else ""
                    raise InputError(f"{file}: line {line}: {len(cells)} cells != 3, head, relation and tail{hint}")
                found = [tuple(cells)]
            else:
                found = [(cells[0], INTERACTS, item) for item in cells[1:]]
            for head, relation, tail in found:
                heads.append(head)
                relations.append(relation)
                tails.append(tail)
                numbers.append(line)
    return Triples(file, heads, relations, tails, numbers)


def _cells(stream: packed.Readable, file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line number, cells)` of every line that is not blank."""
    for first, block in blocks(stream, file):
        for line, row in enumerate(block.split(b"\n"), start=first):
            with reading(f"{file}: line {line}"):
                text = row.decode("utf-8").strip(" \r")
            if text.strip():
                cells = text.split("\t") if "\t" in text else text.split()
                if "" in cells:
                    raise InputError(f"{file}: line {line}: cell {cells.index('') + 1} of {shown(text)} is empty")
                yield line, cells
