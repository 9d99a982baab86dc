"""A layer's edges grouped by the partition that their sources come from, so that one group is aggregated while the next travels.

In step `j` of a ring a partition receives from the partition `j` before it (NeutronStar, section 4.3); piece `j` has the edges out of the rows
that come then, and piece 0 those out of rows that are here. Layers whose edges are aggregated together have one piece, with all edges.
"""

import itertools
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.sampling.blocks import NO_NODE, Adjacency, Whole
from hetjax.sampling.sampler import group
from hetjax.sharding.dependency.shares import Share
from hetjax.system.arrays import Array
from hetjax.system.compiled import compiled


class Piece(NamedTuple):
    """A part of the edges that one partition aggregates in one layer, with the rows that these read.

    Attributes:
      adjacency: the edges per relation key, of exact size; sources are numbered as `rows` is.
      rows: the positions of the rows in `Share.needed`, int32 per type.
    """

    adjacency: Mapping[str, Adjacency]
    rows: Mapping[str, np.ndarray]


def whole(share: Share) -> list[Piece]:
    """Return one piece, of everything."""
    return [Piece(share.block.adjacency, {t: np.arange(len(ids), dtype=np.int32) for t, ids in share.needed.items()})]


def divided(share: Share, part: int, parts: int, types: Container[str], source: Mapping[str, str]) -> list[Piece]:
    """Return a piece for every step of a ring, and before them one for the rows that are here.

    Args:
      part: the partition of the share.
      types: the types whose rows are sent; others are read where they are.
      source: the source type per relation key.
    """
    step = {t: (part - share.origin[t].astype(np.int64)) % parts for t in share.needed if t in types}
    rows = [{t: np.flatnonzero(steps == n).astype(np.int32) for t, steps in step.items()} for n in range(parts)]
    rows[0] |= {t: np.arange(len(ids), dtype=np.int32) for t, ids in share.needed.items() if t not in types}
    edges: list[dict[str, Adjacency]] = [{} for _ in range(parts)]
    for key, adjacency in share.block.adjacency.items():
        if source[key] not in types:
            edges[0][key] = adjacency
            continue
        of = step[source[key]].astype(np.uint8)
        for n, piece in enumerate(_split(adjacency, of, [len(each[source[key]]) for each in rows])):
            edges[n][key] = piece
    return [Piece(*piece) for piece in zip(edges, rows)]


def own_rows(share: Share, pieces: Sequence[Piece], sizes: Sequence[Mapping[str, int]]) -> dict[str, "Array | None"]:
    """Return `Block.self_rows` in the rows of all pieces, which stand one after the other, each with room for so many of a type."""
    if len(pieces) == 1:
        return dict(share.block.self_rows)
    found: dict[str, Array | None] = {}
    for t, rows in share.block.self_rows.items():
        if t not in share.needed:
            found[t] = rows
            continue
        number, start = np.empty(len(share.needed[t]), np.int32), 0
        for piece, size in zip(pieces, sizes):
            if t in piece.rows:
                number[piece.rows[t]] = start + np.arange(len(piece.rows[t]), dtype=np.int32)
                start += size[t]
        found[t] = number if rows is None else np.append(number, NO_NODE)[np.minimum(rows, len(number))]
    return found


def reads_own_elsewhere(share: Share, part: int) -> bool:
    """Return whether the own row of a target, of the layer below, comes from another partition."""
    for t, rows in share.block.self_rows.items():
        origin = share.origin.get(t, np.empty(0, np.uint8))
        if ((origin if rows is None else origin[rows[rows != NO_NODE]]) != part).any():
            return True
    return False


def _split(adjacency: Adjacency, step: np.ndarray, sizes: Sequence[int]) -> list[Adjacency]:
    """Return the edges by the step in which each source comes.

    Args:
      step: the step of each source, uint8.
      sizes: the number of sources of every step.
    """
    indptr, indices, parts = adjacency.indptr, adjacency.indices, len(sizes)
    pointers = np.zeros((parts, len(indptr)), np.int32)
    order, places = np.empty(len(indices), np.int32), np.empty(len(indices), np.int32)
    rank = np.empty(len(step), np.int32)
    _by_step(indptr, indices, step, pointers, order, places, rank)
    weights = adjacency.weights
    totals = np.diff(indptr)
    if weights is not None:
        totals = np.zeros(len(totals))
        _add_weights(indptr, weights, totals)
    starts = np.cumsum([0, *(int(of[-1]) for of in pointers)])
    made = []
    for n, (start, end) in enumerate(itertools.pairwise(starts)):
        edges = order[start:end]
        of_edges = None if weights is None else np.asarray(weights)[edges]
        back = None if adjacency.reverse is None else sizes[n]
        piece = group(pointers[n], rank[indices[edges]], back, of_edges)
        made.append(piece._replace(whole=Whole(totals, places[start:end])))
    return made


@compiled
def _by_step(indptr, indices, step, pointers, order, places, rank):
    """Return the edges of every step in order, with their positions among the edges of their targets, and the position of every source in its step."""
    counts = np.zeros(len(pointers), np.int32)
    for source in range(len(step)):
        rank[source] = counts[step[source]]
        counts[step[source]] += 1
    for target in range(len(indptr) - 1):
        for n in range(len(pointers)):
            pointers[n, target + 1] = pointers[n, target]
        for edge in range(indptr[target], indptr[target + 1]):
            pointers[step[indices[edge]], target + 1] += 1
    cursor = np.zeros(len(pointers) + 1, np.int64)
    for n in range(len(pointers)):
        cursor[n + 1] = cursor[n] + pointers[n, -1]
    for target in range(len(indptr) - 1):
        for edge in range(indptr[target], indptr[target + 1]):
            n = step[indices[edge]]
            order[cursor[n]] = edge
            places[cursor[n]] = edge - indptr[target]
            cursor[n] += 1


@compiled
def _add_weights(indptr, weights, totals):
    for target in range(len(totals)):
        for edge in range(indptr[target], indptr[target + 1]):
            totals[target] += weights[edge]
