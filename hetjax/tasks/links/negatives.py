"""Negatives: nodes drawn in place of an end of a link, each a function of (seed, epoch, step, purpose, example, which of its negatives).

Whoever draws, and with whatever other examples, draws the same. Known links are left out exactly: the number that is drawn counts
only candidates that are allowed, so nothing is rejected and drawn again, and the distribution over the allowed ones is exact.
"""

from typing import NamedTuple

import numpy as np

from hetjax.sampling.draw import bits, key, uniform
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.tasks.links.known import Rows, is_known

TOTAL = 2**52  # of integer weights, so that 53 random bits reach each of their units


class Candidates(NamedTuple):
    """The nodes that may be drawn, by pool; an example draws from one pool.

    Attributes:
      indptr: int64 `[pools + 1]`.
      ids: int32 `[indptr[-1]]`, rising and distinct within a pool.
      before: int64 `[indptr[-1] + 1]`, the sum of the integer weights of all candidates before; a node is drawn in proportion to its weight.
    """

    indptr: np.ndarray
    ids: np.ndarray
    before: np.ndarray


def everyone(nodes: int) -> Candidates:
    """Return all nodes of a type as one pool, each as likely as any other."""
    return pools(np.array([0, nodes]), np.arange(nodes))


def by_degree(degrees: np.ndarray, power: float = 0.75) -> Candidates:
    """Return all nodes of a type as one pool, drawn in proportion to a power of their degree (Mikolov et al., NeurIPS 2013, section 2.2).

    Probabilities are multiples of about 2**-52, the smallest for each node with a degree; a node of degree 0 is never drawn.

    Args:
      degrees: numbers of links `[nodes]`, at least 0.
    """
    return pools(
        np.array([0, len(degrees)]),
        np.arange(len(degrees)),
        np.where(degrees > 0, 1.0 * degrees, 0) ** power * (degrees > 0),
    )


def by_type(types: np.ndarray, count: int) -> Candidates:
    """Return a pool for each of `count` types of entities, of the types `[nodes]`; an example's pool is the type of the end it replaces."""
    indptr = np.searchsorted(np.sort(types), np.arange(count + 1))
    return pools(indptr, np.argsort(types, kind="stable"))


def pools(indptr: np.ndarray, ids: np.ndarray, weights: np.ndarray | None = None) -> Candidates:
    """Return pools of given lists, pool `p` being `ids[indptr[p]:indptr[p + 1]]`, rising and distinct.

    Args:
      weights: float64 `[len(ids)]`, at least 0, which nodes are drawn in proportion to within a pool. None: all weigh the same.

    Raises:
      InputError: a weight is negative or not finite, or a list is not rising.
    """
    ids, indptr = np.ascontiguousarray(ids, np.int32), np.ascontiguousarray(indptr, np.int64)
    falls = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    falls = np.setdiff1d(falls, indptr)
    if len(falls):
        raise InputError(
            f"candidates: entry {falls[0]}: {ids[falls[0]]} after {ids[falls[0] - 1]}, and lists are rising"
        )
    units = np.ones(len(ids), np.int64) if weights is None else _units(np.asarray(weights, np.float64))
    return Candidates(indptr, ids, np.concatenate([[0], np.cumsum(units)]))


def _units(weights: np.ndarray) -> np.ndarray:
    """Return integers in proportion to weights, rounded, and at least 1 where a weight is above 0."""
    wrong = np.flatnonzero(~((weights >= 0) & (weights < np.inf)))
    if len(wrong):
        raise InputError(f"candidates: weight {weights[wrong[0]]} of entry {wrong[0]} is not a finite number from 0")
    share = weights / (weights.sum() or 1.0)
    return np.where(weights > 0, np.maximum(1, np.floor(share * (TOTAL - len(weights)))), 0).astype(np.int64)


def draw(
    purpose_key: np.uint64,
    examples: np.ndarray,
    count: int,
    candidates: Candidates,
    pool: np.ndarray | None = None,
    filter_by: Rows | None = None,
) -> np.ndarray:
    """Draw negatives of every example, with replacement.

    Args:
      purpose_key: `hetjax.sampling.draw.key(seed, epoch, step, purpose)`.
      examples: distinct numbers `[n]` of the examples; equal numbers draw the same, as examples that share their negatives do.
      count: negatives of each, `k`.
      candidates: who may be drawn.
      pool: int64 `[n]`, each example's pool. None: the one pool.
      filter_by: the known other ends of each example, which are never drawn. None: they may be (false negatives).

    Returns:
      Nodes, int32 `[n, k]`.

    Raises:
      InputError: no candidate of an example is left.
    """
    examples = np.ascontiguousarray(examples, np.int64)
    pool = np.zeros(len(examples), np.int64) if pool is None else np.ascontiguousarray(pool, np.int64)
    nothing = np.zeros(len(examples), np.int64)
    rows = filter_by or Rows(nothing, nothing, np.zeros(0, np.int32))
    drawn = np.empty((len(examples), count), np.int32)
    failed = _draw(purpose_key, examples, *candidates, pool, *rows, drawn)
    if failed >= 0:
        size = candidates.indptr[pool[failed] + 1] - candidates.indptr[pool[failed]]
        known = rows.stop[failed] - rows.start[failed]
        raise InputError(
            f"negatives of example {examples[failed]}: none of its {size} candidates is left beside {known} known links; allow false negatives, or give it more candidates"
        )
    return drawn


@compiled
def _draw(purpose_key, examples, indptr, ids, before, pool, start, stop, others, drawn):
    """Fill `drawn`; return the place of an example without any candidate, or -1."""
    for i in range(len(examples)):
        first, last = indptr[pool[i]], indptr[pool[i] + 1]
        excluded = np.empty(stop[i] - start[i], np.int64)  # places of known ends in the pool
        found, excluded_weight = 0, 0
        for other in others[start[i] : stop[i]]:
            place = first + np.searchsorted(ids[first:last], other)
            if place < last and ids[place] == other:
                excluded[found] = place
                found += 1
                excluded_weight += before[place + 1] - before[place]
        free = before[last] - before[first] - excluded_weight
        if free <= 0:
            return i
        free_before = np.empty(found, np.int64)  # allowed weight before each excluded place
        passed = 0
        for j in range(found):
            free_before[j] = before[excluded[j]] - before[first] - passed
            passed += before[excluded[j] + 1] - before[excluded[j]]
        example_key = bits(purpose_key, examples[i])
        for j in range(drawn.shape[1]):
            unit = np.int64(uniform(example_key, j) * free)
            skipped = np.searchsorted(free_before, unit, side="right")
            value = before[first] + unit
            if skipped:  # the allowed units follow those of as many excluded places
                place = excluded[skipped - 1]
                value = before[place + 1] + unit - free_before[skipped - 1]
            drawn[i, j] = ids[np.searchsorted(before, value, side="right") - 1]
    return -1


def joint(
    purpose_key: np.uint64, count: int, candidates: Candidates, rows: Rows | None, examples: int, pool: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw negatives that all examples of the global batch share; for several groups take a key each.

    Args:
      purpose_key, count, candidates, pool: as of `draw`.
      rows: the known other ends of each of the examples. None: false negatives count.
      examples: their number `n`.

    Returns:
      Nodes, int32 `[k]`, and which count for which example, bool `[n, k]`: a known link does not.
    """
    shared = draw(purpose_key, np.zeros(1, np.int64), count, candidates, np.array([pool]))[0]
    return shared, np.ones((examples, count), bool) if rows is None else ~is_known(rows, shared)


def in_batch(others: np.ndarray, rows: Rows | None = None) -> np.ndarray:
    """Return which ends of the global batch are negatives of which of its examples, bool `[n, n]`: those of all others.

    Args:
      others: integers `[n]`, the end of each example that is replaced by the others' ends.
      rows: the known other ends of each example, which are no negatives. None: only the example's own end is none.
    """
    differ = others[:, None] != others[None, :]
    return differ if rows is None else differ & ~is_known(rows, others)


def replaced_heads(purpose_key: np.uint64, examples: np.ndarray, count: int, corrupt: str) -> np.ndarray:
    """Return for each negative whether it stands in place of the head, bool `[n, k]`; else it replaces the tail.

    Args:
      purpose_key: a key of its own purpose.
      corrupt: `tail`, `head`, or `both`: one of them for each negative, as likely as the other (Bordes et al., NeurIPS 2013, section 2).

    Raises:
      InputError: `corrupt` is something else.
    """
    if corrupt not in ("tail", "head", "both"):
        raise InputError(f"corrupt is {corrupt!r}, and should be tail, head or both")
    sides = np.full((len(examples), count), corrupt == "head")
    if corrupt == "both":
        _fill_sides(purpose_key, np.ascontiguousarray(examples, np.int64), sides)
    return sides


@compiled
def _fill_sides(purpose_key, examples, sides):
    for i in range(len(examples)):
        example_key = bits(purpose_key, examples[i])
        for j in range(sides.shape[1]):
            sides[i, j] = bits(example_key, j) >> np.uint64(63) == 1


def hardest(scores: np.ndarray, count: int, allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the highest scores of a pool for each example, the first of equal ones first.

    Args:
      scores: numbers `[n, pool]`.
      count: how many, `k`, at most the pool's size.
      allowed: bool `[n, pool]`, False of known links. None: all are.

    Returns:
      Places in the pool, int32 `[n, k]`, best first, and which count, bool `[n, k]`: fewer where fewer are allowed.

    Raises:
      InputError: the pool is smaller than `count`.
    """
    if count > scores.shape[1]:
        raise InputError(f"hard negatives: {count} of a pool of {scores.shape[1]}")
    allowed = np.ones(scores.shape, bool) if allowed is None else allowed
    order = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores, ~allowed), axis=1)
    places = order[:, :count].astype(np.int32)
    return places, np.take_along_axis(allowed, places, axis=1)


def keys_of(seed: int, epoch: int, step: int, purpose: str) -> np.uint64:
    """Return the key of what is drawn for a purpose, say `tails` or `sides`, in a step."""
    return key("links", seed, epoch, step, purpose)
