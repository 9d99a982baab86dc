"""RDF: N-Triples and the split files of the R-GCN paper (Schlichtkrull et al. 2018, section 5.1).

Every predicate becomes a relation. Resources (IRIs and blank nodes) are one node type unless their classes are asked
for; literals are a node type of their own, one node per distinct literal. No node has features: a model learns them.
The ids that are kept are IRIs, blank nodes as `_:name`, and literals as N-Triples write them.
"""

import csv
import gzip
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyoxigraph

from hetjax.datasets import packed
from hetjax.datasets.splits import hold_out
from hetjax.graph.columns import UNLABELLED
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LONGEST_TERM = 2**24  # bytes, which pyoxigraph reads
RESOURCE, LITERAL, TARGET = "resource", "literal", "target"

Ends = tuple[np.ndarray, np.ndarray]  # the sources and the targets of edges


def read(
    folder: str | Path,
    reverse: bool = True,
    literals: str = "nodes",
    exclude: Sequence[str] = (),
    node_types: str = "one",
    validation_fraction: float = 0.2,
    split_seed: int = 0,
) -> HetGraph:
    """Read the `.nt` or `.nt.gz` file of a folder, with its `trainingSet.tsv` and `testSet.tsv`.

    Args:
      folder: holds exactly one file of triples and the two split files.
      reverse: add to every relation its reverse, as the paper does.
      literals: `nodes` or `drop`.
      exclude: predicates to leave out (a full IRI, or its local name), such as one that gives the label away.
      node_types: `one`: all resources are of type `resource`, as in the paper; `class`: the labelled resources are of type
        `target`, and any other of its `rdf:type` (the rarest, where it has several) or, without one, of type `resource`.
      validation_fraction: share of the training nodes that is held out for validation.
      split_seed: decides which.

    Raises:
      InputError: an unreadable file, a malformed triple or row, a labelled resource that no triple mentions.
    """
    folder = Path(folder)
    triples, subject_of = _read_triples(_find_triples(folder), literals, exclude)
    tables = {name: _read_split(folder / f"{name}Set.tsv") for name in ("training", "test")}
    if not tables["training"]:
        raise InputError(f"{folder / 'trainingSet.tsv'}: no row but the header, and so nothing to train on")
    types = _node_types(triples, subject_of, node_types, {subject for table in tables.values() for subject, _ in table})

    ids: dict[str, list[str]] = defaultdict(list)
    number = np.empty(len(types), np.int64)
    for position, (term, node_type) in enumerate(zip(subject_of, types)):
        number[position] = len(ids[node_type])
        ids[node_type].append(str(term))
    edges = _edges(triples, types, number)
    relations = {relation: (edge[:, 0], edge[:, 1]) for relation, edge in edges.items()}
    if reverse:
        relations |= _reverses(relations, folder)

    target = TARGET if node_types == "class" else RESOURCE
    classes = sorted({label for table in tables.values() for _, label in table})
    labels = np.full(len(ids[target]), UNLABELLED, np.int32)
    splits = {}
    for name, table in tables.items():
        rows = []
        for line, (subject, label) in enumerate(table, start=2):
            if subject not in subject_of:
                raise InputError(f"{folder / f'{name}Set.tsv'}: line {line}: no triple mentions <{subject}>")
            rows.append(number[subject_of[subject]])
            labels[rows[-1]] = classes.index(label)
        splits[name] = np.array(rows, np.int64)
    splits["train"], splits["validation"] = hold_out(splits.pop("training"), validation_fraction, split_seed)
    schema = Schema({name: len(members) for name, members in ids.items()}, tuple(relations), target, len(classes))
    names = Names({name: Ids(members) for name, members in ids.items()}, Ids(classes))
    return build(schema, relations, {}, labels, splits, str(folder), names)


def _reverses(relations: Mapping[Relation, Ends], folder: Path) -> dict[Relation, Ends]:
    turned = {relation.reverse: (target, source) for relation, (source, target) in relations.items()}
    for relation in relations.keys() & turned.keys():
        raise InputError(
            f"{folder}: the reverse of {relation.reverse} would be {relation}, which is there already; unset rdf.reverse"
        )
    return turned


def _find_triples(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder; it should hold a .nt or .nt.gz file, trainingSet.tsv and testSet.tsv"
        )
    files = sorted([*folder.glob("*.nt"), *folder.glob("*.nt.gz")])
    if len(files) != 1:
        raise InputError(f"{folder}: {len(files)} files end in .nt or .nt.gz, and there should be 1")
    return files[0]


def _read_triples(file: Path, literals: str, exclude: Sequence[str]):
    """Return distinct triples as `{predicate: [(subject, object), ...]}` over term numbers, and the number of every term."""
    number: dict = {}
    triples: dict[str, dict] = defaultdict(dict)
    with reading(file), open_regular(file) as raw:
        stream: packed.Readable = raw
        if file.suffix == ".gz":
            stream = packed.Checked(gzip.GzipFile(fileobj=raw), file.stat().st_size)
        try:
            for subject, predicate, value, _ in pyoxigraph.parse(
                cast(IO[bytes], stream), format=pyoxigraph.RdfFormat.N_TRIPLES
            ):
                if literals == "drop" and isinstance(value, pyoxigraph.Literal):
                    continue
                pair = (number.setdefault(_name(subject), len(number)), number.setdefault(_name(value), len(number)))
                triples[predicate.value][pair] = None
        except SyntaxError as error:
            raise InputError(f"{file}: line {error.lineno}: {error.msg}") from None
        except MemoryError:
            count = sum(map(len, triples.values()))
            raise InputError(f"{file}: after {count} distinct triples: a term over {LONGEST_TERM} bytes") from None
    names = _local_names(triples)
    for name in exclude:
        chosen = [iri for iri in triples if name in (iri, iri.replace("#", "/").rsplit("/", 1)[-1])]
        if not chosen:
            near = get_close_matches(name, [*names, *names.values()], 1)
            raise InputError(
                f"{file}: no predicate {name!r} to leave out" + (f"; the nearest is {near[0]!r}" if near else "")
            )
        for iri in chosen:
            del triples[iri]
    if not triples:
        left = " that is not left out" if exclude or literals == "drop" else ""
        raise InputError(f"{file}: no triple{left}, and so no relation")
    return {names[iri]: (iri, list(pairs)) for iri, pairs in triples.items()}, number


def _name(term) -> object:
    """Return the identity of a term: the IRI of a resource as a string, the term itself of a blank node or literal."""
    return term.value if isinstance(term, pyoxigraph.NamedNode) else term


def _local_names(predicates) -> dict[str, str]:
    """Return a short name per predicate IRI; the whole IRI where two would get the same."""
    short = {iri: iri.replace("#", "/").rsplit("/", 1)[-1] for iri in predicates}
    times = Counter(short.values())
    return {iri: name if name and times[name] == 1 else iri for iri, name in short.items()}


def _read_split(file: Path) -> list[tuple[str, str]]:
    """Return `(subject IRI, label)` per row; the label's column is the one whose name begins with `label`."""
    with reading(file), io.TextIOWrapper(open_regular(file), "utf-8", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t", strict=True)
        try:
            rows = list(reader)
        except csv.Error as error:
            raise InputError(
                f"{file}: line {reader.line_num}: a quote is not closed where its cell ends: {error}"
            ) from None
    header = rows[0] if rows else []
    label = [i for i, name in enumerate(header) if name.startswith("label")]
    subject = [i for i, name in enumerate(header) if name != "id" and not name.startswith("label")]
    if len(label) != 1 or len(subject) != 1:
        raise InputError(f"{file}: line 1: columns {header}, and there should be a subject, an id and a label_...")
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InputError(f"{file}: line {line}: {len(row)} columns != {len(header)} in the header")
        if not row[label[0]]:
            raise InputError(f"{file}: line {line}: no label")
    return [(row[subject[0]], row[label[0]]) for row in rows[1:]]


def _node_types(triples, number, node_types: str, labelled: set[str]) -> list[str]:
    """Return the node type of every term, in the order of their numbers."""
    types = [LITERAL if isinstance(term, pyoxigraph.Literal) else RESOURCE for term in number]
    if node_types == "one":
        return types
    terms = list(number)
    members: Iterable[tuple[int, int]] = next((pairs for iri, pairs in triples.values() if iri == RDF_TYPE), [])
    size: Counter[int] = Counter(value for _, value in members)
    names = {
        iri: iri if name in (RESOURCE, LITERAL, TARGET) else name
        for iri, name in _local_names([str(terms[value]) for value in size]).items()
    }
    for subject, value in sorted(members, key=lambda pair: (-size[pair[1]], pair[1])):
        types[subject] = names[str(terms[value])]  # the last to write is the rarest
    for subject in labelled & number.keys():
        types[number[subject]] = TARGET
    return types


def _edges(triples, types: list[str], number: np.ndarray) -> dict[Relation, np.ndarray]:
    """Return `[edges, 2]` source and target ids per relation; a predicate between several pairs of types gives several."""
    code = {name: i for i, name in enumerate(dict.fromkeys(types))}
    names, codes = list(code), np.array([code[name] for name in types])
    edges = {}
    for predicate, (_, pairs) in triples.items():
        pairs = np.array(pairs, np.int64).reshape(-1, 2)
        joined = codes[pairs]
        for source, target in np.unique(joined, axis=0):
            chosen = pairs[(joined == (source, target)).all(axis=1)]
            edges[Relation(names[source], predicate, names[target])] = number[chosen]
    return edges
