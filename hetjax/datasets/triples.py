"""Triples of a knowledge graph, and lists of the items of users: `train.txt`, `valid.txt` and `test.txt`.

FB15k-237, WN18RR and CoDEx come as triples, LightGCN's data sets as lists. The graph has the training triples as edges, and for each
relation a column of labelled pairs, `RELATION.link`, that holds the pairs of all three files and their splits: one class, which all
pairs have.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hetjax.casts.reverses import missing_reverses
from hetjax.datasets import triple_text
from hetjax.datasets.declared.triples import Options
from hetjax.datasets.text import LONGEST_CELL, whole
from hetjax.datasets.triple_text import Triples
from hetjax.graph.columns import SPLITS, UNLABELLED, Column
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError, short
from hetjax.system.logs import counted, log

FILES = {"train": ("train",), "validation": ("valid", "validation", "val", "dev"), "test": ("test",)}
ENDINGS = (".txt", ".txt.gz", ".tsv", ".tsv.gz")
TYPES = {"triples": ("entity", "entity"), "lists": ("user", "item")}
LINK = "link"  # the name of a relation's column


def read(folder: str | Path, options: Options | None = None) -> HetGraph:
    """Read a graph.

    Nodes whose names are whole numbers are in their order, others in that of the files. A triple that a file has several times is read
    once.

    Args:
      folder: holds `train`, and perhaps `valid` and `test`, with one of `ENDINGS`.
      options: what is made of them.

    Raises:
      InputError: a file that is missing or unreadable, a malformed line, a relation or, if asked for, an entity that training does not
        have.
    """
    folder, options = Path(folder), options or Options()
    splits = {name: triple_text.read(file, options.form) for name, file in _files(folder).items()}
    train = splits["train"]
    if not train.heads:
        raise InputError(f"{train.file}: no triple, and so nothing to train on")
    head_type, tail_type = TYPES[options.form]
    numbers = _numbered(splits, head_type, tail_type)
    _check_seen(splits, head_type, tail_type, options.unseen)
    relations = {name: Relation(head_type, name, tail_type) for name in dict.fromkeys(train.relations)}
    places = {name: place for place, name in enumerate(relations)}
    tables = {name: _table(one, numbers, places, head_type, tail_type) for name, one in splits.items()}
    edges, columns = {}, {}
    for name, relation in relations.items():
        parts = {split: table[table[:, 1] == places[name]] for split, table in tables.items()}
        edges[relation] = parts["train"][:, 0], parts["train"][:, 2]
        columns[f"{relation.key}.{LINK}"] = _column(parts)
    if options.reverse:
        edges |= {back: edges[relation][::-1] for relation, back in missing_reverses(list(edges)).items()}
    nodes = {node_type: len(of_type) for node_type, of_type in numbers.items()}
    schema = Schema(nodes, tuple(edges), tail_type, 1)
    names = Names({node_type: Ids(_ids(list(of_type))) for node_type, of_type in numbers.items()})
    labels = np.full(nodes[tail_type], UNLABELLED, np.int32)
    return build(schema, edges, {}, labels, {}, str(folder), names, columns=columns)


def _files(folder: Path) -> dict[str, Path]:
    """Return the file of each split that is there; that of training is."""
    found = {}
    for split, stems in FILES.items():
        files = [folder / f"{stem}{ending}" for stem in stems for ending in ENDINGS]
        there = [file for file in files if file.exists()]
        if len(there) > 1:
            raise InputError(f"{folder}: {there[0].name} and {there[1].name}, and there should be one file of {split}")
        if there:
            found[split] = there[0]
    if "train" not in found:
        raise InputError(f"{folder}: no train.txt; it should hold a file of triples, train{'|'.join(ENDINGS)}")
    return found


def _numbered(splits: Mapping[str, Triples], head_type: str, tail_type: str) -> dict[str, dict[str, int]]:
    """Return the number of every name, by node type."""
    names: dict[str, dict[str, None]] = {head_type: {}, tail_type: {}}
    for triples in splits.values():
        if head_type == tail_type:  # in the order in which they stand in the file
            for pair in zip(triples.heads, triples.tails):
                names[head_type].update(dict.fromkeys(pair))
        else:
            names[head_type].update(dict.fromkeys(triples.heads))
            names[tail_type].update(dict.fromkeys(triples.tails))
    return {
        node_type: {name: i for i, name in enumerate(_ordered(list(of_type)))} for node_type, of_type in names.items()
    }


def _ordered(names: list[str]) -> list[str]:
    return sorted(names, key=int) if _are_numbers(names) else names


def _ids(names: list[str]) -> Sequence[int] | Sequence[str]:
    return [int(name) for name in names] if _are_numbers(names) else names


def _are_numbers(names: list[str]) -> bool:
    """Return whether all names are whole numbers as Python writes them, within int64."""
    values = (whole(name) for name in names)
    return all(value is not None and str(value) == name and abs(value) < 2**63 for value, name in zip(values, names))


def _check_seen(splits: Mapping[str, Triples], head_type: str, tail_type: str, unseen: str) -> None:
    """Raise an InputError for a relation, or log or refuse entities, that training does not have."""
    train = splits["train"]
    relations = set(train.relations)
    seen = {head_type: set(train.heads)}
    seen[tail_type] = seen.get(tail_type, set()) | set(train.tails)
    for triples in list(splits.values())[1:]:
        missing: dict[str, None] = {}
        for head, relation, tail, line in zip(triples.heads, triples.relations, triples.tails, triples.lines):
            if relation not in relations:
                name = short(repr(relation), LONGEST_CELL)
                raise InputError(
                    f"{triples.file}: line {line}: relation {name} is not among the {len(relations)} of {train.file.name}"
                )
            for node_type, name in ((head_type, head), (tail_type, tail)):
                if name not in seen[node_type]:
                    missing[name] = None
                    if unseen == "refuse":
                        raise InputError(
                            f"{triples.file}: line {line}: {node_type} {short(repr(name), LONGEST_CELL)} is not among the {len(seen[node_type])} of {train.file.name}; triples.unseen keep makes it a node without edges"
                        )
        if missing:
            log.info(
                f"{triples.file}: {counted(len(missing), 'node')} that {train.file.name} does not have, without edges"
            )


def _table(
    triples: Triples,
    numbers: Mapping[str, Mapping[str, int]],
    places: Mapping[str, int],
    head_type: str,
    tail_type: str,
) -> np.ndarray:
    """Return the distinct triples of a file in their order, int64 `[triples, 3]`: head, relation, tail."""
    heads = [numbers[head_type][name] for name in triples.heads]
    tails = [numbers[tail_type][name] for name in triples.tails]
    table = np.array([heads, [places[name] for name in triples.relations], tails], np.int64).T
    first = np.sort(np.unique(table, axis=0, return_index=True)[1])
    if len(first) < len(table):
        log.info(
            f"{triples.file}: {counted(len(table) - len(first), 'triple')} of {len(table):,} were there before, and are read once"
        )
    return table[first]


def _column(parts: Mapping[str, np.ndarray]) -> Column:
    """Return the pairs of a relation, those of training first, with their splits."""
    pairs = np.concatenate([parts[split] for split in SPLITS if split in parts])
    splits, start = {}, 0
    for split in SPLITS:
        stop = start + len(parts.get(split, ()))
        splits[split] = np.arange(start, stop)
        start = stop
    return Column(np.zeros(len(pairs), np.int32), splits, 1, ends=(pairs[:, 0], pairs[:, 2]))
