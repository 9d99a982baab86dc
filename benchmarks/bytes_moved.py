"""The bytes and multiplications that a training step of R-GCN, R-GAT or HGT needs in the better order, and the speed of
this machine at both.

Real rows and edges are counted, padding is not, and features whole: those that are mostly zeros, which hetjax multiplies without these, take less than that. One operation comes after the other: each reads what it is given once and writes its result
once. So the floor is the time that copying as many bytes takes, and after it a product of matrices of as many multiplications. The start of an operation, sampling, and
weights, which are few, take no time in it.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.kernels.together import Together
from hetjax.models.known import Known
from hetjax.sampling.blocks import NO_NODE, Adjacency, Batch, Block, OneEdge

NUMBER = 4  # bytes of a float32, and of an int32
ENDS = "sources", "targets"
HEADS, LEARNABLE = 4, 64  # of attention, and how wide learnable features are: what `step.py` and `whole_graph.py` train


class Work(NamedTuple):
    """The bytes and multiplications of an operation, or of a whole step.

    Attributes:
      numbers: values of `NUMBER` bytes, read and written.
      multiplications: each with an addition.
    """

    numbers: float = 0
    multiplications: float = 0

    def __add__(self, other: "Work") -> "Work":  # type: ignore[override]
        return Work(self.numbers + other.numbers, self.multiplications + other.multiplications)

    def times(self, count: float) -> "Work":
        return Work(self.numbers * count, self.multiplications * count)


class Rates(NamedTuple):
    """The speed of this machine, per second: bytes of a copy, read and written; multiplications in a product of matrices."""

    bytes: float
    multiplications: float

    def seconds(self, work: Work) -> float:
        return NUMBER * work.numbers / self.bytes + work.multiplications / self.multiplications


class Shape(NamedTuple):
    """A relation in a layer.

    Attributes:
      rows, targets, edges: sources that are reached, targets that have edges, and edges.
      width, features: of a source, and of what the layer makes.
      heads: of attention.
      learned: whether the sources get a gradient.
    """

    rows: int
    targets: int
    edges: int
    width: int
    features: int
    heads: int
    learned: bool


def product(rows: float, width: int, features: int, to_rows: bool) -> Work:
    """Return the work of rows times a matrix, forward and backward: with the gradients of the matrix, and of the rows if they get one."""
    return Work(rows * (width + features), rows * width * features).times(2 + to_rows)


def visits(edges: int, width: int, rows: float, multiplied: int = 0) -> Work:
    """Return the work of all edges. Each reads its index and a row, and multiplies every element of the row by so many
    values; rows as wide are read or written beside it."""
    return Work(edges * (1 + width) + rows, edges * width * multiplied)


def rgcn(s: Shape) -> list[Work]:
    """Return the work of both orders of a mean: aggregated first, and multiplied first."""
    folded = visits(s.edges, s.width, s.targets * s.width) + product(s.targets, s.width, s.features, s.learned)
    if s.learned:
        folded += visits(s.edges, s.width, s.rows * s.width)
    there, back = (visits(s.edges, s.features, rows * s.features) for rows in (s.targets, s.rows))
    return [folded, there + back + product(s.rows, s.width, s.features, s.learned)]


def softmax(s: Shape) -> Work:
    """Return the work of the logits, the weights and their gradient of every edge and head, and of the sums of every target."""
    return Work(5 * s.edges * s.heads + 6 * s.targets * s.heads)


def rgat(s: Shape) -> list[Work]:
    """Return the work of both orders of R-GAT; a source's part of the logit is one value per head, computed once."""
    scores = visits(s.edges, s.heads, s.rows * s.heads).times(2)
    summed = s.targets * s.heads * s.width
    folded = visits(s.edges, s.width, summed, s.heads).times(2) + product(
        summed / s.width, s.width, s.features // s.heads, True
    )
    folded += product(s.rows, s.width, s.heads, s.learned)
    if s.learned:
        folded += visits(s.edges, s.heads * (1 + s.width), s.rows * s.width, 1)
    first = visits(s.edges, s.features, s.targets * s.features, 1).times(2)
    first += visits(s.edges, s.features + s.heads + 1, s.rows * s.features, 1)
    first += product(s.rows, s.width, s.features, s.learned) + product(s.rows, s.features, s.heads, True)
    return [work + scores + softmax(s) for work in (folded, first)]


def hgt(s: Shape) -> list[Work]:
    """Return the work of both orders of HGT's keys and values: of the sources without a product, or of two products with matrices."""
    summed, size = s.targets * s.heads * s.width, s.features // s.heads
    folded = visits(s.edges, s.width, summed, s.heads).times(4) + product(summed / s.width, s.width, size, True).times(
        2
    )
    if s.learned:
        folded += visits(s.edges, 2 * s.heads * (1 + s.width), s.rows * s.width, 1)
    first = visits(s.edges, s.features, s.targets * s.features, 1).times(4)
    first += visits(s.edges, s.features + s.heads + 1, s.rows * s.features, 1).times(2)
    first += product(s.rows, s.width, s.features, s.learned).times(2)
    return [work + softmax(s) for work in (folded, first)]


ORDERS: dict[str, Callable[[Shape], list[Work]]] = {"rgcn": rgcn, "rgat": rgat, "hgt": hgt}


def of_targets(model: str, rows: int, width: int, features: int, heads: int, learned: bool, asked: bool) -> Work:
    """Return the work of a layer on its targets besides their relations: queries, if any edge into them has a logit,
    and the end of their sums."""
    work = Work(4 * rows * features)  # bias and activation, there and back
    if model == "hgt":
        work += product(rows, features, features, True)
    if asked and model != "rgcn":
        work += product(rows, width, features if model == "hgt" else heads, learned)
    return work


def of_step(
    model: str, batch: Batch, graph: HetGraph, widths: Mapping[str, int], hidden: int, heads: int, rates: Rates
) -> Work:
    """Return the work of a step without self terms, each relation in the order that takes less time at these rates.

    Learnable rows are taken (read and written), and updated with both moments and their count (all of them and the gradient
    read, all but it written).

    Args:
      widths: of the features of every type.
      hidden: width of all embeddings.
    """
    total = Work()
    for t in [t for t in widths if t not in graph.features]:
        ids = batch.inputs.get(t)
        rows = graph.schema.nodes[t] if ids is None else int(np.sum(np.asarray(ids) != NO_NODE))
        total += Work(rows * (2 * widths[t] + 2 * (3 * widths[t] + 1) + widths[t]))
    for depth, block in enumerate(batch.blocks):
        into: dict[str, int] = {}
        asked: set[str] = set()  # types whose edges have logits
        for relation, found in counts(block, graph).items():
            one = isinstance(block.adjacency.get(relation.key), OneEdge)  # which needs no logit: a sum, as R-GCN's
            if not one:
                asked.add(relation.target)
            learned = depth > 0 or relation.source not in graph.features
            if isinstance(found, Known):  # folded before the first step, so that a product with a matrix is left
                total += product(found.targets, widths[relation.source], hidden, False)
                into[relation.target] = found.targets
                continue
            shape = Shape(*found, hidden if depth else widths[relation.source], hidden, heads, learned)
            total += min((rgcn if one else ORDERS[model])(shape), key=rates.seconds)
            into[relation.target] = max(into.get(relation.target, 0), shape.targets)
        for t, rows in into.items():
            below = hidden if depth else widths[t]
            total += of_targets(model, rows, below, hidden, heads, depth > 0 or t not in graph.features, t in asked)
    seeds, classes = int(np.sum(np.asarray(batch.arrays.weights) > 0)), graph.schema.classes
    return total + product(seeds, hidden, classes, True) + Work(4 * seeds * classes)


def floor(model: str, batch: Batch, graph: HetGraph, hidden: int) -> dict[str, float]:
    """Return the least milliseconds of a step at this machine's rates, measured now, with their parts; learnable features are 64 wide."""
    widths = {t: graph.features[t].shape[1] if t in graph.features else LEARNABLE for t in graph.schema.nodes}
    measured = rates()
    work = of_step(model, batch, graph, widths, hidden, HEADS, measured)
    return {
        "bytes": round(NUMBER * work.numbers),
        "multiplications": round(work.multiplications),
        "copy_gb_per_second": round(measured.bytes / 1e9, 1),
        "billion_multiplications_per_second": round(measured.multiplications / 1e9, 1),
        "floor_ms": round(1000 * measured.seconds(work), 2),
    }


def counts(block: Block, graph: HetGraph) -> dict[Relation, Known | tuple[int, int, int]]:
    """Return for every relation its sources that are reached, its targets that have edges, and its edges, without padding."""
    found: dict[Relation, Known | tuple[int, int, int]] = {}
    for relation in graph.schema.relations:
        edges = block.adjacency.get(relation.key)
        if edges is not None:
            found[relation] = edges if isinstance(edges, Known) else alone(edges)
    return found | {relation: own for group in block.together for relation, own in together(group).items()}


def alone(adjacency: Adjacency) -> tuple[int, int, int]:
    """Return the counts of one relation's adjacency, as in `counts`."""
    indptr = np.asarray(adjacency.indptr)
    edges, targets = int(indptr[-1]), int(np.sum(np.diff(indptr) > 0))
    return len(np.unique(np.asarray(adjacency.indices)[:edges])), targets, edges


def together(group: Together) -> dict[Relation, tuple[int, int, int]]:
    """Return the counts of relations that are aggregated together, as in `counts`."""
    places, many = np.arange(len(group.relations)), len(group.relations)
    relations = [bucket.relations for bucket in group.buckets]
    own, others = (np.repeat(places, np.repeat([getattr(b, end) for b in group.buckets], relations)) for end in ENDS)
    sources, edges = (np.diff(np.asarray(adjacency.indptr)) for adjacency in (group.sources, group.edges))
    if group.targets is None:
        of, into = own[np.asarray(group.edges.indices)[: edges.sum()]], np.repeat(np.arange(len(edges)), edges)
        found = [(own, sources), (np.unique(into * many + of) % many, None), (of, None)]
    else:
        found = [(own, sources), (others, np.diff(np.asarray(group.targets.indptr))), (others, edges)]
    sources, targets, edges = (np.bincount(relation, n, many).astype(int) for relation, n in found)
    return dict(zip(group.relations, zip(sources.tolist(), targets.tolist(), edges.tolist())))


def rates(size: int = 2**27, repeats: int = 15) -> Rates:
    """Return the rates of a copy of `size` bytes, and of a product of `[16384, 128]` and `[128, 64]`: the medians."""
    x, rows, matrix = jnp.zeros(size // NUMBER, jnp.float32), jnp.ones((16384, 128)), jnp.ones((128, 64))
    into, out = jax.jit(lambda x, out: x + 1, donate_argnums=1, keep_unused=True), [jnp.zeros_like(x)]

    def copy():  # over memory that is there: the system clears new pages, which a step does not ask for
        out.append(into(x, out.pop()))
        return out[0]

    return Rates(
        2 * size / _median(copy, repeats),
        rows.size * matrix.shape[1] / _median(jax.jit(jnp.matmul), repeats, rows, matrix),
    )


def _median(run: Callable, repeats: int, *given: jax.Array) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(run(*given))
        times.append(time.perf_counter() - started)
    return float(np.median(times[2:]))
