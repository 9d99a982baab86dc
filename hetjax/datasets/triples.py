"""Triples of a knowledge graph, and lists of the items of users: `train.txt`, `valid.txt` and `test.txt`.

FB15k-237, WN18RR and CoDEx come as triples, LightGCN's data sets as lists. The graph has the training triples as edges, and for each
relation a column of labelled pairs, `RELATION.link`, that holds the pairs of all three files and their splits: one class, which all
pairs have.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hetjax.casts.reverses import missing_reverses
from hetjax.datasets import triple_text
from hetjax.datasets.declared.triples import Options
from hetjax.datasets.entities import Entities, check_seen, entities, ids, typed
from hetjax.datasets.triple_text import Triples
from hetjax.graph.columns import SPLITS, UNLABELLED, Column
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError
from hetjax.system.logs import counted, log

FILES = {"train": ("train",), "validation": ("valid", "validation", "val", "dev"), "test": ("test",)}
ENDINGS = (".txt", ".txt.gz", ".tsv", ".tsv.gz")
ENTITY, USER, ITEM = "entity", "user", "item"  # node types
EMPTY = np.zeros((0, 2), np.int64)
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
    made = _entities(folder, list(splits.values()), options)
    check_seen(train, [one for one in splits.values() if one is not train], made, options.unseen)
    tables = {name: _table(one, made) for name, one in splits.items()}
    edges, columns = {}, {}
    for relation in dict.fromkeys(relation for table in tables.values() for relation in table):
        parts = {split: table.get(relation, EMPTY) for split, table in tables.items()}
        edges[relation] = parts["train"][:, 0], parts["train"][:, 1]
        columns[f"{relation.key}.{LINK}"] = _column(parts)
    if options.reverse:
        edges |= {back: edges[relation][::-1] for relation, back in missing_reverses(list(edges)).items()}
    nodes = {node_type: len(of_type) for node_type, of_type in made.numbers.items()}
    target = next(iter(edges)).target
    schema = Schema(nodes, tuple(edges), target, 1)
    names = Names({node_type: Ids(ids(list(of_type))) for node_type, of_type in made.numbers.items()})
    labels = np.full(nodes[target], UNLABELLED, np.int32)
    return build(schema, edges, {}, labels, {}, str(folder), names, columns=columns)


def _entities(folder: Path, files: list[Triples], options: Options) -> Entities:
    if options.form == "lists":
        return entities(files, lambda name: USER, lambda name: ITEM)
    of_name = typed(folder / options.types, files) if options.types else lambda name: ENTITY
    return entities(files, of_name, of_name)


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


def _table(triples: Triples, made: Entities) -> dict[Relation, np.ndarray]:
    """Return the distinct pairs of each relation in their order, int64 `[pairs, 2]`."""
    pairs: dict[Relation, dict[tuple[int, int], None]] = {}
    relations: dict[tuple[str, str, str], dict] = {}  # the same by the names, which is faster to find
    for head, name, tail in zip(triples.heads, triples.relations, triples.tails):
        key = made.head_type(head), name, made.tail_type(tail)
        if key not in relations:
            relations[key] = pairs[Relation(*key)] = {}
        relations[key][made.head(head), made.tail(tail)] = None
    left = len(triples.heads) - sum(map(len, pairs.values()))
    if left:
        log.info(
            f"{triples.file}: {counted(left, 'triple')} of {len(triples.heads):,} were there before, and are read once"
        )
    return {relation: np.array(list(found), np.int64) for relation, found in pairs.items()}


def _column(parts: Mapping[str, np.ndarray]) -> Column:
    """Return the pairs of a relation, those of training first, with their splits."""
    pairs = np.concatenate([parts[split] for split in SPLITS if split in parts])
    splits, start = {}, 0
    for split in SPLITS:
        stop = start + len(parts.get(split, ()))
        splits[split] = np.arange(start, stop)
        start = stop
    return Column(np.zeros(len(pairs), np.int32), splits, 1, ends=(pairs[:, 0], pairs[:, 1]))
