"""slim: a stream into a limited in-memory graph, divided level by level; hetjax's own.

1. Degrees are counted.
2. A core of at most `core * nodes` edges is kept: all of nodes of degree up to a threshold, and of an edge between two nodes of higher
   degrees `d(u)` and `d(v)` with probability `threshold / min(d(u), d(v))`, by its hash. So every node keeps about as many edges, or
   all that it has; a graph that is small enough is kept whole.
3. The core is divided in memory (`multilevel`). A node weighs one, and its degree by the mean degree; no partition weighs more than
   `balance` times the mean. So nodes and edges count alike, and either may be off by more. Then nodes move where fewer replicas are
   needed for full neighbourhoods, not fewer cut edges, if a table of the neighbours by node and partition fits in `TABLE` bytes.
4. An edge within a partition stays there. Every other one goes by HDRF's score with counted degrees, to a partition of fewer than
   `balance` times the mean of the edges; a node counts as being where it is trained from the start.

What it takes from others: clustering before placing (2PS, Mayer et al. 2022; CATGNN), the low-degree edges in memory and a score that
knows of them (HEP, Mayer and Jacobsen, SIGMOD 2021), keeping some edges of every node (local sparsification, Satuluri et al., SIGMOD
2011), multilevel label propagation (Meyerhenke, Sanders and Schulz, SEA 2014), HDRF. The objective of step 3 is METIS's volume.
"""

from collections.abc import Iterator

import numpy as np

from hetjax.partition.stream.level import Level
from hetjax.partition.stream.methods.hdrf import best_part, weigh, weigh_again
from hetjax.partition.stream.multilevel import LARGE, divide
from hetjax.partition.stream.partitioner import Graph, Options, Partitioner, Pass
from hetjax.partition.stream.state import AHEAD, hashed, least, mark, part_dtype, put
from hetjax.system.compiled import compiled
from hetjax.system.prefetch import prefetch

ALL = np.iinfo(np.int64).max
SWEEPS, SWEEPS_OF_LARGE = 6, 1
WEIGHT = 1.0  # lambda
UNIT = 64
TABLE = 2**28  # bytes of neighbours by node and partition, up to which replicas are refined


class Slim(Partitioner):
    """Streamed into a limited in-memory graph."""

    name = "slim"
    takes = frozenset({"seed", "balance", "core"})
    learns = ("core",)

    def __init__(self, graph: Graph, options: Options):
        super().__init__(graph, options)
        self.estimated(options)
        assert graph.edges is not None
        self.bound = options.balance * graph.edges / options.parts

    def learn(self) -> Iterator[Pass]:
        degrees, edges = self.graph.degrees, self.graph.edges
        assert degrees is not None and edges is not None
        room = min(edges, int(self.options.core * self.graph.nodes))
        threshold = ALL if room == edges else threshold_of(degrees, room)
        self.kept, self.count = np.empty((room, 2), np.int32), np.zeros(1, np.int64)
        yield lambda pairs: _keep(pairs, degrees, threshold, self.options.seed, self.kept, self.count)
        self.about["core_edges"] = int(self.count[0])
        indptr, neighbours = as_level(self.kept[: self.count[0]], self.graph.nodes)
        del self.kept
        self._divide(Level(indptr, neighbours, np.ones(1, np.int32), weights_of(degrees)), degrees == 0)

    def _divide(self, core: Level, alone: np.ndarray) -> None:
        """Choose who trains a node."""
        parts = self.options.parts
        most = max(self.options.balance * core.sizes.sum() / parts, float(core.sizes.max(initial=0)))
        owners = divide(core, parts, most, np.random.Generator(np.random.Philox(self.options.seed)))
        if owners.size * parts * 4 <= TABLE:
            _fewer_replicas(core, owners, parts, most)
        _spread(alone, owners, parts)
        self.owners = owners.astype(part_dtype(parts))
        self.records = np.empty((len(owners), 1 + self.replicas.shape[1]), np.uint64)
        self.replicas = self.records[:, 1:]
        _start(self.owners, self.graph.degrees, self.records)

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        _place(pairs, self.owners, self.bound, self.records, self.replicas, self.loads, out)


def threshold_of(degrees: np.ndarray, room: int) -> int:
    """Return the highest threshold of which the edges that are kept have room, every node counting its own, int64."""
    counts = np.bincount(np.minimum(degrees, 2**20))
    ends = np.cumsum(counts[::-1])[::-1][1:]  # nodes of degree 1 or more, 2 or more ...
    return max(1, int(np.searchsorted(np.cumsum(ends), room, side="right")))


def weights_of(degrees: np.ndarray) -> np.ndarray:
    """Return what nodes weigh, int32: `UNIT`, and as much again by mean degree; nothing where they have no edges."""
    mean = degrees[degrees > 0].mean() if degrees.any() else 1.0
    return np.where(degrees > 0, UNIT + np.rint(degrees * (UNIT / mean)), 0).astype(np.int32)


def as_level(pairs: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `(indptr, neighbours)` of edges in both directions."""
    indptr = np.zeros(nodes + 1, np.int32 if 2 * len(pairs) < 2**31 else np.int64)
    _count(pairs, indptr)
    np.cumsum(indptr, out=indptr)
    neighbours = np.empty(indptr[-1], np.int32)
    _put(pairs, indptr[:-1].copy(), neighbours)
    return indptr, neighbours


def _fewer_replicas(level: Level, owners: np.ndarray, parts: int, most: float) -> None:
    table = np.zeros((len(owners), parts), np.int32)
    _tabulate(level.indptr, level.neighbours, owners, table)
    totals = np.bincount(owners, level.sizes, parts).astype(np.int64)
    for _ in range(SWEEPS if len(owners) < LARGE else SWEEPS_OF_LARGE):
        if _sweep(level.indptr, level.neighbours, level.sizes, owners, totals, table, most) <= len(owners) // 1000:
            break


@compiled
def _keep(pairs, degrees, threshold, seed, kept, count):
    place, last = count[0], len(pairs) - 1
    for edge in range(len(pairs)):
        soon = min(edge + AHEAD, last)
        prefetch(degrees, pairs[soon, 0])
        prefetch(degrees, pairs[soon, 1])
        u, v = pairs[edge, 0], pairs[edge, 1]
        if u != v and place < len(kept):
            low = min(np.int64(degrees[u]), np.int64(degrees[v]))
            wanted = low <= threshold
            if not wanted:
                draw = hashed(hashed(min(u, v), seed) ^ np.int64(max(u, v)), seed)
                wanted = draw % low < threshold
            if wanted:
                kept[place, 0], kept[place, 1] = u, v
                place += 1
    count[0] = place


@compiled
def _count(pairs, indptr):
    for edge in range(len(pairs)):
        indptr[pairs[edge, 0] + 1] += 1
        indptr[pairs[edge, 1] + 1] += 1


@compiled
def _put(pairs, cursor, neighbours):
    last = len(pairs) - 1
    for edge in range(len(pairs)):
        later, soon = min(edge + 2 * AHEAD, last), min(edge + AHEAD, last)
        for side in range(2):
            prefetch(cursor, pairs[later, side])
            prefetch(neighbours, cursor[pairs[soon, side]])
        u, v = pairs[edge, 0], pairs[edge, 1]
        neighbours[cursor[u]], neighbours[cursor[v]] = v, u
        cursor[u] += 1
        cursor[v] += 1


@compiled
def _tabulate(indptr, neighbours, owners, table):
    for v in range(len(owners)):
        for edge in range(indptr[v], indptr[v + 1]):
            table[v, owners[neighbours[edge]]] += 1


@compiled
def _gain(v, owner, part, indptr, neighbours, owners, table):
    """Return by how many replicas there are fewer if a node moves from one partition to another."""
    gain = np.int64(table[v, part] > 0) - np.int64(table[v, owner] > 0)
    for edge in range(indptr[v], indptr[v + 1]):
        u = neighbours[edge]
        gain += np.int64(table[u, owner] == 1 and owners[u] != owner) - np.int64(
            table[u, part] == 0 and owners[u] != part
        )
    return gain


@compiled
def _sweep(indptr, neighbours, sizes, owners, totals, table, most):
    """Move nodes where fewer replicas are needed, in place; return how many moved.

    Parallel edges make the count of those that a neighbour's last edge leads to too low, so a gain may be more than was thought.
    """
    moved, parts = 0, len(totals)
    for v in range(len(owners)):
        owner = owners[v]
        if table[v, owner] == indptr[v + 1] - indptr[v]:
            continue
        best, most_gain = owner, np.int64(0)
        for part in range(parts):
            if part != owner and table[v, part] and totals[part] + sizes[v] <= most:
                gain = _gain(v, owner, part, indptr, neighbours, owners, table)
                if gain > most_gain or (
                    gain == most_gain and best == owner and totals[part] + sizes[v] < totals[owner]
                ):
                    best, most_gain = part, gain
        if best != owner:
            owners[v] = best
            totals[owner] -= sizes[v]
            totals[best] += sizes[v]
            moved += 1
            for edge in range(indptr[v], indptr[v + 1]):
                table[neighbours[edge], owner] -= 1
                table[neighbours[edge], best] += 1
    return moved


@compiled
def _spread(alone, owners, parts):
    """Give nodes without edges to the partitions that have the fewest."""
    totals = np.zeros(parts, np.int64)
    for v in range(len(owners)):
        if not alone[v]:
            totals[owners[v]] += 1
    for v in range(len(owners)):
        if alone[v]:
            owners[v] = least(totals)
            totals[owners[v]] += 1


@compiled
def _start(owners, degrees, records):
    records[:, 1:] = 0
    for v in range(len(owners)):
        records[v, 0] = degrees[v]
        if degrees[v]:
            mark(records[:, 1:], v, owners[v])


@compiled
def _place(pairs, owners, bound, records, replicas, loads, out):
    balance = np.empty(len(loads))
    most, fewest = weigh(loads, WEIGHT, bound, balance)
    last = len(pairs) - 1
    for edge in range(len(pairs)):
        later, soon = min(edge + 2 * AHEAD, last), min(edge + AHEAD, last)
        prefetch(owners, pairs[later, 0])
        prefetch(owners, pairs[later, 1])
        if owners[pairs[soon, 0]] != owners[pairs[soon, 1]]:
            prefetch(records, pairs[soon, 0])
            prefetch(records, pairs[soon, 1])
        u, v = pairs[edge, 0], pairs[edge, 1]
        part = np.int64(owners[u])
        if owners[v] == part:  # both are marked
            loads[part] += 1
        else:
            part = best_part(records[u, 0], records[v, 0], u, v, replicas, balance, True)
            if part < 0:  # all are full
                part = least(loads)
            put(replicas, loads, u, v, part)
        out[edge] = part
        most, fewest = weigh_again(part, loads, WEIGHT, bound, balance, most, fewest)
