"""The text form of the Heterogeneous Graph Benchmark (Lv et al., KDD 2021), from a folder or its zip.

`node.dat`: id, name, type and, optionally, comma-separated features. `link.dat`: source, target, relation, weight.
`label.dat` and `label.dat.test`: id, name, type, class or comma-separated classes; where any line has several, every node
of the target type may. `info.dat`: JSON with the names of types and relations, and of classes if it has them. Columns are
separated by tabs. Weights are not read: in the benchmark's graphs all are 1, and R-GCN knows none. The ids that are kept
are those of `node.dat`: several nodes may have one name.
"""

import io
import itertools
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hetjax.datasets import packed
from hetjax.datasets.splits import hold_out
from hetjax.datasets.text import blocks, integer, numbers, opened, plain, rows, rows_of, shown, whole
from hetjax.graph.columns import LABEL_NAME, UNLABELLED, Column
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError, reading, reason
from hetjax.system.files import check_regular

LONGEST_JSON = 2**26  # bytes


def read(path: str | Path, validation_fraction: float = 0.2, split_seed: int = 0) -> HetGraph:
    """Read a graph of the benchmark.

    Args:
      path: a folder, or a zip, that holds the five files, or a folder that holds one zip. Of link prediction `link.dat.test` is there in
        place of labels, or beside them.
      validation_fraction: share of `label.dat` that is held out for validation; the benchmark's protocol takes 0.2.
      split_seed: decides which nodes.

    Raises:
      InputError: an unreadable file, a malformed line, an edge to a node that does not exist.
    """
    folder = _open(Path(path))
    type_names, links, info = _read_info(folder)
    node_type, features = _read_nodes(folder / "node.dat", type_names)
    counts = np.bincount(node_type, minlength=len(type_names))
    local = np.empty(len(node_type), np.int64)  # a node's number within its type
    for number in range(len(type_names)):
        local[node_type == number] = np.arange(counts[number])
    edges = _read_links(folder / "link.dat", links, type_names, node_type, local)
    columns = _link_columns(folder, links, type_names, node_type, local, edges, (validation_fraction, split_seed))
    if columns and not (folder / "label.dat").exists():  # of the benchmark's link prediction
        (first, *_) = (relation.target for relation in edges if f"{relation.key}.{LABEL_NAME}" in columns)
        target = type_names.index(first)
        labels, splits, count = np.full(counts[target], UNLABELLED, np.int32), {}, 1
    else:
        training, train_classes, target = _read_labels(folder / "label.dat", node_type)
        test, test_classes, _ = _read_labels(folder / "label.dat.test", node_type, target)
        classes = [*train_classes, *test_classes]
        labels = _label_array(counts[target], local[np.concatenate([training, test])], classes)
        train, validation = hold_out(local[training], validation_fraction, split_seed)
        splits = {"train": train, "validation": validation, "test": local[test]}
        count = 1 + max(map(max, classes))
    schema = Schema(
        {name: int(counts[number]) for number, name in enumerate(type_names)},
        tuple(edges),
        type_names[target],
        count,
    )
    ids = {name: Ids(np.flatnonzero(node_type == number)) for number, name in enumerate(type_names)}
    names = Names(ids, _class_names(info, target, schema.classes))
    matrices = {type_names[number]: matrix for number, matrix in features.items()}
    return build(schema, edges, matrices, labels, splits, str(path), names, columns=columns)


def _link_columns(
    folder, links, type_names, node_type: np.ndarray, local: np.ndarray, edges: dict, held_out: tuple[float, int]
) -> dict[str, Column]:
    """Return the links to predict of each relation that `link.dat.test` has, as columns of one class; none where there is no such file.

    Links of `link.dat` train and validate; those of `link.dat.test`, which are no edges of the graph, test.
    """
    file, columns = folder / "link.dat.test", {}
    if not file.exists():
        return {}
    for relation, test in _read_links(file, links, type_names, node_type, local).items():
        if not len(test[0]):
            continue
        source, target = (np.concatenate(ends) for ends in zip(edges[relation], test))
        known = len(edges[relation][0])
        train, validation = hold_out(np.arange(known), *held_out)
        splits = {"train": train, "validation": validation, "test": np.arange(known, len(source))}
        labels = np.zeros(len(source), np.int32)
        columns[f"{relation.key}.{LABEL_NAME}"] = Column(labels, splits, 1, None, relation, (source, target))
    if not columns:
        raise InputError(f"{file}: no links, and there should be 1 or more")
    return columns


def _open(path: Path):
    """Return the folder, or the zip as if it were one."""
    if path.is_dir() and not (path / "node.dat").exists():
        archives = sorted(path.glob("*.zip"))
        if len(archives) == 1:
            path = archives[0]
    if path.is_dir():
        return path
    with reading(path):
        check_regular(path)
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
        times = Counter(names)
        for member in archive.infolist():
            with reading(f"{path}: {member.filename}"):
                packed.check(member.compress_size, member.file_size)
            if times[member.filename] > 1:
                raise InputError(f"{path}: {times[member.filename]} members are named {member.filename}")
    places = [name for name in names if name.split("/")[-1] == "node.dat"]
    if len(places) != 1:
        raise InputError(f"{path}: {len(places)} members are named node.dat, and there should be 1")
    return zipfile.Path(archive, places[0][: -len("node.dat")])


def _read_info(folder) -> tuple[list[str], list[tuple[str, int, int]], dict]:
    """Return the names of the node types, `(name, source type, target type)` of every relation, and all that the file says."""
    file = folder / "info.dat"
    try:
        with opened(file) as stream:
            text = stream.read(LONGEST_JSON + 1)
        if len(text) > LONGEST_JSON:
            raise ValueError(f"over {LONGEST_JSON} bytes")
        info = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
        names = info["node.dat"]["node type"]
        links = info["link.dat"]["link type"]
        type_names = [_name(names[str(number)]) for number in range(len(names))]
        relations = [links[str(number)] for number in range(len(links))]
        links = [(_name(link["meaning"]), _end(link["start"]), _end(link["end"])) for link in relations]
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{file}: {reason(error)}; is this the benchmark's text form?") from error
    for entries, what in ((type_names, "node types"), (links, "relations")):
        if len(set(entries)) != len(entries):
            raise InputError(f"{file}: {len(entries)} {what}, of which {len(set(entries))} have names of their own")
    for name, *ends in links:
        for end in ends:
            if not 0 <= end < len(type_names):
                raise InputError(f"{file}: relation {name}: node type {shown(end)}, and there are {len(type_names)}")
    return type_names, links, info


def _class_names(info: dict, target: int, classes: int) -> Ids | None:
    """Return the names of the target type's classes, where the file has a distinct one for each; nothing else depends on them."""
    try:
        given = info["label.dat"]["node type"][str(target)]
        names = [given[str(number)] for number in range(classes)]
    except (KeyError, TypeError):
        return None
    return Ids(names) if all(isinstance(name, str) for name in names) and len(set(names)) == classes else None


def _unique(pairs: list[tuple[str, object]]) -> dict:
    """Return a JSON object, which has every key once."""
    members = dict(pairs)
    if len(members) < len(pairs):
        key, times = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {shown(key)} is given {times} times")
    return members


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name is {shown(value)}, and should be text")
    return value


def _end(value: object) -> int:
    """Return the node type at an end of a relation, given as a number or as its digits."""
    number = whole(value) if isinstance(value, str) else value
    if type(number) is not int:
        raise ValueError(f"a relation's start or end is {shown(value)}, and should be an integer")
    return number


def _read_nodes(file, type_names: list[str]) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Return the type of every node, and the features of every type whose nodes have them."""
    types: list[int] = []
    matrices: dict[int, list[np.ndarray]] = {}
    bare: set[int] = set()
    for line, cells in rows(file, (3, 4)):
        node = integer(cells[0], file, line, "node id", 2**31)
        if node != len(types):
            raise InputError(f"{file}: line {line}: node id {node} != {len(types)}, the next one")
        kind = integer(cells[2], file, line, "node type", len(type_names))
        types.append(kind)
        if len(cells) == 3 or not cells[3]:
            bare.add(kind)
        else:
            values = numbers(cells[3], file, line)
            vectors = matrices.setdefault(kind, [])
            if vectors and len(values) != len(vectors[0]):
                raise InputError(
                    f"{file}: line {line}: {len(values)} features != {len(vectors[0])} of the nodes of type {kind} before"
                )
            if not np.isfinite(values).all():
                column = int(np.argmin(np.isfinite(values)))
                raise InputError(f"{file}: line {line}: feature {column} is {values[column]}, not a finite number")
            vectors.append(values)
    for kind in bare & matrices.keys():
        total = types.count(kind)
        raise InputError(f"{file}: feature rows {len(matrices[kind])} != {total} nodes of type {type_names[kind]!r}")
    return np.array(types, np.int64), {kind: np.stack(vectors) for kind, vectors in matrices.items()}


def _read_links(
    file, links, type_names, node_type: np.ndarray, local: np.ndarray
) -> dict[Relation, tuple[np.ndarray, np.ndarray]]:
    ends_of = np.array([ends for _, *ends in links], np.int64).reshape(-1, 2)
    found = [np.zeros((0, 3), np.int64)]
    with reading(f"{file}"), opened(file) as stream:
        for line, block in blocks(stream, f"{file}"):
            table = plain(block)
            if table is None or not _fit(table, ends_of, node_type):
                table = np.array(list(_links(file, line, block, links, type_names, node_type)), np.int64).reshape(-1, 3)
            found.append(table)
    every = np.concatenate(found)
    edges = {}
    for kind, (name, source, target) in enumerate(links):
        ids = local[every[every[:, 2] == kind, :2]]
        edges[Relation(type_names[source], name, type_names[target])] = (ids[:, 0], ids[:, 1])
    return edges


def _fit(table: np.ndarray, ends_of: np.ndarray, node_type: np.ndarray) -> bool:
    """Tell whether all rows `(source, target, relation)` are of nodes and relations that there are, and of their types."""
    if (table[:, 2] >= len(ends_of)).any() or (table[:, :2] >= len(node_type)).any():
        return False
    return bool((node_type[table[:, :2]] == ends_of[table[:, 2]]).all())


def _links(file, first: int, block: bytes, links, type_names, node_type: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield rows `(source, target, relation)` of lines, read one by one."""
    for line, cells in rows_of(io.BytesIO(block), file, (3, 4), first):
        kind = integer(cells[2], file, line, "relation", len(links))
        name, *ends = links[kind]
        source, target = (integer(cell, file, line, f"relation {name}: node", len(node_type)) for cell in cells[:2])
        for node, end in zip((source, target), ends):
            if node_type[node] != end:
                raise InputError(
                    f"{file}: line {line}: relation {name}: node {node} is of type {type_names[node_type[node]]!r} != {type_names[end]!r}"
                )
        yield source, target, kind


def _read_labels(file, node_type: np.ndarray, target: int | None = None) -> tuple[np.ndarray, list[list[int]], int]:
    """Return global node ids, the classes of each, and the type that they are of."""
    nodes, classes = [], []
    for line, cells in rows(file, (4,)):
        node = integer(cells[0], file, line, "node id", len(node_type))
        target = int(node_type[node]) if target is None else target
        if node_type[node] != target:
            raise InputError(
                f"{file}: line {line}: node {node} is of type {node_type[node]} != {target} of the labels before"
            )
        node_classes = [integer(cell, file, line, "class", 2**15) for cell in cells[3].split(",")]
        if len(set(node_classes)) != len(node_classes):
            values, times = np.unique(node_classes, return_counts=True)
            raise InputError(f"{file}: line {line}: class {values[times.argmax()]} is given {times.max()} times")
        nodes.append(node)
        classes.append(node_classes)
    if target is None:
        raise InputError(f"{file}: no labels")
    return np.array(nodes, np.int64), classes, target


def _label_array(count: int, nodes: np.ndarray, classes: list[list[int]]) -> np.ndarray:
    """Return labels as in `HetGraph`, of `count` nodes: a matrix if any of `nodes` has several of the `classes`."""
    numbers = [len(node_classes) for node_classes in classes]
    flat = np.array(list(itertools.chain.from_iterable(classes)), np.int32)
    if max(numbers) == 1:
        labels = np.full(count, UNLABELLED, np.int32)
        labels[nodes] = flat
    else:
        labels = np.full((count, flat.max() + 1), UNLABELLED, np.int8)
        labels[nodes] = 0
        labels[np.repeat(nodes, numbers), flat] = 1
    return labels
