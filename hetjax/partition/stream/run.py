"""A method over a stream: degrees, what it learns, and the partition of every edge; pass by pass, with a bar."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from tqdm import tqdm

from hetjax.graph.schema import MOST_NODES
from hetjax.partition.stream.partitioner import Graph, Options, Partitioner
from hetjax.partition.stream.source import EdgeStream
from hetjax.partition.stream.state import AHEAD, hashed, part_dtype
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.system.prefetch import prefetch

FIRST_NODES = 2**16  # that degrees are counted of, before more are seen
SPARSE = 64  # nodes by edges from which on ids are taken for none, as each node costs memory


class Streamed(NamedTuple):
    """The result of dividing a stream.

    Attributes:
      method: as it was left; `loads` and `replicas` are of the edges as they were placed, each once.
      owners: the partition that trains a node, of `state.part_dtype`, `[nodes]`.
      nodes, edges: of the stream.
      passes: how often the stream was read.
      seconds: that took, with what lies between the passes.
    """

    method: Partitioner
    owners: np.ndarray
    nodes: int
    edges: int
    passes: int
    seconds: float


def partition_stream(
    stream: EdgeStream,
    kind: type[Partitioner],
    options: Options,
    nodes: int = 0,
    file: Path | None = None,
    parts: Callable[[int, int], int] | None = None,
) -> Streamed:
    """Divide a stream of edges.

    Args:
      stream: is read several times, always in the same order.
      kind: the method.
      options: what it is told.
      nodes: how many there are; 0: as the stream says, or as many as its highest id asks for.
      file: a `.npy` to write the partition of every edge to, in the order of the stream; None: it is not kept.
      parts: the number of partitions by the numbers of nodes and edges, in place of that of the options.

    Raises:
      InputError: an edge that is none, an id out of range, no edges, or fewer nodes than partitions.
    """
    started, passes = time.perf_counter(), len(kind.learns) + 1
    nodes, read = nodes or stream.nodes or 0, Reader(stream)
    if nodes and kind.estimated(options) and parts is None:
        graph = Graph(nodes)
    else:
        graph, passes = _survey(read, nodes), passes + 1
    if parts is not None:
        assert graph.edges is not None
        options = replace_parts(options, parts(graph.nodes, graph.edges))
    if graph.nodes < options.parts:
        raise InputError(f"{stream.name}: {graph.nodes} nodes, and there are to be {options.parts} partitions")
    method = kind(graph, options)
    for function, words in zip(
        method.learn(), kind.learns, strict=True
    ):  # the generator first, which ends after its last pass
        read.all(words, graph.nodes, function)
    with _sink(file, part_dtype(options.parts)) as write:

        def place(pairs: np.ndarray) -> None:
            out = np.empty(len(pairs), part_dtype(options.parts))
            method.place(pairs, out)
            _check(out, method, pairs)
            write(out)

        read.all("placing", graph.nodes, place)
    owners = _owners(method)
    return Streamed(method, owners, graph.nodes, read.edges, passes, time.perf_counter() - started)


def replace_parts(options: Options, parts: int) -> Options:
    return Options(**{**vars(options), "parts": parts})


class Reader:
    """Reader of a stream that is read several times. It shows how far it is, and compares each pass with those before.

    Attributes:
      edges: of a pass; 0 before the first is done.
    """

    def __init__(self, stream: EdgeStream):
        self.stream, self.edges = stream, 0

    def all(self, words: str, nodes: int, function: Callable[[np.ndarray], None]) -> None:
        """Call a function with all edges of the stream, chunk by chunk: int32 `[edges, 2]`."""
        total, seen = self.edges or self.stream.edges, 0
        with tqdm(total=total, desc=words, unit=" edges", unit_scale=True, leave=False, disable=None) as bar:
            for pairs, done in self.stream.chunks(nodes):
                if _outside(pairs, nodes):
                    raise InputError(
                        f"{self.stream.name}: ids outside 0..{nodes - 1}; did it change while it was read?"
                    )
                function(pairs)
                seen += len(pairs)
                if total is None and done:
                    bar.total = round(seen / done)
                bar.update(len(pairs))
        if not seen:
            raise InputError(f"{self.stream.name}: no edges")
        if self.edges and seen != self.edges:
            raise InputError(
                f"{self.stream.name}: {seen} edges != {self.edges} before; did it change while it was read?"
            )
        self.edges = seen


def _survey(read: Reader, nodes: int) -> Graph:
    """Count nodes, edges and degrees."""
    degrees = np.zeros(nodes or FIRST_NODES, np.uint32)
    highest = 0

    def count(pairs: np.ndarray) -> None:
        nonlocal degrees, highest
        if not nodes:
            highest = max(highest, int(pairs.max()))
            if highest >= len(degrees):
                more = np.zeros(min(MOST_NODES, max(highest + 1, 2 * len(degrees))), np.uint32)
                more[: len(degrees)] = degrees
                degrees = more
        _count(pairs, degrees)

    read.all("degrees", nodes or MOST_NODES, count)
    found = nodes or highest + 1
    if not nodes and found > SPARSE * read.edges + FIRST_NODES:
        words = f"{read.stream.name}: node {highest} among {read.edges} edges"
        raise InputError(f"{words}, and ids should begin at 0 and leave few out; --nodes allows it")
    return Graph(found, read.edges, degrees[:found].copy() if found < len(degrees) else degrees)


@contextmanager
def _sink(file: Path | None, dtype: np.dtype) -> Iterator[Callable[[np.ndarray], None]]:
    """Yield a function that appends to the array of a new `.npy`, whose length is known only at the end."""
    if file is None:
        yield lambda values: None
        return
    with open(file, "xb") as stream:
        count = 0

        def write(values: np.ndarray) -> None:
            nonlocal count
            stream.write(values.data)
            count += len(values)

        write_header(stream, dtype, (0,))
        yield write
        stream.seek(0)
        write_header(stream, dtype, (count,))


def write_header(stream: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Write the header of a `.npy`; numpy leaves room in it, so that the first number may grow."""
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(stream, header)


def _check(out: np.ndarray, method: Partitioner, pairs: np.ndarray) -> None:
    """Raise an InputError where a method of a user's own places an edge nowhere."""
    if out.max() >= method.options.parts:
        edge = int(np.argmax(out >= method.options.parts))
        raise InputError(
            f"method {method.name}: edge {pairs[edge].tolist()} goes to {out[edge]}, outside 0..{method.options.parts - 1}"
        )


def _owners(method: Partitioner) -> np.ndarray:
    """Return which partition trains each node: as a method that divides the nodes says; else one of those that have it, at random.

    A node without edges goes to any partition (CATGNN, section 3.2: "we randomly select one of them").
    """
    if method.owners is not None:
        return method.owners
    owners = np.empty(method.graph.nodes, part_dtype(method.options.parts))
    _choose(method.replicas, method.options.parts, method.options.seed, owners)
    return owners


@compiled
def _count(pairs, degrees):
    last = len(pairs) - 1
    for edge in range(len(pairs)):
        soon = min(edge + AHEAD, last)
        prefetch(degrees, pairs[soon, 0])
        prefetch(degrees, pairs[soon, 1])
        degrees[pairs[edge, 0]] += 1
        degrees[pairs[edge, 1]] += 1


@compiled
def _outside(pairs, nodes):
    count = 0
    for edge in range(len(pairs)):
        count += not (0 <= pairs[edge, 0] < nodes and 0 <= pairs[edge, 1] < nodes)
    return count


@compiled
def _choose(replicas, parts, seed, owners):
    having = np.empty(parts, np.int64)
    for node in range(len(owners)):
        count = 0
        for part in range(parts):
            if (replicas[node, part >> 6] >> np.uint64(part & 63)) & np.uint64(1):
                having[count] = part
                count += 1
        draw = hashed(node, seed)
        owners[node] = having[draw % count] if count else draw % parts
