"""A batch as arrays of static shape, and the capacities that keep the shapes few.

XLA compiles one program per combination of shapes. All arrays of a batch therefore share capacities that only grow: each
is padded to its capacity, and a capacity is raised, in steps of an eighth of a power of two, when a batch exceeds it.

What padding holds is never read: padded edges lie beyond the last pointer, padded node ids are out of range (reading one
gives zeros, writing one does nothing), and padded seeds carry no weight in the loss.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.system.arrays import Array, aligned

NO_NODE = np.int32(2**31 - 1)  # the id of a padded row
MOST_EDGES = 2**31 - 1  # of one relation in one batch: rows are counted in int32


class Whole(NamedTuple):
    """The facts about all of a relation's edges that some of them must know.

    Attributes:
      totals: of every target how many edges enter it, int32 `[targets]`, or the sum of their weights, float64.
      places: which of its target's edges each of these is, int32 `[edges]`.
    """

    totals: Array
    places: Array


class Adjacency(NamedTuple):
    """One relation's edges in one layer, grouped by target, and the same edges grouped by source.

    Attributes:
      indptr: int32 `[targets + 1]`.
      indices: int32 `[edges]`, rows of the source embeddings.
      reverse_indptr: int32 `[sources + 1]`, or None where no gradient flows to the source embeddings.
      reverse_indices: int32 `[edges]`, rows of the targets, or None.
      reverse_edges: int32 `[edges]`, where each of these edges stands in `indices`, or None.
      weights: float32 `[edges]`, in the order of `indices`; None: every edge counts alike.
      whole: of the whole relation, where these are some of its edges; None: they are all.
    """

    indptr: Array
    indices: Array
    reverse_indptr: "Array | None" = None
    reverse_indices: "Array | None" = None
    reverse_edges: "Array | None" = None
    weights: "Array | None" = None
    whole: "Whole | None" = None

    @property
    def targets(self) -> int:
        """The number of rows that aggregation gives."""
        return self.indptr.shape[0] - 1

    @property
    def reverse(self) -> "tuple[Array, Array, Array] | None":
        """The three arrays that group by source, or None."""
        if self.reverse_indptr is None or self.reverse_indices is None or self.reverse_edges is None:
            return None
        return self.reverse_indptr, self.reverse_indices, self.reverse_edges

    @property
    def plain(self) -> bool:
        """Return whether these are all of a relation's edges, and every edge counts alike."""
        return self.weights is None and self.whole is None


class OneEdge(Adjacency):
    """Edges of which every target has at most one, where a softmax is over them alone (`models.one_edge`)."""


Edges = Any  # an `Adjacency`, or what stands for one where devices divide its nodes (`models.segment`)


class Block(NamedTuple):
    """The inputs of one layer: a bipartite graph per relation.

    Attributes:
      adjacency: per relation key.
      self_rows: per target type the row of each target node among the source embeddings of its own type, int32 `[targets]`;
        None where every source row is a target, in order; all of them `NO_NODE` in a model that does not read them.
      targets: per target type the ids of the nodes, int32 `[targets]`; None where row `i` is node `i`. There are none where
        nothing is drawn by them, as dropout is.
      sources: likewise of the first layer's source rows, of types whose features are not read in place.
      together: relations that are not in `adjacency`, as `models.together` aggregates them.
      pairs: what these are made of (`models.pairs`), in a sample.
    """

    adjacency: Mapping[str, Adjacency]
    self_rows: Mapping[str, "Array | None"]
    targets: Mapping[str, "Array | None"] = {}
    sources: Mapping[str, "Array | None"] = {}
    together: tuple[Any, ...] = ()
    pairs: tuple[Any, ...] = ()


class Sample(NamedTuple):
    """Blocks of their exact sizes, as the sampler makes them.

    Attributes:
      blocks: one per layer, the first layer's (the outermost hop) first.
      inputs: int32 node ids per node type whose features the first layer needs row by row.
      rows: per layer and node type, the number of source rows.
      seeds: the ids of the last layer's targets per root type.
    """

    blocks: tuple[Block, ...]
    inputs: Mapping[str, np.ndarray]
    rows: tuple[Mapping[str, int], ...]
    seeds: Mapping[str, np.ndarray] = {}


class Batch(NamedTuple):
    """One training step's input.

    Attributes:
      blocks: one per layer, the first layer's (the outermost hop) first.
      inputs: int32 node ids per node type, none negative, whose feature rows are to be gathered for the first layer; a type that is
        absent is read in place, its edges pointing at rows of the whole feature matrix, or is in `rows`.
      seeds: per root type int32 `[seeds]`, the rows of the last layer's embeddings that the task reads.
      arrays: the task's, a pytree of arrays `[B, ...]`, of `B` examples; of padding they are zeros.
      rows: `[rows, width]` that the first layer reads, of node types whose static features do not live on the device.
    """

    blocks: tuple[Block, ...]
    inputs: Mapping[str, Array]
    seeds: Mapping[str, Array]
    arrays: Any
    rows: Mapping[str, Array] = {}


def round_up(size: int) -> int:
    """Return the next multiple of an eighth of the power of two below `size`."""
    step = max(8, 1 << max(0, int(size).bit_length() - 4))
    return -(-size // step) * step


class Capacities:
    """The capacity of every array of a batch, by name; it only grows."""

    def __init__(self, by_name: Mapping[str, int] | None = None):
        self.by_name = dict(by_name or {})

    def fit(self, name: str, size: int, most: int) -> int:
        """Return the capacity of `name`, raised if `size` exceeds it; the rounding alone never raises it over `most`."""
        if size > self.by_name.get(name, -1):
            self.by_name[name] = max(size, min(round_up(size), most))
        return self.by_name[name]


def pad(array: Array, length: int, value: ArrayLike) -> Array:
    """Return `array` with `value` appended up to `length`."""
    if len(array) == length:
        return array
    padded = aligned((length, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    padded[len(array) :] = value
    return padded


def rows_of(use: str, depth: int, node_type: str) -> str:
    """Return the name of the capacity of a layer's source rows."""
    return f"{use}/{depth}/rows/{node_type}"


def edges_of(use: str, depth: int, relation: Relation) -> str:
    """Return the name of the capacity of a layer's edges."""
    return f"{use}/{depth}/edges/{relation.key}"


def measure(use: str, sample: Sample, graph: HetGraph) -> Iterator[tuple[str, int, int]]:
    """Yield `(name of a capacity, what the sample needs of it, the most that any sample can need)` for every capacity.

    Args:
      use: what the capacities are for; training and evaluation share no capacities.
    """
    for depth, (block, rows) in enumerate(zip(sample.blocks, sample.rows)):
        for node_type, size in rows.items():
            yield rows_of(use, depth, node_type), size, graph.schema.nodes[node_type]
        for relation in relations_of(block.adjacency, graph):
            size = len(block.adjacency[relation.key].indices)
            yield edges_of(use, depth, relation), size, graph.relations[relation].edges


def pad_sample(
    capacities: Capacities, use: str, sample: Sample, seeds: Mapping[str, int], graph: HetGraph
) -> tuple[tuple[Block, ...], dict[str, Array]]:
    """Pad a sample to capacities, which it raises where they do not suffice.

    Args:
      seeds: the capacity of the seeds, per node type.

    Returns:
      `(blocks, inputs)` as in `Batch`.
    """
    for name, size, most in measure(use, sample, graph):
        capacities.fit(name, size, most)
    padded: list[Block] = []
    targets = dict(seeds)
    for depth in reversed(range(len(sample.blocks))):
        block = sample.blocks[depth]
        sources = {node_type: capacities.by_name[rows_of(use, depth, node_type)] for node_type in sample.rows[depth]}
        edges = {r: capacities.by_name[edges_of(use, depth, r)] for r in relations_of(block.adjacency, graph)}
        padded.insert(0, pad_block(block, targets, sources, edges))
        targets = sources
    return tuple(padded), {node_type: pad(ids, targets[node_type], NO_NODE) for node_type, ids in sample.inputs.items()}


def pad_block(
    block: Block, targets: Mapping[str, int], sources: Mapping[str, int], edges: Mapping[Relation, int]
) -> Block:
    """Give a block the capacities named, of rows per node type and of edges per relation."""
    adjacency = {
        r.key: pad_adjacency(block.adjacency[r.key], targets[r.target], sources.get(r.source, 0), count)
        for r, count in edges.items()
    }

    def padded(ids: Mapping[str, "Array | None"], rows: Mapping[str, int]) -> dict[str, "Array | None"]:
        return {t: None if type_ids is None else pad(type_ids, rows[t], NO_NODE) for t, type_ids in ids.items()}

    named = padded(block.targets, targets), padded(block.sources, sources)
    return Block(adjacency, padded(block.self_rows, targets), *named)


def relations_of(adjacency: Mapping[str, Adjacency], graph: HetGraph) -> list[Relation]:
    """Return the relations that have edges, in the graph's order."""
    return [relation for relation in graph.schema.relations if relation.key in adjacency]


def pad_adjacency(adjacency: Adjacency, targets: int, sources: int, edges: int) -> Adjacency:
    """Give an adjacency the capacities named; added targets and sources have no edges."""
    indptr = pad(adjacency.indptr, targets + 1, adjacency.indptr[-1])
    indices = pad(adjacency.indices, edges, 0)
    weights = None if adjacency.weights is None else pad(adjacency.weights, edges, 0)
    relation_edges = adjacency.whole and Whole(
        pad(adjacency.whole.totals, targets, 0), pad(adjacency.whole.places, edges, 0)
    )
    if adjacency.reverse is not None:
        reverse_indptr, reverse_indices, reverse_edges = adjacency.reverse
        reverse_indptr = pad(reverse_indptr, sources + 1, reverse_indptr[-1])
        reverse = reverse_indptr, pad(reverse_indices, edges, 0), pad(reverse_edges, edges, 0)
        return Adjacency(indptr, indices, *reverse, weights, relation_edges)
    return Adjacency(indptr, indices, weights=weights, whole=relation_edges)
