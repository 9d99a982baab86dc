"""Which relations of a graph are folded together, and the one bipartite graph that is made of their edges, in host memory."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.schema import Relation
from hetjax.models.together import Bucket, Together
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.sampling.sampler import group

FEWEST = 8  # relations that are worth it: their rows are read, and what they fold to is summed, once more
MOST = 250_000  # rows of all source types, which are laid out one type after the other: a copy
ALIKE = 2  # times as many pairs as another that a relation may have, which is padded to as many


def with_together(layer: Any, block: Block, sources: Mapping[str, int], sparse: Container[str] = ()) -> Block:
    """A block in which relations of like shapes are one graph, if they are many.

    Args:
      layer: that reads it.
      block: in host memory, of a whole graph.
      sources: the number of source rows per node type.
      sparse: types whose rows are `SparseRows`, which do not lie beside others'.
    """
    alike: dict[Any, list[Relation]] = {}
    for relation in layer.relations:
        edges = block.adjacency.get(relation.key)
        plain = isinstance(edges, Adjacency) and edges.weights is None and edges.whole is None
        if plain and relation.source not in sparse and relation.target not in sparse:
            shape = layer.alike(relation)
            if shape is not None:
                alike.setdefault(shape, []).append(relation)
    groups = [
        relations for relations in alike.values() if len(relations) >= FEWEST and _rows(relations, sources) <= MOST
    ]
    taken = {relation.key for relations in groups for relation in relations}
    together = tuple(as_one(relations, block.adjacency, sources) for relations in groups)
    apart = {key: edges for key, edges in block.adjacency.items() if key not in taken}
    return block._replace(adjacency=apart, together=together)


class Pairs(NamedTuple):
    """A relation's edges, from pairs to pairs.

    Attributes:
      sources, targets: rows of the nodes that have an edge.
      counts: of the edges of every such target.
      indices: of every edge which of the sources it comes from.
    """

    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    indices: np.ndarray


def _rows(relations: Sequence[Relation], sources: Mapping[str, int]) -> int:
    return sum(sources[t] for t in {relation.source for relation in relations})


def as_one(relations: Sequence[Relation], adjacency: Mapping[str, Adjacency], sources: Mapping[str, int]) -> Together:
    """Relations as one graph, in host memory.

    Args:
      adjacency: per relation key; what lies beyond the last pointer is left out.
      sources: the number of source rows per node type.
    """
    pairs = {relation: _pairs(adjacency[relation.key]) for relation in relations}
    rows = {r.target: adjacency[r.key].targets for r in sorted(relations, key=lambda r: r.target)}
    sources = {t: sources[t] for t in sorted({relation.source for relation in relations})}
    source_starts, target_starts = _starts(sources), _starts(rows)
    owners: list[np.ndarray] = []
    chosen_sources, chosen_targets, counts, indices, first = [], [], [], [], 0
    alike = _alike(pairs)
    buckets = [
        Bucket(len(bucket), *(max(len(getattr(pairs[r], side)) for r in bucket) for side in ("sources", "targets")))
        for bucket in alike
    ]
    for bucket, members in zip(buckets, alike):
        for relation in members:
            own = pairs[relation]
            indices.append(own.indices + first)
            counts.append(_filled(own.counts, bucket.targets, 0))
            chosen_sources.append(_filled(own.sources + source_starts[relation.source], bucket.sources, -1))
            chosen_targets.append(_filled(own.targets + target_starts[relation.target], bucket.targets, -1))
            owners.append(_filled(np.full(len(own.targets), len(owners)), bucket.targets, -1))
            first += bucket.sources
    targets = _chosen(np.concatenate(chosen_targets), sum(rows.values()))
    assert targets.reverse
    return Together(
        group(_ends(np.concatenate(counts)), np.concatenate(indices).astype(np.int32), first),
        _chosen(np.concatenate(chosen_sources), sum(sources.values())),
        targets,
        Adjacency(*targets.reverse[:2], targets.indptr, targets.indices, targets.reverse[2]),
        _chosen(np.concatenate(owners), len(relations)),
        tuple(relation for members in alike for relation in members),
        tuple(buckets),
        tuple(rows.items()),
        tuple(sources),
    )


def _pairs(adjacency: Adjacency) -> Pairs:
    counts = np.diff(np.asarray(adjacency.indptr))
    indices = np.asarray(adjacency.indices)[: adjacency.indptr[-1]]
    sources, places = np.unique(indices, return_inverse=True)
    targets = np.flatnonzero(counts)
    return Pairs(sources, targets, counts[targets], places)


def _alike(pairs: Mapping[Relation, Pairs]) -> list[list[Relation]]:
    """Relations, the largest first, in groups of which none has `ALIKE` times as many pairs as another."""
    sizes = {relation: max(len(own.sources), len(own.targets)) for relation, own in pairs.items()}
    groups: list[list[Relation]] = []
    for relation in sorted(pairs, key=lambda r: -sizes[r]):
        if groups and ALIKE * sizes[relation] >= sizes[groups[-1][0]]:
            groups[-1].append(relation)
        else:
            groups.append([relation])
    return groups


def _starts(counts: Mapping[str, int]) -> dict[str, int]:
    """Where the rows of each type begin, if they lie one type after the other."""
    return dict(zip(counts, np.cumsum([0, *counts.values()])))


def _filled(x: np.ndarray, count: int, value: int) -> np.ndarray:
    return np.concatenate([x, np.full(count - len(x), value, x.dtype)])


def _ends(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _chosen(rows: np.ndarray, count: int) -> Adjacency:
    """An edge from each of these rows, of `count`; none where it is negative."""
    return group(_ends(rows >= 0), rows[rows >= 0].astype(np.int32), count)
