"""Assignment of sub-metatrees to partitions: longest processing time first, as in Heta's paper, or an exact search."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes
from hetjax.partition.cost import Workload, learnable_row, program_weights, work
from hetjax.partition.metatree import Metatree, Root
from hetjax.system.errors import InputError

Groups = tuple[tuple[Root, ...], ...]  # of each partition, in the metatree's order
MOST_ROOTS, MOST_WAYS = 12, 50_000  # sub-metatrees, and ways to divide them, that are searched; all take a second


def weight(sizes: Sizes, tree: Metatree, root: Root) -> int:
    """Return the weight of a sub-metatree: edges of its links' relations plus nodes of the types below the root, each once.

    The paper weighs vertices by nodes and links by edges. Its released code counts a type or relation that recurs in
    the sub-metatree once, as here; it also counts the root, which every partition has.
    """
    program = tree.local_model([root])
    types = {relation.source for relation in program.relations} | {root.source}.union(*program.types)
    return sum(sizes.edges[r] for r in program.relations) + sum(sizes.schema.nodes[name] for name in types)


def longest_first(weights: Sequence[float], parts: int, apart: Sequence[int] = ()) -> list[list[int]]:
    """Assign items by longest processing time first (Graham 1969): the heaviest item left goes to the lightest partition that may have it.

    Args:
      apart: sets of items, as bit masks, that share no item and are spread evenly, as of `fits`.

    Returns:
      The items of each partition, rising. Without sets to spread, the heaviest partition weighs at most `4/3 - 1/(3 parts)` of the
      least possible; no partition is empty if there are as many items.
    """
    masks, loads = [0] * parts, [(0.0, 0, part) for part in range(parts)]  # weight, items, partition
    for item in sorted(range(len(weights)), key=lambda item: (-weights[item], item)):
        total, items, part = min(load for load in loads if fits(masks[load[2]] | 1 << item, parts, apart))
        masks[part] |= 1 << item
        loads[part] = total + weights[item], items + 1, part
    return [[item for item in range(len(weights)) if mask >> item & 1] for mask in masks]


def fits(mask: int, parts: int, apart: Sequence[int]) -> bool:
    """Return whether one of so many partitions may have a set of items: of each set that is spread no more than an even share, rounded up."""
    return all((mask & these).bit_count() <= -(-these.bit_count() // parts) for these in apart)


def ways(items: int, parts: int) -> int:
    """Count the ways in which items divide into so many partitions, none empty (Stirling's numbers of the second kind)."""
    row = [1] + [0] * parts
    for _ in range(items):
        row = [0] + [row[k - 1] + k * row[k] for k in range(1, parts + 1)]
    return row[parts]


def searchable(items: int, parts: int) -> bool:
    """Return whether an exact search is quick."""
    return items <= MOST_ROOTS and ways(items, parts) <= MOST_WAYS


class Cost(NamedTuple):
    """The expected cost of a step, in bytes; the exact search makes `total` least, and then `spread`.

    Attributes:
      load: gathered by the busiest partition (`cost.Work`).
      weights: sent by all hosts to sum the gradients of replicated weights: `2 (hosts - 1)` times their size, as a ring
        does, over the hosts that have them.
      rows: sent by all hosts to exchange shared learnable rows: every host's ids and gradients, to every other that
        reads them.
      total: `load + network * (weights + rows) / hosts`: the busiest host's reading, and an average host's sending.
      spread: sum of the squares of the partitions' loads; the more even they are, the less.
    """

    load: float
    weights: float
    rows: float
    total: float
    spread: float

    @property
    def rank(self) -> tuple[float, float]:
        return self.total, self.spread


class Costs:
    """Costs of dividing the sub-metatrees of one metatree among `parts`, each run by `data` hosts that share its seeds.

    Sets of sub-metatrees are bit masks over the metatree's roots, and each set is costed once.
    """

    def __init__(self, sizes: Sizes, tree: Metatree, workload: Workload, parts: int, data: int = 1):
        self.sizes, self.tree, self.parts, self.data, self.network = sizes, tree, parts, data, workload.network
        self.workload = replace(workload, batch_size=-(-workload.batch_size // data))
        self.learned = [name for name in sizes.schema.nodes if name not in sizes.features]
        self._known: dict[int, tuple[float, int, np.ndarray]] = {}

    def of(self, mask: int) -> tuple[float, int, np.ndarray]:
        """Return load, bytes of weights, and expected rows `[learnable types]` of each host of the owner of a set."""
        if mask not in self._known:
            roots = [root for number, root in enumerate(self.tree.roots) if mask >> number & 1]
            done = work(self.sizes, self.workload, self.tree, roots)
            weights = program_weights(self.sizes, self.workload, self.tree.local_model(roots))
            rows = np.array([done.rows.get(name, 0.0) for name in self.learned])
            self._known[mask] = done.load, weights, rows
        return self._known[mask]

    def cost(self, masks: Sequence[int]) -> Cost:
        """Return the cost of partitions. It never falls when sub-metatrees are added, so the cost of some partitions is a lower bound."""
        loads, weights, rows = zip(*map(self.of, masks))
        union = 0
        for mask in masks:
            union |= mask
        replicated = 2 * (self.data * sum(weights) - self.of(union)[1])
        reads = np.array(rows)
        others = np.maximum((reads > 0).sum(axis=0) * self.data - 1, 0)
        exchanged = float((reads.sum(axis=0) * self.data * others).sum()) * learnable_row(self.workload)
        total = max(loads) + self.network * (replicated + exchanged) / (self.parts * self.data)
        return Cost(max(loads), replicated, exchanged, total, sum(load * load for load in loads))


def exact(costs: Costs, apart: Sequence[int] = ()) -> list[list[int]]:
    """Return the division of least total cost with no partition empty, and sets spread as of `fits`, by branch and bound.

    The sub-metatrees are placed one after the other, the busiest first, each in a partition in use or in the next new
    one, cheapest first; a branch is left where its cost so far is no less than the best division found.
    """
    count, parts = len(costs.tree.roots), costs.parts
    order = sorted(range(count), key=lambda item: (-costs.of(1 << item)[0], item))
    first = longest_first([costs.of(1 << item)[0] for item in range(count)], parts, apart)
    best = [sum(1 << item for item in group) for group in first]
    least = costs.cost(best).rank

    def place(position: int, masks: list[int]) -> None:
        nonlocal best, least
        if position == count:
            best, least = masks, costs.cost(masks).rank
            return
        bit, left = 1 << order[position], count - position
        grown = [[*masks[:k], masks[k] | bit, *masks[k + 1 :]] for k in range(len(masks)) if parts - len(masks) < left]
        grown += [[*masks, bit]] if len(masks) < parts else []
        grown = [more for more in grown if all(fits(mask, parts, apart) for mask in more)]
        for rank, more in sorted((costs.cost(more).rank, more) for more in grown):
            if rank < least:
                place(position + 1, more)

    place(0, [])
    return [[item for item in range(count) if mask >> item & 1] for mask in sorted(best, key=lambda mask: mask & -mask)]


def assign(
    sizes: Sizes,
    tree: Metatree,
    workload: Workload,
    parts: int,
    data: int = 1,
    method: str = "auto",
    apart: Sequence[Collection[Relation]] = (),
) -> Groups:
    """Divide the sub-metatrees among partitions, none of which is left empty.

    Args:
      data: hosts that run each partition.
      method: `exact`, `lpt`, or `auto`: exact where that is quick (`searchable`), else longest processing time first.
      apart: the pieces of every relation that is cut; no partition gets more of one relation's than an even share, rounded up, as
        what is too large for one host should not end on one.

    Raises:
      InputError: more partitions than sub-metatrees, or an exact search among too many ways.
    """
    count = len(tree.roots)
    if not 1 <= parts <= count:
        raise InputError(f"{parts} partitions, and the metatree has {count} sub-metatrees to divide")
    quick = searchable(count, parts)
    if method == "exact" and not quick:
        raise InputError(
            f"{count} sub-metatrees divide into {parts} in {ways(count, parts)} ways, and exact searches at most {MOST_ROOTS} in {MOST_WAYS}; use lpt"
        )
    masks = [sum(1 << item for item, root in enumerate(tree.roots) if root.relation in these) for these in apart]
    if method == "lpt" or not quick:
        groups = longest_first([weight(sizes, tree, root) for root in tree.roots], parts, masks)
    else:
        groups = exact(Costs(sizes, tree, workload, parts, data), masks)
    return tuple(tuple(tree.roots[item] for item in group) for group in groups)


def mesh(parts: int, roots: int, data: int | None = None) -> tuple[int, int]:
    """Return how `parts` divide into `relation` x `data` (hybrid parallelism, Figure 7 of the paper).

    Partitions beyond the sub-metatrees replicate others, and share the seeds with them.

    Args:
      parts: number of partitions in all, a host or a device each.
      roots: number of sub-metatrees.
      data: replicas of each partition; None: as few as do.

    Raises:
      InputError: `parts` is no product of at most `roots` (and at least 2, if there are as many) and a whole number.
    """
    if parts < 1:
        raise InputError(f"{parts} partitions, and there should be at least 1")
    if data is not None:
        if data < 1 or parts % data or parts // data > roots:
            raise InputError(
                f"{parts} partitions are not {data} replicas of at most {roots}, the number of sub-metatrees; replicas must divide partitions"
            )
        return parts // data, data
    relation = max(r for r in range(1, min(parts, roots) + 1) if parts % r == 0)
    if relation == 1 and parts > 1:
        near = (
            f"{parts - 1} or {parts + 1} would do"
            if roots > 1
            else f"data {parts} makes that many replicas of the whole"
        )
        raise InputError(
            f"{parts} partitions cannot be used: no number from 2 to {roots}, the number of sub-metatrees, divides {parts}; {near}"
        )
    return relation, parts // relation
