"""Divisions of the labelled nodes into those that candidates are trained on and those that judge them.

The validation nodes judge where they are many. Where they are few, or absent, several divisions of training and validation nodes
together judge instead, so that one choice rests on more nodes; no test node is read.
"""

from typing import NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph

ENOUGH = 200  # nodes that judge, over all divisions
MOST = 5  # divisions
SHARE = 4  # one in so many labelled nodes judges at most
LEAST = 20  # labelled nodes


class HoldOut(NamedTuple):
    """One division.

    Attributes:
      train, held: places in the pool, rising int64; no place is in both.
    """

    train: np.ndarray
    held: np.ndarray


class HoldOuts(NamedTuple):
    """Divisions of one pool of labelled nodes.

    Attributes:
      pool: ids of the training and validation nodes, rising.
      each: the divisions, all of the same sizes.
      words: what judges, for a line.
    """

    pool: np.ndarray
    each: tuple[HoldOut, ...]
    words: str


def hold_outs(graph: HetGraph, seed: int, whole: bool = False) -> HoldOuts | None:
    """Return the divisions that judge candidates on a graph; None where too few nodes are labelled.

    Args:
      seed: of the divisions that are drawn.
      whole: whether the validation nodes judge, however few; the graph's training nodes alone are trained on.
    """
    train, validation = graph.splits["train"], graph.splits["validation"]
    if len(validation) >= ENOUGH or whole:
        pool = np.union1d(train, validation)
        places = (np.searchsorted(pool, np.sort(nodes)) for nodes in (train, validation))
        return HoldOuts(pool, (HoldOut(*places),), f"{len(validation):,} validation nodes") if len(validation) else None
    pool = np.union1d(train, validation)
    if len(pool) < LEAST:
        return None
    held = min(len(validation) or len(pool), len(pool) // SHARE)
    count = min(MOST, -(-ENOUGH // held))
    rng = np.random.Generator(np.random.Philox(seed))
    each = []
    for _ in range(count):
        order = rng.permutation(len(pool))
        each.append(HoldOut(np.sort(order[held:]), np.sort(order[:held])))
    named = "training and validation nodes" if len(validation) else "training nodes"
    return HoldOuts(pool, tuple(each), f"{count} times {held:,} of the {len(pool):,} {named}")
