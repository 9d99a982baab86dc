"""Multilevel partitioning in memory by label propagation (Meyerhenke, Sanders and Schulz, SEA 2014), compiled, in arrays by node.

1. Coarsen: nodes join the cluster that most of their edges lead to, while it weighs at most `1 / FINE` of a partition; clusters
   are the nodes of the next level, until there are few or they are hardly fewer.
2. Divide the coarsest level: nodes in some orders, each to the partition that most of its edges lead to among those with room,
   and the best of what refinement makes of these.
3. Refine level by level: nodes move where the cut gets smaller, within the bound on every partition.

A node's edges that are cut weigh alike; the last step of `slim`, `_fewer_replicas`, counts the replicas that they ask for instead.
"""

import numpy as np

from hetjax.partition.stream.level import Level, ask, by_key, contract, cut, rename, total, weight
from hetjax.system.compiled import compiled

FINE = 16  # clusters by partition, at least
COARSEST = 40  # nodes by partition at which coarsening ends
SHRINK = 0.9  # of a level's nodes: with more the next level is not worth its while
FEW = 32  # edges of a node up to which its neighbours' labels are compared one by one, which is quicker than a table of all labels
JOINS, MOVES, TRIES = 3, 6, 12  # sweeps of coarsening and of refining; first divisions
LARGE, MOVES_OF_LARGE = 2**18, 2  # nodes of a level on which sweeps take long, and are fewer


def divide(level: Level, parts: int, bound: float, rng: np.random.Generator) -> np.ndarray:
    """Return the partition of every node, int16 `[nodes]`.

    Args:
      bound: what the nodes of a partition may weigh together, at least the mean and what rounding asks for.
    """
    nodes = len(level.sizes)
    if nodes > COARSEST * parts:
        labels = _cluster(level, max(1.0, bound / FINE), rng)
        count = rename(labels)
        if count <= SHRINK * nodes:
            owners = divide(contract(level, labels, count), parts, bound, rng)[labels]
            return _refined(level, owners, parts, bound, rng)
    tries = [_refined(level, _first(level, parts, bound, rng), parts, bound, rng) for _ in range(TRIES)]
    return min(tries, key=lambda owners: _badness(level, owners, parts, bound))


def _cluster(level: Level, most: float, rng: np.random.Generator) -> np.ndarray:
    """Return labels of clusters that weigh at most `most`, unless a node does alone."""
    nodes = len(level.sizes)
    labels, totals = np.arange(nodes, dtype=np.int32), level.sizes.astype(narrow(int(level.sizes.sum(dtype=np.int64))))
    degrees, order = np.diff(level.indptr), _order(nodes, rng)
    order = order[by_key(degrees[order], int(degrees.max()) + 1)[0]]  # those of few neighbours first
    strength, seen = np.zeros(nodes, narrow(total(level))), np.empty(nodes, np.int32)
    for _ in range(JOINS if nodes < LARGE else 1):
        if _join(*level, order, labels, totals, most, strength, seen) < nodes // 50:
            break
    _pair(*level, labels, totals, most, strength, seen)
    return labels


def narrow(most: int) -> type[np.integer]:
    """Return the narrower of two integer types that holds numbers up to `most`. Memory is what takes long."""
    return np.int32 if most < 2**31 else np.int64


def _order(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Return the order in which nodes are visited: random, but of a large level as they lie in memory, which is quicker."""
    return (np.arange(nodes) if nodes >= LARGE else rng.permutation(nodes)).astype(np.int32)


def _first(level: Level, parts: int, bound: float, rng: np.random.Generator) -> np.ndarray:
    nodes = len(level.sizes)
    owners, totals = np.full(nodes, -1, np.int16), np.zeros(parts, np.int64)
    _grow(*level, rng.permutation(nodes).astype(np.int32), owners, totals, bound)
    return owners


def _refined(level: Level, owners: np.ndarray, parts: int, bound: float, rng: np.random.Generator) -> np.ndarray:
    """Return the partitions after refinement."""
    nodes = len(level.sizes)
    totals = np.bincount(owners, level.sizes, parts).astype(np.int64)
    for _ in range(MOVES if nodes < LARGE else MOVES_OF_LARGE):
        if _move(*level, _order(nodes, rng), owners, totals, bound) <= nodes // 1000:
            break
    return owners


def _badness(level: Level, owners: np.ndarray, parts: int, bound: float) -> float:
    """Return the weight of the cut, and more than any where a partition is over the bound."""
    over = np.maximum(np.bincount(owners, level.sizes, parts).astype(np.int64) - bound, 0).sum()
    return cut(*level, owners) + float(over) * (1 + total(level))


@compiled
def _join(indptr, neighbours, weights, sizes, order, labels, totals, most, strength, seen):
    """Sweep over the nodes and cluster them in place; return how many changed. `strength` is zeros `[nodes]`, and is again; `seen` is for its own use."""
    few_labels, few = np.empty(FEW, np.int32), np.empty(FEW, np.int64)
    changed = 0
    for place in range(len(order)):
        ask(order, place, indptr, neighbours, labels)
        v = order[place]
        old_label = labels[v]
        best, largest = old_label, np.int64(0)
        first, last = indptr[v], indptr[v + 1]
        if last - first <= FEW:
            found = _tally(first, last, neighbours, weights, labels, few_labels, few)
            for at in range(found):
                if few_labels[at] == old_label:
                    largest = few[at]
            for at in range(found):
                label = few_labels[at]
                if few[at] > largest and totals[label] + sizes[v] <= most:
                    best, largest = label, few[at]
        else:
            found = 0
            for edge in range(first, last):
                label = labels[neighbours[edge]]
                if strength[label] == 0:
                    seen[found] = label
                    found += 1
                strength[label] += weight(weights, edge)
            largest = strength[old_label]
            for at in range(found):
                label = seen[at]
                if strength[label] > largest and totals[label] + sizes[v] <= most:
                    best, largest = label, strength[label]
            for at in range(found):
                strength[seen[at]] = 0
        if best != old_label:
            totals[old_label] -= sizes[v]
            totals[best] += sizes[v]
            labels[v] = best
            changed += 1
    return changed


@compiled
def _tally(first, last, neighbours, weights, labels, found_labels, strength):
    """Fill in the labels of a node's neighbours, each once as it first comes, and what the edges to it weigh; return how many there are."""
    count = 0
    for edge in range(first, last):
        label = labels[neighbours[edge]]
        place = 0
        while place < count and found_labels[place] != label:
            place += 1
        if place == count:
            found_labels[count], strength[count] = label, 0
            count += 1
        strength[place] += weight(weights, edge)
    return count


@compiled
def _pair(indptr, neighbours, weights, sizes, labels, totals, most, strength, companion):
    """Join nodes that are alone in their cluster and are drawn to the same one, which is full; and all nodes without neighbours.

    Without it the leaves of hubs would stay as they are, level by level.

    Args:
      strength: zeros `[nodes]`.
      companion: `[nodes]`, for its own use.
    """
    companion[:] = -1
    undrawn = -1  # the companion of those that nothing draws
    for v in range(len(labels)):
        if totals[labels[v]] == sizes[v] and labels[v] == v:
            drawn, largest = -1, np.int64(0)
            for edge in range(indptr[v], indptr[v + 1]):
                label = labels[neighbours[edge]]
                strength[label] += weight(weights, edge)
                if strength[label] > largest:
                    drawn, largest = label, strength[label]
            for edge in range(indptr[v], indptr[v + 1]):
                strength[labels[neighbours[edge]]] = 0
            other = companion[drawn] if drawn >= 0 else undrawn
            if other >= 0 and totals[other] + sizes[v] <= most:
                totals[other] += sizes[v]
                totals[v] -= sizes[v]
                labels[v] = other
            elif drawn >= 0:
                companion[drawn] = v
            else:
                undrawn = v


@compiled
def _grow(indptr, neighbours, weights, sizes, order, owners, totals, bound):
    """Place every node by a breadth-first walk that starts at nodes in an order, where most of its edges lead and there is room."""
    nodes, parts = len(order), len(totals)
    strength, queue = np.zeros(parts, np.int64), np.empty(nodes, np.int32)
    queued = np.zeros(nodes, np.bool_)
    head = tail = 0
    for start in order:
        if not queued[start]:
            queue[tail], queued[start] = start, True
            tail += 1
        while head < tail:
            v = queue[head]
            head += 1
            strength[:] = 0
            for edge in range(indptr[v], indptr[v + 1]):
                u = neighbours[edge]
                if owners[u] >= 0:
                    strength[owners[u]] += weight(weights, edge)
                elif not queued[u]:
                    queue[tail], queued[u] = u, True
                    tail += 1
            best = -1
            for part in range(parts):
                room = totals[part] + sizes[v] <= bound
                if best < 0 or (room, strength[part], -totals[part]) > (
                    totals[best] + sizes[v] <= bound,
                    strength[best],
                    -totals[best],
                ):
                    best = part
            owners[v] = best
            totals[best] += sizes[v]


@compiled
def _move(indptr, neighbours, weights, sizes, order, owners, totals, bound):
    """Sweep over the nodes and refine their partitions in place; return how many moved.

    A node moves where its cut edges weigh less, or as much if the partitions get more even; out of a partition that is over
    the bound, in any case.
    """
    parts = len(totals)
    strength, moved = np.zeros(parts, np.int64), 0
    for place in range(len(order)):
        ask(order, place, indptr, neighbours, owners)
        v = order[place]
        owner = owners[v]
        strength[:] = 0
        inside = True
        for edge in range(indptr[v], indptr[v + 1]):
            part = owners[neighbours[edge]]
            strength[part] += weight(weights, edge)
            inside = inside and part == owner
        over = totals[owner] > bound
        if inside and not over:
            continue
        best = owner
        for part in range(parts):
            if part != owner and totals[part] + sizes[v] <= bound:
                if best == owner:
                    gain = strength[part] - strength[owner]
                    if over or gain > 0 or (gain == 0 and totals[part] + sizes[v] < totals[owner]):
                        best = part
                elif strength[part] > strength[best] or (
                    strength[part] == strength[best] and totals[part] < totals[best]
                ):
                    best = part
        if best != owner:
            totals[owner] -= sizes[v]
            totals[best] += sizes[v]
            owners[v] = best
            moved += 1
    return moved
