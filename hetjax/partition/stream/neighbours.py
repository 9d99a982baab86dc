"""Full neighbourhoods: after the nodes have owners, the stream again, and every edge to the partitions that need it.

CATGNN, section 3.2: a partition has all neighbours of the nodes that it trains. With `hops` k it has those of all nodes within k - 1
edges of these, so that a model of k layers computes in it what it computes in the whole graph.
"""

from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from hetjax.partition.stream.run import Reader, write_header
from hetjax.partition.stream.state import AHEAD, ONE, mark, no_replicas, touch
from hetjax.system import durable
from hetjax.system.compiled import compiled

PAIRS, PAIR_BYTES = np.dtype(np.int32), 8
AT_ONCE = 2**22  # ids that are renumbered together


class Full(NamedTuple):
    """The size of partitions with full neighbours.

    Attributes:
      nodes: which partitions have a node, as `state.replicas` says it.
      edges: of every partition, int64 `[parts]`.
      cut: edges whose ends two partitions train.
    """

    nodes: np.ndarray
    edges: np.ndarray
    cut: int


def full_neighbours(
    read: Reader, owners: np.ndarray, parts: int, hops: int = 1, directed: bool = False, folder: Path | None = None
) -> Full:
    """Collect full neighbourhoods of `hops` hops, by as many passes over a stream.

    Args:
      read: the stream.
      owners: the partition of every node, `[nodes]`.
      directed: a node's neighbours are the sources of the edges into it; else either end's is the other.
      folder: what every partition has is written there, into `part_0` and so on; None: it is counted alone. `nodes.npy` is
        int32, the ids of its nodes, rising; `own.npy` bool, whether it trains them; `edges.npy` int32 `[edges, 2]`, in the order
        of the stream, the places of both ends among its nodes.
    """
    inner = no_replicas(len(owners), parts)  # nodes all of whose neighbours are there
    _own(owners, inner)
    for hop in range(1, hops):
        outer = inner.copy()
        read.all(f"neighbours, hop {hop}", len(owners), partial(_widen, inner=inner, outer=outer, directed=directed))
        inner = outer
    outer, counts, cut = inner.copy(), np.zeros(parts, np.int64), 0
    files = [] if folder is None else [_new_part(folder, part) for part in range(parts)]

    def last(pairs: np.ndarray) -> None:
        nonlocal cut
        _widen(pairs, inner, outer, directed)
        of_chunk = np.zeros(parts, np.int64)
        cut += _count(pairs, inner, directed, owners, of_chunk)[0]
        counts[:] += of_chunk
        if files:
            _append(pairs, inner, directed, of_chunk, files)

    read.all(f"neighbours, hop {hops}", len(owners), last)
    _finish(files, counts, owners, outer)
    return Full(outer, counts, cut)


def _new_part(folder: Path, part: int) -> Path:
    """Make the file of a partition's edges, with a header, which is to be written again."""
    file = folder / f"part_{part}" / "edges.npy"
    file.parent.mkdir()
    with open(file, "xb") as stream:
        write_header(stream, PAIRS, (0, 2))
    return file


def _append(pairs: np.ndarray, inner: np.ndarray, directed: bool, counts: np.ndarray, files: list[Path]) -> None:
    """Append edges to the files of the partitions that need them."""
    ends = np.cumsum(counts)
    grouped = np.empty((int(ends[-1]), 2), np.int32)
    _split(pairs, inner, directed, ends - counts, grouped)
    for file, chunk in zip(files, np.split(grouped, ends[:-1])):
        if len(chunk):
            with open(file, "ab") as stream:  # closed again: a process may open fewer files than there are partitions
                stream.write(chunk.data)


def _finish(files: list[Path], counts: np.ndarray, owners: np.ndarray, outer: np.ndarray) -> None:
    """Write the nodes of every partition, and their places for the ids of its edges."""
    places = np.empty(len(owners) if files else 0, np.int32)
    for part, file in enumerate(files):
        nodes = nodes_of(outer, part)
        places[nodes] = np.arange(len(nodes), dtype=np.int32)
        durable.write_array(file.with_name("nodes.npy"), nodes)
        durable.write_array(file.with_name("own.npy"), owners[nodes] == part)
        with open(file, "r+b") as stream:
            write_header(stream, PAIRS, (int(counts[part]), 2))
            _renumber(stream, int(counts[part]), places)


def nodes_of(replicas: np.ndarray, part: int) -> np.ndarray:
    """Return the nodes that a partition has, rising, int32."""
    bits = replicas[:, part // 64] >> np.uint64(part % 64)
    return np.flatnonzero(bits & np.uint64(1)).astype(np.int32)


def _renumber(stream: BinaryIO, edges: int, places: np.ndarray) -> None:
    """Put places for ids in what follows the header of a file of pairs."""
    start = stream.tell()
    for first in range(0, edges, AT_ONCE):
        stream.seek(start + first * PAIR_BYTES)
        ids = np.frombuffer(stream.read(min(AT_ONCE, edges - first) * PAIR_BYTES), PAIRS)
        stream.seek(start + first * PAIR_BYTES)
        stream.write(places[ids].data)


@compiled
def _own(owners, inner):
    for node in range(len(owners)):
        mark(inner, node, owners[node])


@compiled
def _widen(pairs, inner, outer, directed):
    seen = np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, inner[:, 0]) ^ touch(pairs, edge, outer[:, 0])
        u, v = pairs[edge, 0], pairs[edge, 1]
        for word in range(inner.shape[1]):
            outer[u, word] |= inner[v, word]
            if not directed:
                outer[v, word] |= inner[u, word]
    return seen


@compiled
def _needing(inner, u, v, word, directed):
    """Return the partitions, 64 of them, that need an edge."""
    return inner[v, word] if directed else inner[u, word] | inner[v, word]


@compiled
def _count(pairs, inner, directed, owners, counts):
    """Add the edges that partitions need to `counts`; return how many are cut, and what `touch` saw."""
    cut, seen = 0, np.int64(0)
    for edge in range(len(pairs)):
        if edge % AHEAD == 0:
            seen ^= touch(pairs, edge, inner[:, 0]) ^ touch(pairs, edge, owners)
        u, v = pairs[edge, 0], pairs[edge, 1]
        cut += owners[u] != owners[v]
        for word in range(inner.shape[1]):
            bits, part = _needing(inner, u, v, word, directed), 64 * word
            while bits:
                counts[part] += np.int64(bits & ONE)
                bits, part = bits >> ONE, part + 1
    return cut, seen


@compiled
def _split(pairs, inner, directed, cursor, out):
    for edge in range(len(pairs)):
        for word in range(inner.shape[1]):
            bits, part = _needing(inner, pairs[edge, 0], pairs[edge, 1], word, directed), 64 * word
            while bits:
                if bits & ONE:
                    out[cursor[part]] = pairs[edge]
                    cursor[part] += 1
                bits, part = bits >> ONE, part + 1
