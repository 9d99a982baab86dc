"""Groups of relations that are aggregated together, and the one bipartite graph that is made of their edges, in host memory."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.homogeneous import offsets
from hetjax.graph.schema import Relation
from hetjax.kernels.pairs import Pairs, find_pairs
from hetjax.kernels.together import Bucket, Together
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.sampling.sampler import group
from hetjax.system.arrays import aligned
from hetjax.system.compiled import compiled

FEWEST = 8  # relations that are worth it: their rows are read, and what they fold to is summed, once more
MOST = 250_000  # rows of all source types, which are laid out one type after the other: a copy
LARGE = 12_000  # pairs of a relation that is folded alone, in the order that costs least
SOME = 8  # pairs: a relation that has fewer is padded as if it had so many
ALIKE = 2  # times as many pairs as another that a relation may have, which is padded to as many


class Group(NamedTuple):
    """Relations that are aggregated together.

    Attributes:
      buckets: of relations with about as many pairs, those with most first.
      joint: as of `Traits.joint`; then only pairs of a source count.
    """

    buckets: tuple[tuple[Relation, ...], ...]
    joint: bool = False

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations in the order of the rows."""
        return tuple(relation for bucket in self.buckets for relation in bucket)

    def sizes(self, pairs: Pairs) -> list[Bucket]:
        """The smallest buckets that hold the relations' pairs."""
        counts = iter(pairs.counts)
        most = [np.max([next(counts) for _ in bucket], axis=0) for bucket in self.buckets]
        return [
            Bucket(len(bucket), int(own[0]), 0 if self.joint else int(own[1]))
            for bucket, own in zip(self.buckets, most)
        ]


def with_together(layer: Any, block: Block, sources: Mapping[str, int], alone: Container[str] = ()) -> Block:
    """Return a block in which relations of like shapes are one graph, if they are many.

    Args:
      layer, sources, alone: as of `groups`.
      block: in host memory, of a whole graph.
    """
    made = groups(layer, block, sources, alone)
    apart = with_pairs(block, made)
    rows = {r.target: block.adjacency[r.key].targets for own in made for r in own.relations}
    together = [
        as_one(own, pairs, own.sizes(pairs), len(pairs.places), sources, rows) for own, pairs in zip(made, apart.pairs)
    ]
    return apart._replace(together=tuple(together), pairs=())


def groups(layer: Any, block: Block, sources: Mapping[str, int], alone: Container[str] = ()) -> tuple[Group, ...]:
    """Return the groups of relations of like shapes, if they are many; the buckets go by how many pairs each relation has in this block.

    Args:
      layer: that reads it.
      block: in host memory.
      sources: the number of source rows per node type.
      alone: types whose relations are not aggregated together: `SparseRows`, which do not lie beside others' rows, and what is known
        (`models.known`).
    """
    alike: dict[Any, list[Relation]] = {}
    for relation in layer.relations:
        edges = block.adjacency.get(relation.key)
        plain = isinstance(edges, Adjacency) and edges.plain
        if plain and relation.source not in alone and relation.target not in alone:
            shape = shape_of(layer, relation)
            if shape is not None:
                alike.setdefault(shape, []).append(relation)
    made = []
    for relations in alike.values():
        counts = (
            find_pairs(relations, block.adjacency).counts[:, : 1 if layer.traits.joint else 2].max(axis=1, initial=0)
        )
        sizes = {relation: int(size) for relation, size in zip(relations, counts) if size <= LARGE}
        if len(sizes) >= FEWEST and sum(sources[t] for t in {r.source for r in sizes}) <= MOST:
            made.append(Group(tuple(_in_buckets(sizes)), layer.traits.joint))
    return tuple(made)


def shape_of(layer: Any, relation: Relation) -> Any:
    """Return a value that is equal for relations that the layer can aggregate in one operation; None: it is aggregated alone."""
    grouped = layer.traits.grouped
    return grouped and grouped.shape(layer, relation)


def with_pairs(block: Block, groups: Sequence[Group]) -> Block:
    """Return a block in which the edges of groups are `Pairs`."""
    taken = {relation.key for own in groups for relation in own.relations}
    apart = {key: edges for key, edges in block.adjacency.items() if key not in taken}
    pairs = tuple(find_pairs(own.relations, block.adjacency) for own in groups)
    return block._replace(adjacency=apart, pairs=pairs)


def as_one(
    own: Group,
    pairs: Pairs,
    buckets: Sequence[Bucket],
    edges: int,
    sources: Mapping[str, int],
    targets: Mapping[str, int],
    flows: bool = True,
) -> Together:
    """Return relations as one graph, in host memory.

    Args:
      pairs: of the group's relations.
      buckets: that hold them, padding included.
      edges: how many there are, padding included.
      sources, targets: the number of rows per node type.
      flows: whether a gradient flows to the sources.
    """
    rows = {t: targets[t] for t in sorted({r.target for r in own.relations})}
    sources = {t: sources[t] for t in sorted({r.source for r in own.relations})}
    first_source, first_target = offsets(sources), offsets(rows)
    starts = [[first_source[r.source] for r in own.relations], [first_target[r.target] for r in own.relations]]
    room = np.array([bucket[1:] for bucket, held in zip(buckets, own.buckets) for _ in held], np.int64)
    (q, p), relations = room.sum(axis=0), len(own.relations)
    if own.joint:
        p = sum(rows.values())
    indptr, source_indptr, indices, source_rows = map(_zeros, (p + 1, q + 1, edges, q))
    _lay_out_sources(pairs.sources, pairs.counts, room[:, 0], np.array(starts[0], np.int64), source_indptr, source_rows)
    laid = (indptr, indices), room, np.array(starts[1], np.int64)
    to_targets = totals = of_relations = None
    if own.joint:
        _lay_out_joint(*pairs[1:], *laid)
    else:
        target_indptr, target_rows, owners = map(_zeros, (p + 1, p, p))
        _lay_out_pairs(*pairs[1:], *laid, (target_indptr, target_rows, owners))
        to_targets, of_relations = (
            group(target_indptr, ends, count)
            for ends, count in ((target_rows, sum(rows.values())), (owners, relations))
        )
        assert to_targets.reverse
        totals = Adjacency(*to_targets.reverse[:2], to_targets.indptr, to_targets.indices, to_targets.reverse[2])
    return Together(
        group(indptr, indices, int(q)),
        group(source_indptr, source_rows, sum(sources.values()) if flows else None),
        to_targets,
        totals,
        of_relations,
        own.relations,
        tuple(buckets),
        tuple(rows.items()),
        tuple(sources),
    )


def _zeros(size: int) -> np.ndarray:
    made = aligned((int(size),), np.int32)
    made[:] = 0
    return made


def _in_buckets(sizes: Mapping[Relation, int]) -> list[tuple[Relation, ...]]:
    """Return the relations, those with most pairs first, in buckets: within one, none has `ALIKE` times as many pairs
    as another, and few count as some."""
    buckets: list[list[Relation]] = []
    for relation in sorted(sizes, key=lambda r: -sizes[r]):
        if buckets and ALIKE * max(SOME, sizes[relation]) >= sizes[buckets[-1][0]]:
            buckets[-1].append(relation)
        else:
            buckets.append([relation])
    return [tuple(bucket) for bucket in buckets]


@compiled
def _lay_out_sources(sources, counts, room, starts, indptr, rows):
    """Fill the source of every pair, relation after relation, each with so much room."""
    q, source = 0, 0
    for relation in range(len(counts)):
        for i in range(room[relation]):
            if i < counts[relation, 0]:
                rows[source] = sources[source] + starts[relation]
                source += 1
            indptr[q + i + 1] = source
        q += room[relation]


@compiled
def _lay_out_pairs(targets, degrees, places, counts, edges, room, starts, ends):
    """Fill the edges between pairs, and the target and the relation of every pair, relation after relation."""
    (indptr, indices), (target_indptr, rows, owners) = edges, ends
    q, p, target, edge = 0, 0, 0, 0
    for relation in range(len(counts)):
        for e in range(edge, edge + counts[relation, 2]):
            indices[e] = places[e] + q
        for i in range(room[relation, 1]):
            degree = 0
            if i < counts[relation, 1]:
                rows[target], owners[target] = targets[target] + starts[relation], relation
                degree = degrees[target]
                target += 1
            target_indptr[p + i + 1] = target
            indptr[p + i + 1] = indptr[p + i] + degree
        q, p, edge = q + room[relation, 0], p + room[relation, 1], edge + counts[relation, 2]


@compiled
def _lay_out_joint(targets, degrees, places, counts, edges, room, starts):
    """Fill the edges from pairs to targets, of each target relation after relation."""
    indptr, indices = edges
    target = 0
    for relation in range(len(counts)):
        for t in range(target, target + counts[relation, 1]):
            indptr[targets[t] + starts[relation] + 1] += degrees[t]
        target += counts[relation, 1]
    for row in range(len(indptr) - 1):
        indptr[row + 1] += indptr[row]
    free = indptr.copy()  # where a target's next edge goes
    q, target, edge = 0, 0, 0
    for relation in range(len(counts)):
        for t in range(target, target + counts[relation, 1]):
            row = targets[t] + starts[relation]
            for _ in range(degrees[t]):
                indices[free[row]] = places[edge] + q
                free[row], edge = free[row] + 1, edge + 1
        q, target = q + room[relation, 0], target + counts[relation, 1]
