"""Streams of edges: text, arrays, relations of a store and standard input, some edges at a time, as often as is asked for."""

import glob
import gzip
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from hetjax.datasets import edge_text
from hetjax.datasets.packed import Readable
from hetjax.graph import npy, store
from hetjax.graph.checks import check_ids
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.homogeneous import offsets
from hetjax.graph.schema import MOST_NODES, no_node
from hetjax.graph.sizes import Sizes, sizes
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

AT_ONCE = 2**20  # edges
STANDARD_INPUT = "-"


class Chunk(NamedTuple):
    """Some edges.

    Attributes:
      pairs: int32 `[edges, 2]`, source and target.
      done: how much of the stream has been read with them, in 0..1.
    """

    pairs: np.ndarray
    done: float


class EdgeStream(ABC):
    """Edges in an order, which can be read several times.

    Attributes:
      name: what an error calls it.
      nodes: how many there are, if the stream says so.
      edges: how many there are, if that is known before they are read.
      graph_sizes: of a store the sizes of the graph; nodes of all types are numbered on, in the schema's order.
    """

    name: str
    nodes: int | None = None
    edges: int | None = None
    graph_sizes: Sizes | None = None

    @abstractmethod
    def chunks(self, nodes: int) -> Iterator[Chunk]:
        """Yield the edges from the beginning, some at a time.

        Args:
          nodes: ids may be 0..nodes - 1.

        Raises:
          InputError: what is read is no edge.
        """

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Release what the stream holds."""


class Text(EdgeStream):
    """Files of text, an edge a line, packed if a name ends in `.gz`; a third column, a weight, is not used."""

    def __init__(self, files: Sequence[Path]):
        self.files, self.name = files, ", ".join(map(str, files))

    def chunks(self, nodes: int) -> Iterator[Chunk]:
        sizes, before = [os.stat(file).st_size for file in self.files], 0
        for file, size in zip(self.files, sizes):
            with reading(file), open_regular(file) as raw:
                # what comes out of a packed file is not bounded, as it is never kept
                packed = gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw
                for pairs in _of_text(packed, nodes, str(file)):
                    yield Chunk(pairs, (before + raw.tell()) / max(1, sum(sizes)))
            before += size


class Arrays(EdgeStream):
    """Files `.npy` of integers `[edges, 2]`, which are read and not mapped: a mapped file would count as memory."""

    def __init__(self, files: Sequence[Path]):
        self.files, self.name = files, ", ".join(map(str, files))
        self.headers = [_header(file) for file in files]
        self.edges = sum(header.shape[0] for header in self.headers)

    def chunks(self, nodes: int) -> Iterator[Chunk]:
        before, total = 0, sum(header.shape[0] for header in self.headers)
        for file, header in zip(self.files, self.headers):
            with reading(file), open_regular(file) as stream:
                stream.seek(header.start)
                for first in range(0, header.shape[0], AT_ONCE):
                    count = min(AT_ONCE, header.shape[0] - first)
                    pairs = _as_pairs(_read(stream, header.dtype, count, str(file)), nodes, first, str(file))
                    yield Chunk(pairs, (before + first + count) / total)
            before += header.shape[0]


class Held(EdgeStream):
    """Edges in memory: integers `[edges, 2]`."""

    def __init__(self, pairs: np.ndarray, nodes: int | None = None, name: str = "edges"):
        self.pairs, self.nodes, self.edges, self.name = pairs, nodes, len(pairs), name

    def chunks(self, nodes: int) -> Iterator[Chunk]:
        for first in range(0, len(self.pairs), AT_ONCE):
            pairs = self.pairs[first : first + AT_ONCE]
            yield Chunk(_as_pairs(pairs, nodes, first, self.name), (first + len(pairs)) / len(self.pairs))


class Relations(EdgeStream):
    """The relations of a graph that is open, one after the other, each sorted by target, with ids made global."""

    def __init__(self, graph: HetGraph, name: str = "graph"):
        schema, start = graph.schema, offsets(graph.schema.nodes)
        self.name, self.graph_sizes = name, sizes(graph)
        self.parts = [(csc, start[r.source], start[r.target]) for r, csc in graph.relations.items()]
        self.sources = [(r.source, schema.nodes[r.source]) for r in graph.relations]
        self.nodes = sum(schema.nodes.values())
        self.edges = sum(csc.edges for csc, _, _ in self.parts)

    def chunks(self, nodes: int) -> Iterator[Chunk]:
        before, total = 0, sum(csc.edges for csc, _, _ in self.parts)
        for (node_type, rows), (csc, source, target) in zip(self.sources, self.parts):
            for first in range(0, csc.edges, AT_ONCE):
                count = min(AT_ONCE, csc.edges - first)
                place = f"{self.name}: source of edge"
                check_ids(csc.indices[first : first + count], rows, place, node_type)
                pairs = _of_relation(csc, first, count, self.name)
                yield Chunk(pairs + np.array([source, target], np.int32), (before + first + len(pairs)) / total)
            before += csc.edges


class Stored(Relations):
    """The relations of a store; some, or all."""

    def __init__(self, path: str | Path, relations: Sequence[str] = ()):
        graph_sizes = store.describe(path)
        by_name = {str(relation): relation for relation in graph_sizes.schema.relations}
        chosen = [_relation(name, by_name, path) for name in relations] or list(graph_sizes.schema.relations)
        super().__init__(store.open(path, chosen, ()), str(path))
        self.graph_sizes = graph_sizes


class Spooled(EdgeStream):
    """Standard input, kept as numbers in a file without a name, so that it can be read again; the file goes with the process.

    Args:
      stream: the text.
      folder: where the file lies; 8 bytes an edge.
    """

    def __init__(self, stream: Readable, folder: Path):
        self.name = "standard input"
        self.file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as the stream)
        count = 0
        with reading(self.name):
            for pairs in _of_text(stream, MOST_NODES, self.name):
                self.file.write(pairs.data)
                count += len(pairs)
        self.edges = self.count = count

    def chunks(self, nodes: int) -> Iterator[Chunk]:
        self.file.seek(0)
        for first in range(0, self.count, AT_ONCE):
            count = min(AT_ONCE, self.count - first)
            pairs = _read(self.file, np.dtype(np.int32), count, self.name)
            yield Chunk(_as_pairs(pairs, nodes, first, self.name), (first + count) / self.count)

    def close(self) -> None:
        self.file.close()


def open_stream(given: str, relations: Sequence[str] = (), spool: Path = Path()) -> EdgeStream:
    """Open the stream that a command line names.

    Args:
      given: a file of text, perhaps packed (`.gz`); a `.npy`; a store; several files of one kind, as a pattern with `*`; or
        `-`, standard input.
      relations: of a store, as `source -name-> target` or by their names alone; none: all.
      spool: where standard input is kept while it is needed.

    Raises:
      InputError: there is no such file, or it is of another kind.
    """
    if relations and not Path(given, store.SCHEMA).exists():
        raise InputError(f"relations is {list(relations)}, and {given} is no store")
    if given == STANDARD_INPUT:
        return Spooled(sys.stdin.buffer, spool)
    if Path(given).is_dir():
        return Stored(given, relations)
    files = [Path(given)] if os.path.lexists(given) else [Path(file) for file in sorted(glob.glob(given))]
    if not files:
        raise InputError(f"{given}: No such file")
    kinds = {file.suffix == ".npy" for file in files}
    if len(kinds) > 1:
        raise InputError(f"{given}: some of {len(files)} files end in .npy, and all should, or none")
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: is no regular file")
    return Arrays(files) if kinds == {True} else Text(files)


def _of_text(stream: Readable, nodes: int, place: str) -> Iterator[np.ndarray]:
    for edges in edge_text.parsed(stream, nodes, place, ended=True):
        yield np.stack([edges.source, edges.target], axis=1)


def _header(file: Path) -> npy.Header:
    with reading(file), open_regular(file) as stream:
        found = npy.header(stream.read(npy.LONGEST_HEADER), file.stat().st_size, str(file))
    if len(found.shape) != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu" or found.fortran:
        order = " in Fortran's order" if found.fortran else ""
        raise InputError(f"{file}: {found.dtype} {found.shape}{order}, and should be integers (edges, 2)")
    return found


def _read(stream: BinaryIO, dtype: np.dtype, edges: int, place: str) -> np.ndarray:
    pairs = np.empty((edges, 2), dtype)
    if stream.readinto(pairs.data.cast("B")) != pairs.nbytes:  # type: ignore[attr-defined]
        raise InputError(f"{place}: ends before its last edge; did it change while it was read?")
    return pairs


def _as_pairs(pairs: np.ndarray, nodes: int, before: int, place: str) -> np.ndarray:
    """Return integers as int32 pairs, all of which are ids."""
    low, high = pairs.min(initial=0), pairs.max(initial=0)
    if low < 0 or high >= nodes:
        edge, side = np.argwhere((pairs < 0) | (pairs >= nodes))[0]
        raise InputError(f"{place}: edge {before + edge}: {no_node(pairs[edge, side], nodes)}")
    return np.ascontiguousarray(pairs, np.int32)


def _relation(name: str, by_name: dict, path: str | Path):
    found = [relation for text, relation in by_name.items() if name in (text, relation.name)]
    if len(found) != 1:
        raise InputError(f"{path}: {len(found)} relations are {name!r}, of {', '.join(by_name)}")
    return found[0]


def _of_relation(csc: CSC, first: int, count: int, place: str) -> np.ndarray:
    """Return edges of a relation from one on, as pairs of its own ids."""
    pairs = np.empty((count, 2), np.int32)
    pairs[:, 0] = csc.indices[first : first + count]
    target = int(np.searchsorted(csc.indptr, first, side="right")) - 1
    if _put_targets(csc.indptr, target, first, pairs) < count:
        raise InputError(f"{place}: pointers that end before the edges do")
    return pairs


@compiled
def _put_targets(indptr, target, first, pairs):
    """Write the target of every edge, and return the number of edges that have one."""
    for edge in range(len(pairs)):
        while target + 1 < len(indptr) and indptr[target + 1] <= first + edge:
            target += 1
        if target + 1 >= len(indptr):
            return edge
        pairs[edge, 1] = target
    return len(pairs)
